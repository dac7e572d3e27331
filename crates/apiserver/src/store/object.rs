//! An object as the store holds it: the JSON text of responses, which takes a tenth of the memory of
//! the parsed form.
//!
//! `managedFields` are only in the text: they are rarely needed parsed, and as a tree they would be
//! larger than the object.
//!
//! The text between `metadata` and `status`, which is the spec of most kinds, is the spec text. A
//! change of the status neither parses nor writes it, but copies it from the old object to the new.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::StoreRevision;

const MANAGED_FIELDS: &str = "\"managedFields\":";

/// An object to be stored.
#[derive(Debug, Default)]
pub(crate) struct ObjectToStore {
    /// Without `managedFields`.
    pub(crate) object: Value,
    /// The `managedFields` as JSON; empty if there are none.
    pub(crate) managed_fields: String,
    /// Identifies the schema that the object was validated by; opaque to the store.
    pub(crate) schema_fingerprint: u64,
    /// The spec text, if `object` is without it.
    pub(crate) spec_text: Bytes,
}

impl From<Value> for ObjectToStore {
    fn from(object: Value) -> Self {
        Self {
            object,
            ..Self::default()
        }
    }
}

/// One revision of one object.
pub(crate) struct StoredObject {
    wire: Bytes,
    /// Where in the text the `managedFields` are: `"managedFields":…,`.
    managed_fields: ByteRange,
    /// Where in the text the spec is: `,"spec":…`. Not known for objects that were read from a file.
    spec_text: Option<ByteRange>,
    schema_fingerprint: u64,
    revision: StoreRevision,
    parsed: Mutex<ParsedCache>,
}

/// A range of bytes in a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl ByteRange {
    fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }
}

/// The cache of an object's parsed form.
enum ParsedCache {
    /// Not parsed yet; the first parse is cached.
    Empty,
    Cached(Arc<Value>),
    /// Unlikely to be needed: every parse starts from the text.
    Disabled,
}

impl StoredObject {
    /// An object at a revision, with its parsed form cached.
    pub(super) fn new(draft: ObjectToStore, revision: StoreRevision) -> Self {
        let mut draft = draft;
        draft.object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let (wire, managed_fields, spec_text) = encode(&draft);
        Self {
            wire: wire.into_boxed_slice().into(),
            managed_fields,
            spec_text: Some(spec_text),
            schema_fingerprint: draft.schema_fingerprint,
            revision,
            parsed: Mutex::new(match draft.spec_text.is_empty() {
                true => ParsedCache::Cached(Arc::new(draft.object)),
                false => ParsedCache::Empty,
            }),
        }
    }

    /// An object that was read from a file; `None` if the parts do not belong together.
    pub(super) fn restored(
        wire: Bytes,
        managed_fields: ByteRange,
        schema_fingerprint: u64,
        revision: StoreRevision,
    ) -> Option<Self> {
        let fits =
            managed_fields.start <= managed_fields.end && managed_fields.end as usize <= wire.len();
        fits.then(|| Self {
            wire,
            managed_fields,
            spec_text: None,
            schema_fingerprint,
            revision,
            parsed: Mutex::new(ParsedCache::Disabled),
        })
    }

    /// The same object at another revision.
    pub(super) fn at(&self, revision: StoreRevision) -> Self {
        let draft = ObjectToStore {
            object: Value::clone(&self.value()),
            managed_fields: String::from_utf8_lossy(self.managed_fields()).into_owned(),
            schema_fingerprint: self.schema_fingerprint,
            spec_text: Bytes::new(),
        };
        Self::new(draft, revision)
    }

    /// The object without its `managedFields`.
    pub(crate) fn value(&self) -> Arc<Value> {
        let mut parsed = self.parsed.lock();
        if let ParsedCache::Cached(value) = &*parsed {
            return value.clone();
        }
        let value = Arc::new(self.parse_without(&[self.managed_fields]));
        if let ParsedCache::Empty = &*parsed {
            *parsed = ParsedCache::Cached(value.clone());
        }
        value
    }

    /// Like [`StoredObject::value`], and stays parsed: for the few objects that every request reads.
    pub(crate) fn value_kept_parsed(&self) -> Arc<Value> {
        let value = self.value();
        *self.parsed.lock() = ParsedCache::Cached(value.clone());
        value
    }

    /// The object without its `managedFields` and its spec, and the spec text; `None` if there is
    /// none or its position is not known.
    pub(crate) fn without_spec(&self) -> Option<(Value, Bytes)> {
        let span = self.spec_text.filter(|span| span.start < span.end)?;
        let spec_text = self.wire.slice(span.start as usize..span.end as usize);
        Some((self.parse_without(&[self.managed_fields, span]), spec_text))
    }

    /// Parses the text without some ranges of it.
    fn parse_without(&self, parts: &[ByteRange]) -> Value {
        let mut text = Vec::with_capacity(self.wire.len());
        let mut from = 0;
        for part in parts {
            text.extend_from_slice(&self.wire[from..part.start as usize]);
            from = part.end as usize;
        }
        text.extend_from_slice(&self.wire[from..]);
        serde_json::from_slice(&text).expect("it was an object when it was stored")
    }

    /// The `managedFields` as JSON; empty if there are none.
    pub(crate) fn managed_fields(&self) -> &[u8] {
        let member = self.managed_fields.of(&self.wire);
        match member.is_empty() {
            true => member,
            false => &member[MANAGED_FIELDS.len()..member.len() - 1],
        }
    }

