//! Tables with aligned columns. Digests are short, except in wide output. In a terminal that is too narrow for a
//! table, the columns are closer, versions are without their digest unless it tells two apart, and rows are cut to its
//! width; `…` says where something is missing.

use std::{collections::BTreeMap, io::Write};

use anstyle::Style;

use super::terminal::{PLAIN, clean, columns, cut, paint, short, wrap};

const GAP: &str = "   ";
/// Between the columns of a table that does not fit otherwise.
const NARROW_GAP: &str = "  ";
/// Before what is below a row.
const INDENT: &str = "    ";
/// How many digits a short digest has.
const DIGEST_DIGITS: usize = 12;

/// A text and its style.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableCell {
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

    fn shortened(&self) -> Self {
        Self {
            text: short(&self.text),
            ..*self
        }
    }

    /// With short digests, and without those of versions that have only one: `6.2.0` of `6.2.0@756cfacdb73d`.
    fn narrowed(&self, digests: &VersionDigests) -> Self {
        let text = short(&self.text);
        let words = text.split(' ').map(|word| match version_and_digest(word) {
            Some((version, _)) if digests.is_unique(version) => version,
            _ => word,
        });
        Self {
            text: words.collect::<Vec<_>>().join(" "),
            ..*self
        }
    }
}

/// `6.2.0@756cfacdb73d`
fn version_and_digest(word: &str) -> Option<(&str, &str)> {
    let (version, digest) = word.rsplit_once('@')?;
    let is_digest =
        digest.len() == DIGEST_DIGITS && digest.bytes().all(|it| it.is_ascii_hexdigit());
    (is_digest && !version.is_empty()).then_some((version, digest))
}

/// The digest of each version in a table; nothing for a version with several.
#[derive(Default)]
struct VersionDigests(BTreeMap<String, Option<String>>);

impl VersionDigests {
    fn add(&mut self, cell: &TableCell) {
        let text = short(&cell.text);
        for (version, digest) in text.split(' ').filter_map(version_and_digest) {
            let known = self.0.entry(version.to_owned());
            let known = known.or_insert_with(|| Some(digest.to_owned()));
            if known.as_deref() != Some(digest) {
                *known = None;
            }
        }
    }

    fn is_unique(&self, version: &str) -> bool {
        self.0.get(version).is_some_and(Option::is_some)
    }
}

impl<T: AsRef<str>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::styled(text.as_ref(), PLAIN)
    }
}

/// Writes the rows of one table, also in several parts with the same columns.
pub(crate) struct TableWriter {
    /// The width of the terminal; `None` if the output is not one.
    limit: Option<usize>,
    /// Whether digests are written whole.
    is_wide: bool,
    /// Whether the first rows did not fit into the terminal.
    is_narrow: bool,
    /// Whether a column is below each row; unknown before the first rows.
    is_split: Option<bool>,
    /// Whether the header is still to be written.
    needs_header: bool,
    widths: Vec<usize>,
    digests: VersionDigests,
}

impl TableWriter {
    pub(crate) fn new(limit: Option<usize>, has_header: bool) -> Self {
        Self {
            limit,
            is_wide: false,
            is_narrow: false,
            is_split: None,
            needs_header: has_header,
            widths: Vec::new(),
            digests: VersionDigests::default(),
        }
    }

    /// A table of any width, with everything that is known.
    pub(super) fn wide(has_header: bool) -> Self {
        Self {
            is_wide: true,
            ..Self::new(None, has_header)
        }
    }

    /// Writes rows, before the first ones the header. Columns only get wider.
    pub(super) fn write(
        &mut self,
        out: &mut dyn Write,
        header: &[&str],
        rows: &[Vec<TableCell>],
    ) -> std::io::Result<()> {
        let all = self.measure(header, rows);
        self.needs_header = false;
        for row in &all {
            writeln!(out, "{}", line(row, (&self.widths, self.gap()), self.limit))?;
        }
        Ok(())
    }

