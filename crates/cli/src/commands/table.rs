//! Tables with aligned columns, truncated to the width of a terminal, never in a pipe.

use std::io::Write;

use anstyle::Style;

use super::terminal::{PLAIN, clean, columns, cut, paint};

const GAP: &str = "   ";

/// A text and its style.
#[derive(Clone, Debug)]
pub(super) struct TableCell {
    text: String,
    style: Style,
}

impl TableCell {
    pub(super) fn styled(text: &str, style: Style) -> Self {
        let text = match text.is_empty() {
            true => "-".to_owned(),
            false => clean(text),
        };
        Self { text, style }
    }
}

impl<T: AsRef<str>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::styled(text.as_ref(), PLAIN)
    }
}

/// Writes a table. With a width, rows are truncated to fit.
pub(super) fn write(
    out: &mut dyn Write,
    header: &[&str],
    rows: &[Vec<TableCell>],
    width: Option<usize>,
) -> std::io::Result<()> {
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let cells = cells.map(|cell| columns(&cell.text));
        cells.chain([columns(header[column])]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(widest).collect();
    let names: Vec<TableCell> = header.iter().map(TableCell::from).collect();
    for row in [&names].into_iter().chain(rows) {
        writeln!(out, "{}", line(row, &widths, width))?;
    }
    Ok(())
}

fn line(row: &[TableCell], widths: &[usize], limit: Option<usize>) -> String {
    let mut line = String::new();
    let mut used = 0;
    let last = row.len().saturating_sub(1);
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let left = limit.map_or(usize::MAX, |limit| limit.saturating_sub(used).max(1));
        let text = cut(&cell.text, left);
        line.push_str(&paint(cell.style, &text));
        if index == last || left <= *width {
            break;
        }
        line.push_str(&" ".repeat(width - columns(&text)));
        line.push_str(GAP);
        used += width + GAP.len();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(width: Option<usize>, expected: &str) {
        let rows = [["shop", "1.0.0", "all is well"], ["日本", "", "waits"]];
        let rows = rows.map(|row| row.map(TableCell::from).to_vec());
        let mut out = Vec::new();
        write(&mut out, &["NAME", "REVISION", "STATE"], &rows, width).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.trim_end(), expected.replace("\n        ", "\n").trim());
    }

    #[test]
    fn columns_align_and_fit_the_terminal() {
        check(
            None,
            "
        NAME   REVISION   STATE
        shop   1.0.0      all is well
        日本   -          waits",
        );
        check(
            Some(24),
            "
        NAME   REVISION   STATE
        shop   1.0.0      all i…
        日本   -          waits",
        );
    }
}
