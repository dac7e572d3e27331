//! Terminal output: width, colours, and the glyph of each state.
//!
//! Text from clusters must pass [`clean`], which removes control characters.

use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
use planner::{Severity, SummaryState};
use unicode_width::UnicodeWidthStr;

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const PLAIN: Style = Style::new();
pub(super) const RED: Style = AnsiColor::Red.on_default();
pub(super) const GREEN: Style = AnsiColor::Green.on_default();
pub(super) const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const MAGENTA: Style = AnsiColor::Magenta.on_default();

/// How many digits of a digest people read.
const SHORT_DIGEST: usize = 12;
/// The width of a terminal that does not tell it.
const DEFAULT_WIDTH: usize = 80;

/// The width of the terminal, or what `COLUMNS` sets instead; `None` if stdout is not a terminal.
pub(crate) fn width() -> Option<usize> {
    width_of(&std::io::stdout())
}

/// The same for stderr, which is often a terminal while stdout is a pipe.
pub(super) fn message_width() -> Option<usize> {
    width_of(&std::io::stderr())
}

fn width_of(stream: &impl IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let set = std::env::var("COLUMNS").ok();
    let set = set.and_then(|columns| columns.parse().ok());
    let told = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = set.or_else(told).filter(|width| *width > 0);
    Some(width.unwrap_or(DEFAULT_WIDTH))
}

/// The colour of a state.
pub(super) fn state_style(state: SummaryState) -> Style {
    severity_style(state.severity())
}

/// The colour of a severity.
pub(super) fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Error => RED,
        Severity::Warning => YELLOW,
        Severity::Attention => MAGENTA,
        Severity::Progress => CYAN,
        Severity::Neutral => DIM,
        Severity::Success => GREEN,
    }
}

/// Text in a style.
pub(super) fn paint(style: Style, text: &str) -> String {
    match style == PLAIN {
        true => text.to_owned(),
        false => format!("{style}{text}{style:#}"),
    }
}

/// The glyph of a state in its colour.
pub(super) fn painted_glyph(state: SummaryState) -> String {
    paint(state_style(state), state.glyph())
}

/// The text without control and bidirectional formatting characters.
pub(super) fn clean(text: &str) -> String {
    let unprintable = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|c| match c {
            '\t' | '\n' => ' ',
            c if unprintable(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// A line as it is shown.
pub(super) fn shown(line: &str) -> String {
    short(&clean(line))
}

/// The text with digests and commits as people read them: `6.2.0@756cfacdb73d`. URLs stay whole.
pub(super) fn short(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.contains("://") {
        true => word.to_owned(),
        false => without_algorithm(&planner::shortened(word)),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Removes `sha256:` between a version and the digits of its digest.
fn without_algorithm(word: &str) -> String {
    let mut parts = word.split("@sha256:");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        short.push_str(if digits < SHORT_DIGEST {
            "@sha256:"
        } else {
            "@"
        });
        short.push_str(part);
    }
    short
}

/// The number of terminal columns of a text.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// The text, truncated with `…` to a number of columns.
pub(super) fn cut(text: &str, limit: usize) -> String {
    if columns(text) <= limit {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        if columns(&cut) + columns(c.encode_utf8(&mut [0; 4])) >= limit {
            break;
        }
        cut.push(c);
    }
    format!("{cut}…")
}

/// Wraps the text at spaces to lines of a width.
pub(super) fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a last line");
        if !line.is_empty() && columns(line) + 1 + columns(word) > width.max(20) {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_short_and_urls_whole() {
        let digest = "0123456789abcdef".repeat(4);
        let text = format!("dev runs 6.2.0@sha256:{digest}, sha256:{digest} https://x/{digest}");
        let expected =
            format!("dev runs 6.2.0@0123456789ab, sha256:0123456789ab https://x/{digest}");
        assert_eq!(short(&text), expected);
        assert_eq!(short(&short(&text)), expected);
        assert_eq!(
            short("latest@sha256:D of 6.1.0-rc.1"),
            "latest@sha256:D of 6.1.0-rc.1"
        );
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(clean("a\u{1b}[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb c\u{fffd}d");
    }

    #[test]
    fn long_text_is_truncated_by_columns_and_wrapped_by_words() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("abc", 3), "abc");
        let wrapped = wrap("one two three four five six", Some(20));
        assert_eq!(wrapped, ["one two three four", "five six"]);
    }
}