    /// Writes rows. Where the terminal would cut a column, it is below each row, in lines that fit; the first rows
    /// decide about it.
    pub(crate) fn write_below(
        &mut self,
        out: &mut dyn Write,
        (header, mut rows): (&[&str], Vec<Vec<TableCell>>),
        column: usize,
    ) -> std::io::Result<()> {
        rows.iter().flatten().for_each(|it| self.digests.add(it));
        let before: Vec<_> = rows.iter().map(|row| row[..=column].to_vec()).collect();
        let is_cut = !self.fits(&header[..=column], &before);
        if !*self.is_split.get_or_insert(is_cut) {
            return self.write(out, header, &rows);
        }
        let mut header = header.to_vec();
        header.remove(column);
        let below: Vec<_> = rows.iter_mut().map(|row| row.remove(column)).collect();
        self.measure(&header, &rows);
        let room = self.limit.map(|limit| limit.saturating_sub(INDENT.len()));
        for (row, below) in rows.into_iter().zip(below) {
            self.write(out, &header, &[row])?;
            for line in wrap(&below.narrowed(&self.digests).text, room) {
                writeln!(out, "{INDENT}{line}")?;
            }
        }
        Ok(())
    }

    /// Makes the columns wide enough for rows that are written later. Returns the lines as they are shown.
    pub(super) fn measure(
        &mut self,
        header: &[&str],
        rows: &[Vec<TableCell>],
    ) -> Vec<Vec<TableCell>> {
        rows.iter().flatten().for_each(|it| self.digests.add(it));
        // Later rows are like the first ones.
        self.is_narrow |= self.widths.is_empty() && !self.fits(header, rows);
        let all = self.lines(header, rows);
        self.widths = self.widths(header, &all);
        all
    }

    /// Whether these rows fit into the terminal without being cut.
    pub(super) fn fits(&self, header: &[&str], rows: &[Vec<TableCell>]) -> bool {
        let widths = self.widths(header, &self.lines(header, rows));
        let gaps = self.gap().len() * header.len().saturating_sub(1);
        let width = widths.iter().sum::<usize>() + gaps;
        self.limit.is_none_or(|limit| width <= limit)
    }

    /// The header, if it is still to be written, and the rows as they are shown.
    fn lines(&self, header: &[&str], rows: &[Vec<TableCell>]) -> Vec<Vec<TableCell>> {
        let names = header.iter().map(TableCell::from).collect();
        let names = self.needs_header.then_some(names);
        let rows = rows.iter().map(|row| self.shown(row));
        names.into_iter().chain(rows).collect()
    }

    /// The widths of the columns with more lines.
    fn widths(&self, header: &[&str], lines: &[Vec<TableCell>]) -> Vec<usize> {
        let mut widths = self.widths.clone();
        widths.resize(header.len(), 0);
        for (column, width) in widths.iter_mut().enumerate() {
            let cells = lines.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| columns(&cell.text)).max().unwrap_or(0);
            *width = widest.max(*width);
        }
        widths
    }

    fn gap(&self) -> &'static str {
        match self.is_narrow {
            true => NARROW_GAP,
            false => GAP,
        }
    }

    fn shown(&self, row: &[TableCell]) -> Vec<TableCell> {
        match (self.is_wide, self.is_narrow) {
            (true, _) => row.to_vec(),
            (false, true) => row.iter().map(|it| it.narrowed(&self.digests)).collect(),
            (false, false) => row.iter().map(TableCell::shortened).collect(),
        }
    }
}

fn line(row: &[TableCell], (widths, gap): (&[usize], &str), limit: Option<usize>) -> String {
    let mut line = String::new();
    // Where the text of the last cell ends, and where the next one begins.
    let (mut end, mut used) = (0, 0);
    let last = row.len().saturating_sub(1);
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let left = limit.map_or(usize::MAX, |limit| limit.saturating_sub(used));
        if left == 0 {
            return with_hint(line, end, limit);
        }
        let text = cut(&cell.text, left);
        line.push_str(&paint(cell.style, &text));
        if index != last && left <= *width {
            return with_hint(line, used + columns(&text), limit);
        }
        if index == last {
            break;
        }
        end = used + columns(&text);
        line.push_str(&" ".repeat(width - columns(&text)));
        line.push_str(gap);
        used += width + gap.len();
    }
    // What is left of the last column may be nothing but the gap before it.
    line.truncate(line.trim_end().len());
    line
}

