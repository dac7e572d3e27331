//! In which form a client wants its objects: whole, only their metadata, or as rows of a table.

use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::{Server, query::Query, resource::Resource, table};

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
