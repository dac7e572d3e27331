//! The stages of a write: the object that it reads, the one that it proposes, and the validated one.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::WriteOptions;
use crate::{metadata, representation::ResponseObject, resource::Resource, store::StoredObject};

/// An object as a write wants it.
pub(crate) struct ProposedObject {
    /// Without `managedFields`.
    pub(crate) object: Value,
    pub(super) managed_fields: ManagedFieldsUpdate,
}

/// How the `managedFields` change.
#[derive(Clone)]
pub(super) enum ManagedFieldsUpdate {
    /// The writer owns what it changes. Starts from these `managedFields`, or, if null, from those of
    /// the live object.
    Tracked(Value),
    /// An apply has computed them, as JSON.
    Computed(String),
}

impl From<Value> for ProposedObject {
    fn from(mut object: Value) -> Self {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let given = metadata.and_then(|metadata| metadata.remove("managedFields"));
        Self {
            object,
            managed_fields: ManagedFieldsUpdate::Tracked(given.unwrap_or_default()),
        }
    }
}

/// A validated object.
pub(super) struct PreparedObject {
    pub(super) object: Value,
    /// The JSON of its `managedFields`.
    pub(super) managed_fields: String,
    pub(super) warnings: Vec<String>,
}

impl PreparedObject {
    /// The object as in the response to a dry run.
    pub(super) fn into_response(self) -> (ResponseObject, Vec<String>) {
        (
            ResponseObject::computed(self.object, self.managed_fields.as_bytes()),
            self.warnings,
        )
    }
}

/// As much of a stored object as a write needs.
pub(super) struct PartialObject {
    pub(super) object: Arc<Value>,
    /// The spec text, if `object` is without it.
    pub(super) spec_text: Bytes,
}

impl PartialObject {
    pub(super) fn whole(resource: &Resource, stored: &StoredObject) -> Self {
        Self {
            object: resource.read(stored),
            spec_text: Bytes::new(),
        }
    }

    /// The object without its spec, if that is enough.
    pub(super) fn without_spec(
        resource: &Resource,
        options: &WriteOptions,
        stored: &StoredObject,
    ) -> Option<Self> {
        if !options.is_status_only || options.dry_run {
            return None;
        }
        let (object, spec_text) = resource.read_without_spec(stored)?;
        (!metadata::is_deleting(&object)).then(|| Self {
            object: Arc::new(object),
            spec_text,
        })
    }
}