/// The line up to `end`, followed by `…` for the columns that have no room, if there is room for that.
fn with_hint(mut line: String, end: usize, limit: Option<usize>) -> String {
    line.truncate(line.trim_end().len());
    match limit.map_or(0, |limit| limit.saturating_sub(end)) {
        0 => {}
        1 => line.push('…'),
        _ => line.push_str(" …"),
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(writer: &mut TableWriter, rows: &[[&str; 3]]) -> String {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| row.map(TableCell::from).to_vec())
            .collect();
        let mut out = Vec::new();
        let header = ["NAME", "REVISION", "STATE"];
        writer.write(&mut out, &header, &rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[track_caller]
    fn check(width: Option<usize>, expected: &str) {
        let rows = [["shop", "1.0.0", "all is well"], ["日本", "", "waits"]];
        let text = print(&mut TableWriter::new(width, true), &rows);
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
        NAME  REVISION  STATE
        shop  1.0.0     all is …
        日本  -         waits",
        );
    }

    #[test]
    fn a_column_that_would_be_cut_is_below_its_row() {
        let rows = |state: &str| vec![["shop", state, "1d"].map(TableCell::from).to_vec()];
        let print = |writer: &mut TableWriter, state: &str| {
            let mut out = Vec::new();
            let written = writer.write_below(&mut out, (&["NAME", "STATE", "AGE"], rows(state)), 1);
            written.unwrap();
            String::from_utf8(out).unwrap()
        };
        let long = "dev 1.0.0 > prod 1.0.0@0123456789ab";
        let mut narrow = TableWriter::new(Some(26), true);
        let expected = "NAME   AGE\nshop   1d\n    dev 1.0.0 > prod 1.0.0\n";
        assert_eq!(print(&mut narrow, long), expected);
        // Later rows are like the first ones.
        assert_eq!(print(&mut narrow, "a"), "shop   1d\n    a\n");
        let mut wide = TableWriter::new(Some(60), true);
        let expected = "NAME   STATE   AGE\nshop   a       1d\n";
        assert_eq!(print(&mut wide, "a"), expected);
        // What follows the column may be cut.
        let mut cut = TableWriter::new(Some(43), false);
        assert_eq!(print(&mut cut, long), "shop  dev 1.0.0 > prod 1.0.0  1d\n");
    }

    #[test]
    fn a_narrow_table_has_versions_without_digests() {
        let digest = "1.0@sha256:".to_owned() + &"ab".repeat(32);
        let bare = "sha256:".to_owned() + &"cd".repeat(32);
        let rows = [
            ["web", digest.as_str(), "waits for approval"],
            ["api", bare.as_str(), "ready"],
        ];
        let text = print(&mut TableWriter::new(Some(34), false), &rows);
        assert_eq!(
            text,
            "web  1.0                  waits f…\napi  sha256:cdcdcdcdcdcd  ready\n"
        );
    }

    #[test]
    fn digests_that_tell_two_releases_of_one_version_apart_stay() {
        let branch = |digit: &str| format!("main@sha256:{}", digit.repeat(64));
        let both = format!("dev {} > prod {}", branch("a"), branch("b"));
        let rows = [["web", both.as_str(), "ready"]];
        let text = print(&mut TableWriter::new(Some(59), false), &rows);
        let expected = "web  dev main@aaaaaaaaaaaa > prod main@bbbbbbbbbbbb  ready\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let rows = [["shop", "1.0.0", "all is well"], ["日本", "", "waits"]];
        for width in 1..40 {
            let text = print(&mut TableWriter::new(Some(width), true), &rows);
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn later_rows_keep_the_columns_and_have_no_header() {
        let mut writer = TableWriter::new(None, false);
        let first = print(&mut writer, &[["warehouse", "1", "a"]]);
        assert_eq!(first, "warehouse   1   a\n");
        let second = print(&mut writer, &[["shop", "2", "b"]]);
        assert_eq!(second, "shop        2   b\n");
    }

    #[test]
    fn digests_are_whole_in_wide_tables_only() {
        let digest = format!("1.0@sha256:{}", "ab".repeat(32));
        let rows = [["web", digest.as_str(), "ready"]];
        for width in [Some(60), None] {
            let text = print(&mut TableWriter::new(width, false), &rows);
            assert_eq!(text, "web   1.0@abababababab   ready\n");
        }
        assert!(print(&mut TableWriter::wide(false), &rows).contains(&digest));
    }

    #[test]
    fn columns_without_room_leave_a_hint() {
        let rows = [["shop", "1.0.0", "all is well"]];
        // At 11 columns the second one ends exactly at the edge.
        for width in (8..17).filter(|width| *width != 11) {
            let text = print(&mut TableWriter::new(Some(width), false), &rows);
            assert!(text.trim_end().ends_with('…'), "{width}: {text:?}");
        }
    }
}
