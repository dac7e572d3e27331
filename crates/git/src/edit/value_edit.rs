//! The values that an edit replaces, with paths that people can read.
//!
//! A path stays the same when other documents of the file or other items of a list are added or removed,
//! as long as these have names.

use super::ScalarEdit;
use super::document::{Document, PathSegment, Scalar, YamlPath};

/// A value that is replaced in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueEdit {
    /// The path to the value, such as `spec.chart.spec.version`; in a file with several documents after
    /// kind and name of the object.
    pub path: String,
    /// The value before; `None` where there is none.
    pub old: Option<String>,
    /// The value after.
    pub new: String,
}

/// The edits as values.
pub(super) fn value_edits(document: &Document, targets: &[ScalarEdit<'_>]) -> Vec<ValueEdit> {
    let edit = |(scalar, value): &ScalarEdit<'_>| ValueEdit {
        path: path(document, &scalar.path),
        old: (!scalar.is_null).then(|| scalar.value.clone()),
        new: (*value).to_owned(),
    };
    targets.iter().map(edit).collect()
}

fn path(document: &Document, path: &YamlPath) -> String {
    let mut text = String::new();
    for (depth, segment) in path.segments.iter().enumerate() {
        let here = &path.segments[..depth];
        match segment {
            PathSegment::Key(key) if is_plain(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            PathSegment::Key(key) => text.push_str(&format!("[{key:?}]")),
            PathSegment::Item(index) => {
                let name = item_name(document, (path.document, here), *index);
                text.push_str(&name.map_or(format!("[{index}]"), |it| format!("[name={it}]")));
            }
        }
    }
    match object(document, path.document) {
        Some(object) => format!("{object} {text}"),
        None => text,
    }
}

fn is_plain(key: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !key.is_empty() && key.chars().all(is_word)
}

/// The document of a file with several: kind and name of the object, else its index.
fn object(document: &Document, index: usize) -> Option<String> {
    let last = document.scalars.iter().map(|it| it.path.document).max();
    if last.unwrap_or(0) == 0 {
        return None;
    }
    let label = |of: usize| {
        let kind = text_at(document, of, &["kind"])?;
        let name = text_at(document, of, &["metadata", "name"])?;
        Some(format!("{kind}/{name}"))
    };
    let own = label(index);
    let is_same = |other: &usize| *other != index && label(*other) == own;
    let is_unique = own.is_some() && !(0..=last.unwrap_or(0)).any(|other| is_same(&other));
    Some(match (own, is_unique) {
        (Some(own), true) => own,
        _ => format!("document[{index}]"),
    })
}

fn text_at<'a>(document: &'a Document, index: usize, keys: &[&str]) -> Option<&'a str> {
    let is_there = |scalar: &&Scalar| {
        let segments = &scalar.path.segments;
        scalar.path.document == index
            && segments.len() == keys.len()
            && segments
                .iter()
                .zip(keys)
                .all(|(segment, key)| matches!(segment, PathSegment::Key(name) if name == key))
    };
    let scalar = document.scalars.iter().find(is_there)?;
    Some(scalar.value.as_str()).filter(|value| is_printable(value))
}

/// The `name` of an item of a list, if no other item has the same.
fn item_name<'a>(
    document: &'a Document,
    (of, list): (usize, &[PathSegment]),
    index: usize,
) -> Option<&'a str> {
    let named = document.scalars.iter().filter_map(|scalar| {
        let rest = scalar.path.segments.strip_prefix(list)?;
        let [PathSegment::Item(item), PathSegment::Key(key)] = rest else {
            return None;
        };
        let is_name = scalar.path.document == of && key == "name";
        is_name.then_some((*item, scalar.value.as_str()))
    });
    let named: Vec<(usize, &str)> = named.collect();
    let (_, own) = named.iter().find(|(item, _)| *item == index)?;
    let is_unique = named.iter().filter(|(_, name)| name == own).count() == 1;
    Some(*own).filter(|own| is_unique && is_printable(own))
}

fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && !text.contains(|c: char| c.is_control() || c == ']')
}