    /// The whole object as JSON.
    pub(crate) fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// Whether the text of the object contains this text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        memchr::memmem::find(&self.wire, text.as_bytes()).is_some()
    }

    /// Identifies the schema that the object was validated by.
    pub(crate) fn schema_fingerprint(&self) -> u64 {
        self.schema_fingerprint
    }

    pub(super) fn managed_fields_range(&self) -> ByteRange {
        self.managed_fields
    }

    /// The revision at which the object was written.
    pub(crate) fn revision(&self) -> StoreRevision {
        self.revision
    }

    /// Drops the parsed form and caches none from now on.
    pub(super) fn drop_parsed(&self) {
        *self.parsed.lock() = ParsedCache::Disabled;
    }
}

/// An object as JSON, and where in it the `managedFields` and the spec are.
fn encode(draft: &ObjectToStore) -> (Vec<u8>, ByteRange, ByteRange) {
    let mut wire = Vec::with_capacity(2048 + draft.managed_fields.len() + draft.spec_text.len());
    let (mut managed_fields, mut spec_text) = (ByteRange::default(), ByteRange::default());
    let mut separator = b'{';
    for (name, value) in draft.object.as_object().into_iter().flatten() {
        if spec_text.end == 0 && name.as_str() >= "status" {
            spec_text.end = length(wire.len());
        }
        wire.push(separator);
        separator = b',';
        write(&mut wire, name);
        wire.push(b':');
        if name == "metadata" {
            managed_fields = write_metadata(&mut wire, value, &draft.managed_fields);
            spec_text.start = length(wire.len());
            wire.extend_from_slice(&draft.spec_text);
        } else {
            write(&mut wire, value);
        }
    }
    if spec_text.end == 0 {
        spec_text.end = length(wire.len());
    }
    wire.push(b'}');
    (wire, managed_fields, spec_text)
}

/// Writes `managedFields` as the first member of metadata, which is never empty.
fn write_metadata(wire: &mut Vec<u8>, metadata: &Value, managed_fields: &str) -> ByteRange {
    if managed_fields.is_empty() {
        write(wire, metadata);
        return ByteRange::default();
    }
    let start = length(wire.len() + 1);
    wire.push(b'{');
    wire.extend_from_slice(MANAGED_FIELDS.as_bytes());
    wire.extend_from_slice(managed_fields.as_bytes());
    let brace = wire.len();
    write(wire, metadata);
    wire[brace] = b',';
    let end = length(brace + 1);
    ByteRange { start, end }
}

fn write(wire: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(wire, value).expect("an object has only texts as keys");
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("bodies are limited far below this")
}

impl std::fmt::Debug for StoredObject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.wire))
    }
}

impl PartialEq for StoredObject {
    fn eq(&self, other: &Self) -> bool {
        self.wire == other.wire
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_in_the_text_and_not_in_the_object() {
        let object = json!({"data": {"metadata": {}}, "kind": "X", "metadata": {"name": "a"}});
        let managed_fields = r#"[{"manager":"m"}]"#;
        let draft = ObjectToStore {
            object: object.clone(),
            managed_fields: managed_fields.to_owned(),
            schema_fingerprint: 7,
            spec_text: Bytes::new(),
        };
        let stored = StoredObject::new(draft, 3);
        let span = stored.managed_fields_range();
        let restored = StoredObject::restored(stored.wire().clone(), span, 7, 3).expect("fits");
        for stored in [&stored, &restored, &stored.at(3)] {
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = json!("3");
            assert_eq!(*stored.value(), expected);
            assert_eq!(stored.managed_fields(), managed_fields.as_bytes());
            expected["metadata"]["managedFields"] = json!([{"manager": "m"}]);
            let wire: Value = serde_json::from_slice(stored.wire()).expect("JSON");
            assert_eq!(wire, expected);
        }
        assert_eq!(StoredObject::new(object.into(), 1).managed_fields(), b"");
    }

    #[test]
    fn the_spec_text_is_copied_from_one_revision_to_the_next() {
        let whole = json!({
            "apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "resourceVersion": "1"},
            "spec": {"metadata": {}, "status": [1]}, "status": {"step": 1}, "type": "z",
        });
        for absent in [&["status"][..], &["type"], &["status", "type"], &[]] {
            let mut whole = whole.clone();
            for name in absent {
                whole.as_object_mut().expect("a map").remove(*name);
            }
            let first = StoredObject::new(whole.clone().into(), 1);
            let (mut object, spec_text) = first.without_spec().expect("a spec");
            assert_eq!(object.get("spec"), None);
            object["status"] = json!({"step": 2});
            let managed_fields = "[]".to_owned();
            let draft = ObjectToStore {
                object,
                managed_fields,
                spec_text,
                schema_fingerprint: 0,
            };
            let next = StoredObject::new(draft, 2);
            whole["status"] = json!({"step": 2});
            whole["metadata"]["resourceVersion"] = json!("2");
            assert_eq!(*next.value(), whole);
            assert_eq!(next.managed_fields(), b"[]");
            let again = next.without_spec().expect("a spec").0;
            assert_eq!(
                (again.get("spec"), &again["status"]),
                (None, &whole["status"])
            );
        }
        let bare = json!({"kind": "X", "metadata": {"name": "a"}, "status": {}});
        assert!(StoredObject::new(bare.into(), 1).without_spec().is_none());
    }
}
