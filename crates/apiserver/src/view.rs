//! In which form a client wants its objects: whole, only their metadata, or as rows of a table.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::{Server, query::Query, resource::Resource, store::Kept, table};

/// An object that is about to be shown.
pub(crate) enum Shown {
    Stored(Arc<Kept>),
    /// One that is not stored, or not like this.
    Made(Value),
}

impl Shown {
    /// An object with the text of its `managedFields`.
    pub(crate) fn made(mut object: Value, owners: &[u8]) -> Self {
        if !owners.is_empty() {
            let owners = serde_json::from_slice(owners).unwrap_or_default();
            object["metadata"]["managedFields"] = owners;
        }
        Self::Made(object)
    }

    /// The whole object as a version shows it.
    pub(crate) fn value(&self, resource: &Resource) -> Value {
        match self {
            Self::Stored(kept) => resource.present(kept),
            Self::Made(object) => object.clone(),
        }
    }
}

/// A form of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    Metadata,
    /// Rows with as much of each object as asked for.
    Table(Included),
}

/// What a row of a table says of its object beside the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Included {
    Nothing,
    Metadata,
    Object,
}

impl View {
    /// The form that the `Accept` header names first among those spoken here.
    pub(crate) fn of(headers: &HeaderMap, query: &Query) -> Self {
        let accept = headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let range = accept.split(',').find(|range| is_spoken(range));
        let form = range.unwrap_or_default().split(';').find_map(|parameter| {
            let (name, value) = parameter.trim().split_once('=')?;
            (name == "as").then_some(value)
        });
        match form {
            Some("Table") => Self::Table(match query.include_object.as_str() {
                "None" => Included::Nothing,
                "Object" => Included::Object,
                _ => Included::Metadata,
            }),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Self::Metadata,
            _ => Self::Whole,
        }
    }

    /// One stored object in this form, as JSON.
    pub(crate) fn text(self, server: &Server, resource: &Resource, stored: &Kept) -> Bytes {
        if self == Self::Whole && stored.shape() == resource.mark {
            return stored.wire().clone();
        }
        let object = resource.present(stored);
        self.show(server, resource, &object).to_string().into()
    }

    /// One object in this form.
    pub(crate) fn show(self, server: &Server, resource: &Resource, object: &Value) -> Value {
        match self {
            Self::Whole => object.clone(),
            Self::Metadata => partial(object),
            Self::Table(included) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let objects = std::slice::from_ref(object);
                table::table(server, resource, (included, metadata), objects)
            }
        }
    }
}

/// Whether a range of an `Accept` header can be answered.
pub(crate) fn is_spoken(range: &str) -> bool {
    let media_type = range.split(';').next().unwrap_or_default().trim();
    matches!(
        media_type,
        "*/*" | "application/*" | "application/json" | ""
    )
}

/// What is left of an object when only metadata is wanted.
pub(crate) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}
