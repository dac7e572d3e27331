//! Puts a value where a marker in a YAML file asks for it, and changes nothing else.
//!
//! A marker is a comment that is a JSON object of strings with the key `$promotion`, on the line of
//! a scalar or alone on the line above it:
//!
//! ```yaml
//! version: 1.2.3 # {"$promotion": "team:app:prod"}
//! ```
//!
//! Only the bytes of marked scalars change: line endings, byte order mark, indentation, comments,
//! anchors, quotes, other documents stay as they are. Every result is read again and compared
//! before it is handed out.

pub(crate) mod document;
mod fitting;
mod marker;
mod scalar;
mod verify;

use std::collections::BTreeSet;

use net::Remedy;

use crate::manifest::PinnedVersion;
use fitting::fitting;

/// The bytes a file must hold to be worth reading.
const TOKEN: &[u8] = b"\"$promotion\"";

/// Why a file was not edited.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Not UTF-8.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// Not YAML.
    #[error("the file is not valid YAML near line {line}")]
    NotYaml {
        /// Where the reader gave up.
        line: usize,
    },
    /// A text block, which no version can replace.
    #[error("what should change on line {line} is a block of text, not a single value")]
    BlockScalar {
        /// Where the block begins.
        line: usize,
    },
    /// The value is not one that belongs in a file.
    #[error("the value holds control characters or is empty or too long")]
    UnusableValue,
    /// What stands there is of a kind that is not known of the new version.
    #[error("cannot set the marked value on line {line}: {because}")]
    Unfitting {
        /// Where the value stands.
        line: usize,
        /// The end of the sentence.
        because: &'static str,
    },
    /// The result does not say what was meant. The file uses something we do not understand.
    #[error("changing the value near line {line} would change more than the value")]
    Ambiguous {
        /// Where the first unexpected difference is.
        line: usize,
    },
}

impl Error {
    /// A fixed word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotText | Self::NotYaml { .. } => "UnreadableFile",
            Self::BlockScalar { .. } | Self::Ambiguous { .. } | Self::Unfitting { .. } => {
                "UneditableFile"
            }
            Self::UnusableValue => "UnusableValue",
        }
    }

    /// What would help.
    pub fn remedy(&self) -> Remedy {
        Remedy::Edit
    }
}

/// What an edit came to.
#[derive(Debug, PartialEq, Eq)]
pub struct EditedFile {
    /// The file as it should be.
    pub content: Vec<u8>,
    /// How many scalars should have the value.
    pub marked: usize,
    /// How many of them had another value.
    pub changed: usize,
}

/// Every marker in a file. Nothing for files that cannot hold one.
pub fn markers(content: &[u8]) -> Result<BTreeSet<String>, Error> {
    if !may_hold_markers(content) {
        return Ok(BTreeSet::new());
    }
    let (_, text) = split_mark(content)?;
    let document = document::read(text)?;
    Ok(marker::marked(text, &document)
        .into_iter()
        .map(|(_, marker)| marker)
        .collect())
}

/// A scalar and the value it should have.
type Target<'a> = (&'a document::Scalar, &'a str);

/// Sets every scalar that carries the marker to the version.
pub fn set_marked(content: &[u8], marker: &str, version: &str) -> Result<EditedFile, Error> {
    set_marked_to(content, marker, &PinnedVersion::from(version))
}

/// Sets every scalar that carries the marker to what belongs there: a digest where a digest stands,
/// a commit where a commit stands, else the version.
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
    };
    if !may_hold_markers(content) {
        return Ok(unchanged);
    }
    let (mark, text) = split_mark(content)?;
    let document = document::read(text)?;
    let found = marker::marked(text, &document).into_iter();
    let ours = found.filter(|(_, found)| found == marker);
    let mut wanted = Vec::new();
    for (scalar, _) in ours {
        let value = fitting(scalar, pin)?;
        check_value(&value)?;
        wanted.push((scalar, value));
    }
    let targets = wanted.iter().map(|(scalar, value)| (*scalar, &**value));
    set(mark, text, targets.collect(), splice)
}

/// Sets the scalars at these events of the file.
pub(crate) fn set_events(content: &[u8], wanted: &[(usize, String)]) -> Result<EditedFile, Error> {
    let (mark, text) = split_mark(content)?;
    let document = document::read(text)?;
    let mut targets = Vec::new();
    for (event, value) in wanted {
        check_value(value)?;
        let mut scalars = document.scalars.iter();
        let scalar = scalars.find(|scalar| scalar.event == *event);
        targets.push((scalar.ok_or(Error::Ambiguous { line: 0 })?, value.as_str()));
    }
    targets.sort_by_key(|(scalar, _)| scalar.range.start);
    set(mark, text, targets, splice)
}

/// Writes the values of the targets into a text.
type Editor = fn(&str, &[Target<'_>]) -> String;

/// Lets an editor set the targets, and hands its work out only if nothing else came of it.
fn set(
    mark: &[u8],
    text: &str,
    mut targets: Vec<Target<'_>>,
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
        content: [mark, edited.as_bytes()].concat(),
        marked,
        changed: targets.len(),
    })
}

fn check_value(value: &str) -> Result<(), Error> {
    let is_printable = !value.is_empty() && value.len() <= 512 && !value.contains(char::is_control);
    is_printable.then_some(()).ok_or(Error::UnusableValue)
}

fn may_hold_markers(content: &[u8]) -> bool {
    content.windows(TOKEN.len()).any(|window| window == TOKEN)
}

/// The byte order mark, if there is one, and the text behind it.
pub(crate) fn split_mark(content: &[u8]) -> Result<(&[u8], &str), Error> {
    let text = std::str::from_utf8(content).map_err(|_| Error::NotText)?;
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    Ok((&content[..text.len() - rest.len()], rest))
}

fn splice(text: &str, targets: &[Target<'_>]) -> String {
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
