//! Draws boxes next to or below each other.

use anstyle::Style;
use planner::SummaryState;

use super::super::super::terminal::{BOLD, columns, cut, paint, painted_glyph};

/// Maximum width of the content of a box.
const MAX_WIDTH: usize = 40;
/// How many columns the frame of a box takes.
pub(super) const FRAME: usize = 4;
const ARROW: &str = " ─▶ ";
const NO_ARROW: &str = "    ";

pub(super) struct EnvironmentBox {
    pub(super) title: String,
    pub(super) lines: Vec<BoxLine>,
}

pub(super) struct BoxLine {
    pub(super) glyph: Option<SummaryState>,
    pub(super) text: String,
    pub(super) style: Style,
}

impl BoxLine {
    fn columns(&self) -> usize {
        columns(&self.text) + self.glyph.map_or(0, |_| 2)
    }

    fn paint(&self, width: usize) -> String {
        let glyph = self.glyph.map(|state| format!("{} ", painted_glyph(state)));
        let room = width - self.glyph.map_or(0, |_| 2);
        let text = cut(&self.text, room);
        let padding = " ".repeat(room - columns(&text));
        format!(
            "{}{}{padding}",
            glyph.unwrap_or_default(),
            paint(self.style, &text)
        )
    }
}

impl EnvironmentBox {
    pub(super) fn width(&self) -> usize {
        let content = self.lines.iter().map(BoxLine::columns);
        let widest = content.chain([columns(&self.title) + 2]).max();
        widest.unwrap_or(0).min(MAX_WIDTH)
    }

    /// The number of rows, with the frame.
    pub(super) fn height(&self) -> usize {
        self.lines.len() + 2
    }

    /// One row of a box whose content has a width.
    pub(super) fn row(&self, row: usize, height: usize, width: usize) -> String {
        match row {
            0 => {
                let title = cut(&self.title, width - 2);
                let rest = "─".repeat(width - 1 - columns(&title));
                format!("╭─ {} {rest}╮", paint(BOLD, &title))
            }
            row if row == height - 1 => format!("╰{}╯", "─".repeat(width + 2)),
            row => {
                let blank = " ".repeat(width);
                let line = self.lines.get(row - 1).map(|line| line.paint(width));
                format!("│ {} │", line.unwrap_or(blank))
            }
        }
    }
}

/// The boxes from left to right, if they fit.
pub(super) fn horizontal(boxes: &[EnvironmentBox], width: usize) -> Option<String> {
    let frames = boxes.iter().map(|it| it.width() + FRAME);
    let arrows = ARROW.chars().count() * boxes.len().saturating_sub(1);
    if boxes.is_empty() || frames.sum::<usize>() + arrows > width {
        return None;
    }
    let height = boxes.iter().map(EnvironmentBox::height).max()?;
    let mut text = String::new();
    for row in 0..height {
        let parts = boxes.iter().map(|it| it.row(row, height, it.width()));
        let parts: Vec<String> = parts.collect();
        let gap = match row {
            1 => ARROW,
            _ => NO_ARROW,
        };
        text.push_str(&parts.join(gap));
        text.push('\n');
    }
    Some(text)
}

/// The boxes as paragraphs. In a chain, an arrow leads from each to the next.
pub(super) fn vertical(boxes: &[EnvironmentBox], is_chain: bool) -> String {
    let mut text = String::new();
    for (index, it) in boxes.iter().enumerate() {
        match (index, is_chain) {
            (0, _) => {}
            (_, true) => text.push_str("  ▼\n"),
            (_, false) => text.push('\n'),
        }
        text.push_str(&format!("{}\n", paint(BOLD, &it.title)));
        for line in &it.lines {
            text.push_str(&format!("  {}\n", line.paint(line.columns())));
        }
    }
    text
}
