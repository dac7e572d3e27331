//! Makes lines readable as they are written: digests are short, and no line is wider than the terminal.

use std::io::{self, Write};

use super::terminal;

/// How much further than the line the rest of it is indented.
const HANGING_INDENT: usize = 2;
/// How much of the width an indentation may take.
const MAX_INDENT: usize = 3;

/// Writes lines with short digests that are not wider than the terminal: it breaks them at spaces, and words
/// that are wider than a line anywhere.
pub(super) struct LineWrapper<'a> {
    out: &'a mut dyn Write,
    /// The width of the terminal; `None` if the output is not one.
    width: Option<usize>,
    /// The line so far.
    line: Vec<u8>,
}

impl<'a> LineWrapper<'a> {
    /// Wraps to the width of the terminal.
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self::with_width(out, terminal::width())
    }

    /// Wraps to a width, if there is one.
    pub(super) fn with_width(out: &'a mut dyn Write, width: Option<usize>) -> Self {
        Self {
            out,
            width,
            line: Vec::new(),
        }
    }

    /// The output without wrapping.
    pub(super) fn plain(&mut self) -> &mut dyn Write {
        self.out
    }

    fn take_line(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        String::from_utf8_lossy(&line).into_owned()
    }

    fn end_line(&mut self) -> io::Result<()> {
        for part in self.parts() {
            writeln!(self.out, "{part}")?;
        }
        Ok(())
    }

    /// The line so far, as it is shown.
    fn parts(&mut self) -> Vec<String> {
        let line = terminal::short(&self.take_line());
        match self.width {
            Some(width) => wrapped(&line, width),
            None => vec![line],
        }
    }
}

impl Write for LineWrapper<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line()?,
                byte => self.line.push(*byte),
            }
        }
        Ok(bytes.len())
    }

    /// Also writes a line that has no end yet.
    fn flush(&mut self) -> io::Result<()> {
        let parts = self.parts();
        self.out.write_all(parts.join("\n").as_bytes())?;
        self.out.flush()
    }
}

/// A text of a line that is not broken: a letter, or an escape sequence, which takes no room.
struct Piece<'a> {
    text: &'a str,
    columns: usize,
}

/// The line in parts of a width, all but the first with a hanging indentation.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let pieces = pieces(line);
    let width = width.max(1);
    if pieces.iter().map(|it| it.columns).sum::<usize>() <= width {
        return vec![line.to_owned()];
    }
    let spaces = pieces.iter().take_while(|it| it.text == " ").count();
    let indent = (spaces + HANGING_INDENT).min(width / MAX_INDENT);
    let mut lines = Vec::new();
    let mut rest = pieces.as_slice();
    while !rest.is_empty() {
        let indent = match lines.is_empty() {
            true => 0,
            false => indent,
        };
        let (part, left) = rest.split_at(part_length(rest, width - indent));
        let text: String = part.iter().map(|it| it.text).collect();
        lines.push(format!("{}{}", " ".repeat(indent), text.trim_end()));
        let skipped = left.iter().take_while(|it| it.text == " ").count();
        rest = &left[skipped..];
    }
    lines
}

/// How many pieces fit into a line: up to a space, or as many as fit if there is none. At least one.
fn part_length(pieces: &[Piece<'_>], width: usize) -> usize {
    let mut used = 0;
    let fits = pieces.iter().take_while(|it| {
        used += it.columns;
        used <= width
    });
    let fits = fits.count();
    if fits == pieces.len() || pieces[fits].text == " " {
        return fits.max(1);
    }
    let leading = pieces.iter().take_while(|it| it.text == " ").count();
    let last_space = pieces[..fits].iter().rposition(|it| it.text == " ");
    let at = last_space.filter(|at| *at >= leading);
    at.unwrap_or(fits).max(1)
}

fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_escape = rest.starts_with("\u{1b}[");
        let end = rest.find('m').filter(|_| is_escape).map(|at| at + 1);
        let (text, left) = rest.split_at(end.unwrap_or(first.len_utf8()));
        let columns = match end {
            Some(_) => 0,
            None => terminal::columns(text),
        };
        pieces.push(Piece { text, columns });
        rest = left;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(width: Option<usize>, text: &str) -> String {
        let mut out = Vec::new();
        let mut wrapper = LineWrapper::with_width(&mut out, width);
        // In parts, as `write!` does it.
        for part in text.split_inclusive(' ') {
            wrapper.write_all(part.as_bytes()).unwrap();
        }
        wrapper.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let written = write(Some(20), &format!("{text}\n"));
        assert_eq!(written.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn lines_are_broken_at_spaces_with_a_hanging_indentation() {
        check("twenty columns wide!", &["twenty columns wide!"]);
        check("one two three four five", &["one two three four", "  five"]);
        let nested = "  prod: waits for the approval of somebody";
        let expected = ["  prod: waits for", "    the approval of", "    somebody"];
        check(nested, &expected);
    }

    #[test]
    fn long_words_and_wide_letters_are_broken_anywhere() {
        let url = "https://git.example.com/fleet/pulls/17";
        check(url, &["https://git.example.", "  com/fleet/pulls/17"]);
        check(
            &format!("see {url}"),
            &[
                "see",
                "  https://git.exampl",
                "  e.com/fleet/pulls/",
                "  17",
            ],
        );
        check(
            "日本日本日本日本日本日本",
            &["日本日本日本日本日本", "  日本"],
        );
    }

    #[test]
    fn colours_take_no_room() {
        let bold = "\u{1b}[1mtwenty columns\u{1b}[0m wide!";
        check(bold, &[bold]);
    }

    #[test]
    fn every_width_is_kept_and_no_letter_is_lost() {
        let text =
            "    a  b https://example.com/a-long-path \u{1b}[31mred and some more\u{1b}[0m words …";
        let letters = |text: &str| text.split_whitespace().collect::<String>();
        for width in 1..100 {
            let written = write(Some(width), &format!("{text}\n\nend"));
            for line in written.lines() {
                let columns: usize = pieces(line).iter().map(|it| it.columns).sum();
                assert!(columns <= width, "{width}: {line:?}");
            }
            assert_eq!(letters(&written), letters(&format!("{text}end")), "{width}");
        }
    }

    #[test]
    fn without_a_terminal_nothing_is_broken() {
        let text = "a line of the length that it has\n\nand an end";
        assert_eq!(write(None, text), text);
    }
}
