//! An object as it is kept: as the text that goes over the wire, which takes a tenth of the memory
//! of the parsed form and is most answers already.
//!
//! Who owns which field (`managedFields`) is in the text and nowhere else: hardly anybody wants it
//! parsed, and as a tree it would be larger than the object.

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
    /// Where in it the `managedFields` stand.
    hole: Hole,
    shape: u64,
    revision: Revision,
    /// The parsed form, while it is likely to be asked for.
    parsed: Mutex<Option<Arc<Value>>>,
}

/// The part of a text that is `"managedFields":…,`; empty if there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Kept {
    /// Keeps an object as it is at a revision, parsed for now.
    pub(super) fn new(draft: Draft, revision: Revision) -> Self {
        let mut object = draft.object;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let (wire, hole) = written(&object, &draft.owners);
        Self {
            wire: wire.into_boxed_slice().into(),
            hole,
            shape: draft.shape,
            revision,
            parsed: Mutex::new(Some(Arc::new(object))),
        }
    }

    /// Keeps what was kept before; `None` if the parts do not fit together.
    pub(super) fn restored(
        wire: Bytes,
        hole: Hole,
        shape: u64,
        revision: Revision,
    ) -> Option<Self> {
        let fits = hole.start <= hole.end && hole.end as usize <= wire.len();
        fits.then(|| Self {
            wire,
            hole,
            shape,
            revision,
            parsed: Mutex::new(None),
        })
    }

    /// The same object, changed in nothing but its revision.
    pub(super) fn at(&self, revision: Revision) -> Self {
        let draft = Draft {
            object: Value::clone(&self.value()),
            owners: String::from_utf8_lossy(self.owners()).into_owned(),
            shape: self.shape,
        };
        Self::new(draft, revision)
    }

    /// The object without its `managedFields`.
    pub(crate) fn value(&self) -> Arc<Value> {
        if let Some(parsed) = &*self.parsed.lock() {
            return parsed.clone();
        }
        let Hole { start, end } = self.hole;
        let text = [&self.wire[..start as usize], &self.wire[end as usize..]].concat();
        let parsed = serde_json::from_slice(&text);
        Arc::new(parsed.expect("it was an object when it was kept"))
    }

    /// The `managedFields` as JSON; empty if there are none.
    pub(crate) fn owners(&self) -> &[u8] {
        let Hole { start, end } = self.hole;
        let member = &self.wire[start as usize..end as usize];
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
        std::str::from_utf8(&self.wire).is_ok_and(|text| text.contains(words))
    }

    /// What said how the object looks when it was kept.
    pub(crate) fn shape(&self) -> u64 {
        self.shape
    }

    pub(super) fn hole(&self) -> Hole {
        self.hole
    }

    /// The revision of the change that brought it.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// From now on it is parsed anew whenever somebody asks.
    pub(super) fn forget_parsed(&self) {
        *self.parsed.lock() = None;
    }
}

/// The object with its owners as JSON, and where the owners are.
fn written(object: &Value, owners: &str) -> (Vec<u8>, Hole) {
    let mut wire = Vec::with_capacity(2048 + owners.len());
    let mut hole = Hole::default();
    let mut separator = b'{';
    for (name, value) in object.as_object().into_iter().flatten() {
        wire.push(separator);
        separator = b',';
        write(&mut wire, name);
        wire.push(b':');
        let start = wire.len() + 1;
        write(&mut wire, value);
        if name == "metadata" && !owners.is_empty() {
            let member = [OWNERS, owners, ","].concat();
            hole = Hole {
                start: length(start),
                end: length(start + member.len()),
            };
            wire.splice(start..start, member.into_bytes());
        }
    }
    wire.push(b'}');
    (wire, hole)
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
        };
        let kept = Kept::new(draft, 3);
        let restored = Kept::restored(kept.wire().clone(), kept.hole(), 7, 3).expect("fits");
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
}
