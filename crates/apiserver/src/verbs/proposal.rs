//! What a change sees of an object, what it proposes, and what becomes of that.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::Manner;
use crate::{metadata, resource::Resource, store::Kept, view::Shown};

/// What a change makes of an object.
pub(crate) struct Proposal {
    /// Without `managedFields`.
    pub(crate) object: Value,
    pub(super) owners: Owners,
}

/// Who is to own what afterwards.
#[derive(Clone)]
pub(super) enum Owners {
    /// Whoever changes it; to start from, what the writer says (null: what is).
    Tracked(Value),
    /// As an apply found out.
    Settled(String),
}

impl From<Value> for Proposal {
    fn from(mut object: Value) -> Self {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let given = metadata.and_then(|metadata| metadata.remove("managedFields"));
        Self {
            object,
            owners: Owners::Tracked(given.unwrap_or_default()),
        }
    }
}

/// An object that passed all checks.
pub(super) struct Prepared {
    pub(super) object: Value,
    /// The text of its `managedFields`.
    pub(super) owners: String,
    pub(super) warnings: Vec<String>,
}

impl Prepared {
    /// The object as it would be shown if it were stored.
    pub(super) fn shown(self) -> (Shown, Vec<String>) {
        (
            Shown::made(self.object, self.owners.as_bytes()),
            self.warnings,
        )
    }
}

/// As much of a stored object as a change has to see.
pub(super) struct Part {
    pub(super) object: Arc<Value>,
    /// The text of its middle, if the object is without it.
    pub(super) middle: Bytes,
}

impl Part {
    pub(super) fn whole(resource: &Resource, stored: &Kept) -> Self {
        Self {
            object: resource.bare(stored),
            middle: Bytes::new(),
        }
    }

    /// All but the middle, if that is enough.
    pub(super) fn small(resource: &Resource, manner: &Manner, stored: &Kept) -> Option<Self> {
        if !manner.spares_middle || manner.options.dry_run {
            return None;
        }
        let (object, middle) = resource.status_part(stored)?;
        (!metadata::is_deleting(&object)).then(|| Self {
            object: Arc::new(object),
            middle,
        })
    }
}
