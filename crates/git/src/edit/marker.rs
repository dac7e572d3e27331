//! Assigns markers to scalars.
//!
//! The rules are those of the Weave pipeline-controller: the marker is a comment on the line where the
//! scalar ends, or after its key; else a single comment alone on the line above the scalar or its key.
//! A blank line in between, or a second comment above, separates the comment from the scalar. After a
//! more deeply indented block, the comment must have the same indentation as the scalar.

use std::collections::BTreeMap;

use super::document::{Comment, Document, Scalar, line_start};

/// A text with its lines and comments.
struct CommentedText<'a> {
    text: &'a str,
    lines: Vec<&'a str>,
    comments: BTreeMap<usize, &'a Comment>,
}

/// A scalar or key that a comment above it may belong to.
struct CommentAnchor {
    start: usize,
    line: usize,
    follows_deeper: bool,
    may_follow_dash: bool,
}

/// All scalars with a marker, and the marker.
pub(super) fn marked<'a>(text: &str, document: &'a Document) -> Vec<(&'a Scalar, String)> {
    let page = CommentedText {
        text,
        lines: text.lines().collect(),
        comments: document
            .comments
            .iter()
            .map(|comment| (comment.line, comment))
            .collect(),
    };
    let with_marker = |scalar| page.marker_of(scalar).map(|marker| (scalar, marker));
    document.scalars.iter().filter_map(with_marker).collect()
}

impl CommentedText<'_> {
    fn marker_of(&self, scalar: &Scalar) -> Option<String> {
        let own = CommentAnchor {
            start: scalar.range.start,
            line: scalar.line,
            follows_deeper: scalar.follows_deeper,
            may_follow_dash: true,
        };
        let own_line = || self.beside(scalar);
        let own_head = || self.above(&own).filter(|_| !scalar.is_null);
        let key = scalar.key.as_ref();
        let key_line = || key.and_then(|key| self.behind_key(key.end, key.end_line));
        let key_head = || {
            key.and_then(|key| {
                let (start, line, follows_deeper) = (key.start, key.line, key.follows_deeper);
                self.above(&CommentAnchor {
                    start,
                    line,
                    follows_deeper,
                    may_follow_dash: false,
                })
            })
        };
        own_line()
            .or_else(own_head)
            .or_else(key_line)
            .or_else(key_head)
    }

    /// On the line where the scalar ends; behind the `|` of a block.
    fn beside(&self, scalar: &Scalar) -> Option<String> {
        if scalar.is_null {
            return None;
        }
        if scalar.is_block {
            let header = scalar
                .key
                .as_ref()
                .map_or(scalar.line - 1, |key| key.end_line);
            return self.read(self.comments.get(&header)?);
        }
        let comment = self.comments.get(&scalar.end_line)?;
        let between = self.text.get(scalar.range.end..comment.range.start)?.trim();
        self.read(comment)
            .filter(|_| between.is_empty() || between == ",")
    }

    /// Behind a key whose value is empty or on another line.
    fn behind_key(&self, end: usize, line: usize) -> Option<String> {
        let comment = self.comments.get(&line)?;
        let between = self
            .text
            .get(end..comment.range.start)?
            .trim_start_matches([' ', '\t', ':']);
        let is_property = |word: &str| word.starts_with(['&', '!']);
        self.read(comment)
            .filter(|_| between.split_whitespace().all(is_property))
    }

    /// Alone on the line above.
    fn above(&self, place: &CommentAnchor) -> Option<String> {
        let lead_in = &self.text[line_start(self.text, place.start)..place.start];
        let before = lead_in.trim_start();
        if !may_stand_before(before, place.may_follow_dash) {
            return None;
        }
        let comment = self
            .comments
            .get(&self.line_of_comment_above(place.line)?)?;
        let comment_line = line_start(self.text, comment.range.start);
        let lead = &self.text[comment_line..comment.range.start];
        let is_alone = lead.chars().all(|c| matches!(c, ' ' | '\t' | '-' | '?'));
        let indentation = lead_in.len() - before.len();
        let is_misplaced = place.follows_deeper && lead.len() != indentation;
        let own_column = place.follows_deeper.then_some(lead.len());
        if !is_alone || is_misplaced || self.has_comment_above(comment.line, own_column) {
            return None;
        }
        self.read(comment)
    }

    fn line(&self, number: usize) -> Option<&str> {
        number
            .checked_sub(1)
            .and_then(|index| self.lines.get(index))
            .copied()
    }

    /// The line above, or the one above a `---` that begins the first document.
    fn line_of_comment_above(&self, line: usize) -> Option<usize> {
        let above = line.checked_sub(1)?;
        if self.comments.contains_key(&above) {
            return Some(above);
        }
        let mut above = above;
        if self.line(above)?.trim_end() != "---" {
            return None;
        }
        above = above.checked_sub(1)?;
        while self.line(above)?.starts_with('%') {
            above = above.checked_sub(1)?;
        }
        self.begins_document(above).then_some(above)
    }

    /// Only directives and blank lines before it, since the start or since `...`.
    fn begins_document(&self, line: usize) -> bool {
        let before = self.lines[..line.saturating_sub(1)].iter().rev();
        let mut before = before.skip_while(|line| line.trim().is_empty() || line.starts_with('%'));
        before.next().is_none_or(|line| line.trim_end() == "...")
    }

    /// Two comments in a row are one text, which is no marker; only where a deeper block ended can
    /// the first one belong to that block, if it stands elsewhere.
    fn has_comment_above(&self, line: usize, own_column: Option<usize>) -> bool {
        let mut above = line.saturating_sub(1);
        if self
            .line(above)
            .is_some_and(|line| line.trim_end() == "---")
        {
            above -= 1;
        }
        let Some(text) = self.line(above) else {
            return false;
        };
        let column = text.len() - text.trim_start().len();
        text[column..].starts_with('#') && own_column.is_none_or(|own| own == column)
    }

    fn read(&self, comment: &Comment) -> Option<String> {
        parse(&self.text[comment.range.clone()])
    }
}

/// What may stand between the start of a line and what a comment above it belongs to.
fn may_stand_before(before: &str, may_follow_dash: bool) -> bool {
    let mut words = before.split_whitespace().peekable();
    if words.peek().is_some_and(|word| match *word {
        "-" | ":" => may_follow_dash,
        word => word == "?",
    }) {
        words.next();
    }
    words.all(|word| word.starts_with(['&', '!']))
}

/// The marker in a comment: a JSON object of strings with the one key we look for.
fn parse(comment: &str) -> Option<String> {
    let object: BTreeMap<String, Option<String>> =
        serde_json::from_str(comment.trim_start_matches('#')).ok()?;
    object
        .get("$promotion")
        .cloned()
        .flatten()
        .filter(|marker| !marker.is_empty())
}
