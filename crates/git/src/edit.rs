//! Sets the scalars of a YAML file that have a marker, and changes nothing else.
//!
//! A marker is a comment with a JSON object of strings with the key `$promotion`, on the line of a
//! scalar or alone on the line above it:
//!
//! ```yaml
//! version: 1.2.3 # {"$promotion": "team:app:prod"}
//! ```
//!
//! Only the bytes of marked scalars change; line endings, byte order mark, indentation, comments,
//! anchors, quotes and other documents do not. Every result is parsed again and compared with the
//! original before it is returned.

pub(crate) mod document;
mod marked_value;
mod marker;
mod scalar;
mod value_edit;
mod verify;

pub use value_edit::ValueEdit;

use std::collections::BTreeSet;

use net::Remedy;

use crate::manifest::PinnedVersion;
use marked_value::value_for;

/// Only files that contain these bytes are parsed.
const MARKER_KEY: &[u8] = b"\"$promotion\"";

/// Why a file cannot be edited.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Not UTF-8.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// Not YAML.
    #[error("the file is not valid YAML near line {line}")]
    NotYaml {
        /// Where the parser failed.
        line: usize,
    },
    /// The value is a block scalar.
    #[error("the value on line {line} is a block of text; write it as a single value")]
    BlockScalar {
        /// The first line of the block.
        line: usize,
    },
    /// The new value is not printable text.
    #[error("the new value is empty, too long or has control characters")]
    UnusableValue,
    /// The current value is a digest or commit, and that of the new version is not known.
    #[error("cannot set the marked value on line {line}: {because}")]
    Unsettable {
        /// The line of the value.
        line: usize,
        /// The end of the sentence.
        because: &'static str,
    },
    /// The value has a marker of somebody else.
    #[error(
        "the value on line {line} is marked for {marker:?}; promotions of anything else do not change it"
    )]
    MarkedForOther {
        /// The line of the value.
        line: usize,
        /// The marker.
        marker: String,
    },
    /// The edited file would differ in more than the value.
    #[error("changing the value near line {line} would change more than the value")]
    Ambiguous {
        /// The line of the first unexpected difference.
        line: usize,
    },
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotText | Self::NotYaml { .. } => "UnreadableFile",
            Self::BlockScalar { .. }
            | Self::Ambiguous { .. }
            | Self::Unsettable { .. }
            | Self::MarkedForOther { .. } => "UneditableFile",
            Self::UnusableValue => "UnusableValue",
        }
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        Remedy::Edit
    }
}

/// The result of an edit.
#[derive(Debug, PartialEq, Eq)]
pub struct EditedFile {
    /// The new content of the file.
    pub content: Vec<u8>,
    /// The number of scalars that were to be set.
    pub marked: usize,
    /// The number of those that had another value.
    pub changed: usize,
    /// The values that changed.
    pub edits: Vec<ValueEdit>,
}

/// All markers in a file.
pub fn markers(content: &[u8]) -> Result<BTreeSet<String>, Error> {
    if !may_contain_markers(content) {
        return Ok(BTreeSet::new());
    }
    let (_, text) = split_byte_order_mark(content)?;
    let document = document::read(text)?;
    Ok(marker::marked(text, &document)
        .into_iter()
        .map(|(_, marker)| marker)
        .collect())
}

/// A scalar and its new value.
type ScalarEdit<'a> = (&'a document::Scalar, &'a str);

/// Sets every scalar with the marker to the version.
pub fn set_marked(content: &[u8], marker: &str, version: &str) -> Result<EditedFile, Error> {
    set_marked_to(content, marker, &PinnedVersion::from(version))
}

