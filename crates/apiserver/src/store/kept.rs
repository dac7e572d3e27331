//! An object as it is kept: as the text that goes over the wire, which takes a tenth of the memory
//! of the parsed form and is most answers already.
//!
//! Who owns which field (`managedFields`) is in the text and nowhere else: hardly anybody wants it
//! parsed, and as a tree it would be larger than the object.
//!
//! What stands between `metadata` and `status` (the spec, as a rule) is its middle. A change of the
//! status need not read or write it: its text goes from one state to the next.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Revision;

const OWNERS: &str = "\"managedFields\":";

/// An object on its way into the store.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Without `managedFields`.
    pub(crate) object: Value,
    /// The `managedFields` as JSON; empty if there are none.
    pub(crate) owners: String,
    /// What says how such an object looks; the store only remembers it.
    pub(crate) shape: u64,
    /// The middle, if the object is without it.
    pub(crate) middle: Bytes,
}

impl From<Value> for Draft {
    fn from(object: Value) -> Self {
        Self {
            object,
            ..Self::default()
        }
    }
}

/// One state of one object.
pub(crate) struct Kept {
    wire: Bytes,
    /// Where in it the `managedFields` stand: `"managedFields":…,`.
    owners: Span,
    /// Where in it the middle is: `,"spec":…`. Not known of what was read from a file.
    middle: Option<Span>,
    shape: u64,
    revision: Revision,
    parsed: Mutex<Parsed>,
}

/// A part of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }
}

/// The parsed form of an object.
enum Parsed {
    /// Nobody has asked for it.
    NotYet,
    Ready(Arc<Value>),
    /// Nobody is likely to ask for it any more.
    Forgotten,
}

impl Kept {
    /// Keeps an object as it is at a revision, parsed for now.
    pub(super) fn new(draft: Draft, revision: Revision) -> Self {
        let mut draft = draft;
        draft.object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let (wire, owners, middle) = written(&draft);
        Self {
            wire: wire.into_boxed_slice().into(),
            owners,
            middle: Some(middle),
            shape: draft.shape,
            revision,
            parsed: Mutex::new(match draft.middle.is_empty() {
                true => Parsed::Ready(Arc::new(draft.object)),
                false => Parsed::NotYet,
            }),
        }
    }

    /// Keeps what was kept before; `None` if the parts do not fit together.
    pub(super) fn restored(
        wire: Bytes,
        owners: Span,
        shape: u64,
        revision: Revision,
    ) -> Option<Self> {
        let fits = owners.start <= owners.end && owners.end as usize <= wire.len();
        fits.then(|| Self {
            wire,
            owners,
            middle: None,
            shape,
            revision,
            parsed: Mutex::new(Parsed::Forgotten),
        })
    }

    /// The same object, changed in nothing but its revision.
    pub(super) fn at(&self, revision: Revision) -> Self {
        let draft = Draft {
            object: Value::clone(&self.value()),
            owners: String::from_utf8_lossy(self.owners()).into_owned(),
            shape: self.shape,
            middle: Bytes::new(),
        };
        Self::new(draft, revision)
    }

    /// The object without its `managedFields`.
    pub(crate) fn value(&self) -> Arc<Value> {
        let mut parsed = self.parsed.lock();
        if let Parsed::Ready(value) = &*parsed {
            return value.clone();
        }
        let value = Arc::new(self.parse_without(&[self.owners]));
        if let Parsed::NotYet = &*parsed {
            *parsed = Parsed::Ready(value.clone());
        }
        value
    }

    /// Like [`Kept::value`], and stays parsed: for the few objects that every request asks for.
    pub(crate) fn lasting_value(&self) -> Arc<Value> {
        let value = self.value();
        *self.parsed.lock() = Parsed::Ready(value.clone());
        value
    }

    /// The object without its `managedFields` and its middle, and that middle; `None` if it is not
    /// known where that is, or if there is none.
    pub(crate) fn without_middle(&self) -> Option<(Value, Bytes)> {
        let span = self.middle.filter(|span| span.start < span.end)?;
        let middle = self.wire.slice(span.start as usize..span.end as usize);
        Some((self.parse_without(&[self.owners, span]), middle))
    }

    /// Parses the text without some parts of it.
    fn parse_without(&self, parts: &[Span]) -> Value {
        let mut text = Vec::with_capacity(self.wire.len());
        let mut from = 0;
        for part in parts {
            text.extend_from_slice(&self.wire[from..part.start as usize]);
            from = part.end as usize;
        }
        text.extend_from_slice(&self.wire[from..]);
        serde_json::from_slice(&text).expect("it was an object when it was kept")
    }

    /// The `managedFields` as JSON; empty if there are none.
    pub(crate) fn owners(&self) -> &[u8] {
        let member = self.owners.of(&self.wire);
        match member.is_empty() {
            true => member,
            false => &member[OWNERS.len()..member.len() - 1],
        }
    }

