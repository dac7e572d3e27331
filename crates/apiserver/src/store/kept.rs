//! An object as it is kept: as text, which takes a tenth of the memory of the parsed form.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::{Revision, state::revision_of};

/// One state of one object.
pub(crate) struct Kept {
    text: Box<[u8]>,
    revision: Revision,
    /// The parsed form, while it is likely to be asked for.
    parsed: Mutex<Option<Arc<Value>>>,
}

impl Kept {
    /// Keeps an object, parsed for now.
    pub(super) fn new(object: Value) -> Self {
        let text = serde_json::to_vec(&object).expect("an object has only texts as keys");
        Self {
            text: text.into(),
            revision: revision_of(&object).unwrap_or_default(),
            parsed: Mutex::new(Some(Arc::new(object))),
        }
    }

    /// Keeps the text of an object, if it is one.
    pub(super) fn from_text(text: Box<[u8]>) -> serde_json::Result<Self> {
        let object: Value = serde_json::from_slice(&text)?;
        Ok(Self {
            text,
            revision: revision_of(&object).unwrap_or_default(),
            parsed: Mutex::new(None),
        })
    }

    /// The object.
    pub(crate) fn value(&self) -> Arc<Value> {
        if let Some(parsed) = &*self.parsed.lock() {
            return parsed.clone();
        }
        let parsed = serde_json::from_slice(&self.text);
        Arc::new(parsed.expect("it was an object when it was kept"))
    }

    /// The object as JSON.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The revision of the change that brought it.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// From now on it is parsed anew whenever somebody asks.
    pub(super) fn forget_parsed(&self) {
        *self.parsed.lock() = None;
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.text))
    }
}