/// Sets every scalar with the marker: a digest to the digest, a commit to the commit, all others to the
/// version.
pub fn set_marked_to(
    content: &[u8],
    marker: &str,
    pin: &PinnedVersion,
) -> Result<EditedFile, Error> {
    check_value(&pin.version)?;
    let unchanged = EditedFile {
        content: content.to_vec(),
        marked: 0,
        changed: 0,
        edits: Vec::new(),
    };
    if !may_contain_markers(content) {
        return Ok(unchanged);
    }
    let (byte_order_mark, text) = split_byte_order_mark(content)?;
    let document = document::read(text)?;
    let all = marker::marked(text, &document).into_iter();
    let with_marker = all.filter(|(_, own)| own == marker);
    let mut wanted = Vec::new();
    for (scalar, _) in with_marker {
        let value = value_for(scalar, pin)?;
        check_value(&value)?;
        wanted.push((scalar, value));
    }
    let targets = wanted.iter().map(|(scalar, value)| (*scalar, &**value));
    set(
        (byte_order_mark, text),
        &document,
        targets.collect(),
        splice,
    )
}

/// Sets the scalars with these event indices, which have no marker: what is marked belongs to the promotions
/// that the marker names.
pub(crate) fn set_events(content: &[u8], wanted: &[(usize, String)]) -> Result<EditedFile, Error> {
    let (byte_order_mark, text) = split_byte_order_mark(content)?;
    let document = document::read(text)?;
    let mut targets = Vec::new();
    for (event, value) in wanted {
        check_value(value)?;
        let mut scalars = document.scalars.iter();
        let scalar = scalars.find(|scalar| scalar.event == *event);
        targets.push((scalar.ok_or(Error::Ambiguous { line: 0 })?, value.as_str()));
    }
    let is_target = |event: usize| targets.iter().any(|(target, _)| target.event == event);
    let mut marked = marker::marked(text, &document).into_iter();
    if let Some((scalar, marker)) = marked.find(|(scalar, _)| is_target(scalar.event)) {
        let line = scalar.line;
        return Err(Error::MarkedForOther { line, marker });
    }
    targets.sort_by_key(|(scalar, _)| scalar.range.start);
    set((byte_order_mark, text), &document, targets, splice)
}

/// Writes the new values into a text.
type Editor = fn(&str, &[ScalarEdit<'_>]) -> String;

/// Sets the scalars with the editor, and checks that nothing else changed.
fn set(
    (byte_order_mark, text): (&[u8], &str),
    document: &document::Document,
    mut targets: Vec<ScalarEdit<'_>>,
    editor: Editor,
) -> Result<EditedFile, Error> {
    let marked = targets.len();
    targets.retain(|(scalar, value)| scalar.value != *value || scalar.is_null);
    if let Some((block, _)) = targets.iter().find(|(scalar, _)| scalar.is_block) {
        return Err(Error::BlockScalar { line: block.line });
    }
    let edited = editor(text, &targets);
    verify::only_these_changed(text, &edited, &targets)?;
    Ok(EditedFile {
        content: [byte_order_mark, edited.as_bytes()].concat(),
        marked,
        changed: targets.len(),
        edits: value_edit::value_edits(document, &targets),
    })
}

fn check_value(value: &str) -> Result<(), Error> {
    let is_printable = !value.is_empty() && value.len() <= 512 && !value.contains(char::is_control);
    is_printable.then_some(()).ok_or(Error::UnusableValue)
}

fn may_contain_markers(content: &[u8]) -> bool {
    content
        .windows(MARKER_KEY.len())
        .any(|window| window == MARKER_KEY)
}

/// The byte order mark, if there is one, and the text after it.
pub(crate) fn split_byte_order_mark(content: &[u8]) -> Result<(&[u8], &str), Error> {
    let text = std::str::from_utf8(content).map_err(|_| Error::NotText)?;
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    Ok((&content[..text.len() - rest.len()], rest))
}

fn splice(text: &str, targets: &[ScalarEdit<'_>]) -> String {
    let mut edited = String::with_capacity(text.len());
    let mut copied = 0;
    for (target, value) in targets {
        edited.push_str(&text[copied..target.range.start]);
        if target.range.is_empty() {
            edited.push(' ');
        }
        edited.push_str(&scalar::render(value, target.quotes));
        copied = target.range.end;
    }
    edited.push_str(&text[copied..]);
    edited
}

#[cfg(test)]
mod tests;