    /// The whole object as JSON.
    pub(crate) fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// Whether the text of the object has these words anywhere.
    pub(crate) fn mentions(&self, words: &str) -> bool {
        memchr::memmem::find(&self.wire, words.as_bytes()).is_some()
    }

    /// What said how the object looks when it was kept.
    pub(crate) fn shape(&self) -> u64 {
        self.shape
    }

    pub(super) fn owners_span(&self) -> Span {
        self.owners
    }

    /// The revision of the change that brought it.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// From now on it is parsed anew whenever somebody asks.
    pub(super) fn forget_parsed(&self) {
        *self.parsed.lock() = Parsed::Forgotten;
    }
}

/// A draft as JSON, and where in it the owners and the middle are.
fn written(draft: &Draft) -> (Vec<u8>, Span, Span) {
    let mut wire = Vec::with_capacity(2048 + draft.owners.len() + draft.middle.len());
    let (mut owners, mut middle) = (Span::default(), Span::default());
    let mut separator = b'{';
    for (name, value) in draft.object.as_object().into_iter().flatten() {
        if middle.end == 0 && name.as_str() >= "status" {
            middle.end = length(wire.len());
        }
        wire.push(separator);
        separator = b',';
        write(&mut wire, name);
        wire.push(b':');
        if name == "metadata" {
            owners = write_metadata(&mut wire, value, &draft.owners);
            middle.start = length(wire.len());
            wire.extend_from_slice(&draft.middle);
        } else {
            write(&mut wire, value);
        }
    }
    if middle.end == 0 {
        middle.end = length(wire.len());
    }
    wire.push(b'}');
    (wire, owners, middle)
}

/// Writes the owners as the first member of metadata, which is never empty.
fn write_metadata(wire: &mut Vec<u8>, metadata: &Value, owners: &str) -> Span {
    if owners.is_empty() {
        write(wire, metadata);
        return Span::default();
    }
    let start = length(wire.len() + 1);
    wire.push(b'{');
    wire.extend_from_slice(OWNERS.as_bytes());
    wire.extend_from_slice(owners.as_bytes());
    let brace = wire.len();
    write(wire, metadata);
    wire[brace] = b',';
    let end = length(brace + 1);
    Span { start, end }
}

fn write(wire: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(wire, value).expect("an object has only texts as keys");
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("bodies are limited far below this")
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.wire))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.wire == other.wire
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_in_the_text_and_not_in_the_object() {
        let object = json!({"data": {"metadata": {}}, "kind": "X", "metadata": {"name": "a"}});
        let owners = r#"[{"manager":"m"}]"#;
        let draft = Draft {
            object: object.clone(),
            owners: owners.to_owned(),
            shape: 7,
            middle: Bytes::new(),
        };
        let kept = Kept::new(draft, 3);
        let span = kept.owners_span();
        let restored = Kept::restored(kept.wire().clone(), span, 7, 3).expect("fits");
        for kept in [&kept, &restored, &kept.at(3)] {
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = json!("3");
            assert_eq!(*kept.value(), expected);
            assert_eq!(kept.owners(), owners.as_bytes());
            expected["metadata"]["managedFields"] = json!([{"manager": "m"}]);
            let wire: Value = serde_json::from_slice(kept.wire()).expect("JSON");
            assert_eq!(wire, expected);
        }
        assert_eq!(Kept::new(object.into(), 1).owners(), b"");
    }

    #[test]
    fn a_middle_goes_from_one_state_to_the_next() {
        let whole = json!({
            "apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "resourceVersion": "1"},
            "spec": {"metadata": {}, "status": [1]}, "status": {"step": 1}, "type": "z",
        });
        for absent in [&["status"][..], &["type"], &["status", "type"], &[]] {
            let mut whole = whole.clone();
            for name in absent {
                whole.as_object_mut().expect("a map").remove(*name);
            }
            let first = Kept::new(whole.clone().into(), 1);
            let (mut object, middle) = first.without_middle().expect("a spec");
            assert_eq!(object.get("spec"), None);
            object["status"] = json!({"step": 2});
            let owners = "[]".to_owned();
            let draft = Draft {
                object,
                owners,
                middle,
                shape: 0,
            };
            let next = Kept::new(draft, 2);
            whole["status"] = json!({"step": 2});
            whole["metadata"]["resourceVersion"] = json!("2");
            assert_eq!(*next.value(), whole);
            assert_eq!(next.owners(), b"[]");
            let again = next.without_middle().expect("a spec").0;
            assert_eq!(
                (again.get("spec"), &again["status"]),
                (None, &whole["status"])
            );
        }
        let bare = json!({"kind": "X", "metadata": {"name": "a"}, "status": {}});
        assert!(Kept::new(bare.into(), 1).without_middle().is_none());
    }
}
