//! The representations of objects in responses: the whole object, its metadata, or rows of a table.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::{Server, query::Query, resource::Resource, store::StoredObject, table};

/// An object in a response.
pub(crate) enum ResponseObject {
    Stored(Arc<StoredObject>),
    /// An object that is not stored as such, as in a dry run.
    Computed(Value),
}

impl ResponseObject {
    /// An object and the JSON of its `managedFields`.
    pub(crate) fn computed(mut object: Value, managed_fields: &[u8]) -> Self {
        if !managed_fields.is_empty() {
            let managed_fields = serde_json::from_slice(managed_fields).unwrap_or_default();
            object["metadata"]["managedFields"] = managed_fields;
        }
        Self::Computed(object)
    }

    /// The whole object in the version of `resource`.
    pub(crate) fn value(&self, resource: &Resource) -> Value {
        match self {
            Self::Stored(object) => resource.read_with_managed_fields(object),
            Self::Computed(object) => object.clone(),
        }
    }
}

/// A representation of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Representation {
    Whole,
    Metadata,
    /// Rows, each with the requested part of its object.
    Table(IncludedObject),
}

/// The part of the object in a row of a table, besides the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludedObject {
    Nothing,
    Metadata,
    Object,
}

impl Representation {
    /// The first supported representation in the `Accept` header.
    pub(crate) fn accepted(headers: &HeaderMap, query: &Query) -> Self {
        let accept = headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let range = accept.split(',').find(|range| is_supported(range));
        let form = range.unwrap_or_default().split(';').find_map(|parameter| {
            let (name, value) = parameter.trim().split_once('=')?;
            (name == "as").then_some(value)
        });
        match form {
            Some("Table") => Self::Table(match query.include_object.as_str() {
                "None" => IncludedObject::Nothing,
                "Object" => IncludedObject::Object,
                _ => IncludedObject::Metadata,
            }),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Self::Metadata,
            _ => Self::Whole,
        }
    }

    /// A stored object in this representation, as JSON.
    pub(crate) fn encode(
        self,
        server: &Server,
        resource: &Resource,
        stored: &StoredObject,
    ) -> Bytes {
        if self == Self::Whole && stored.schema_fingerprint() == resource.fingerprint {
            return stored.wire().clone();
        }
        let object = resource.read_with_managed_fields(stored);
        self.of(server, resource, &object).to_string().into()
    }

    /// An object in this representation.
    pub(crate) fn of(self, server: &Server, resource: &Resource, object: &Value) -> Value {
        match self {
            Self::Whole => object.clone(),
            Self::Metadata => partial_metadata(object),
            Self::Table(included) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let objects = std::slice::from_ref(object);
                table::table(server, resource, (included, metadata), objects)
            }
        }
    }
}

/// Whether a media range of an `Accept` header is supported.
pub(crate) fn is_supported(range: &str) -> bool {
    let media_type = range.split(';').next().unwrap_or_default().trim();
    matches!(
        media_type,
        "*/*" | "application/*" | "application/json" | ""
    )
}

/// The PartialObjectMetadata of an object.
pub(crate) fn partial_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}
