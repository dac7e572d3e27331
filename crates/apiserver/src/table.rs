//! The table representation of objects, for `kubectl get`.
//!
//! The columns of custom kinds come from their definition, those of built-in kinds from here.

mod builtin;
mod duration;
mod event;
mod path;

use serde_json::{Value, json};

use crate::{
    Server, metadata, representation::IncludedObject, representation::partial_metadata,
    resource::Resource,
};

pub(crate) use path::JsonPath;

/// A column of a custom kind.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The entry in the table's `columnDefinitions`.
    definition: Value,
    kind: String,
    path: JsonPath,
}

impl Column {
    /// Reads an entry of `additionalPrinterColumns`; `None` if its path is invalid.
    pub(crate) fn read(column: &Value) -> Option<Self> {
        let text = |field: &str| metadata::text(column, &format!("/{field}")).to_owned();
        let description = match text("description") {
            empty if empty.is_empty() => {
                format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    text("jsonPath")
                )
            }
            given => given,
        };
        Some(Self {
            definition: json!({
                "name": text("name"),
                "type": text("type"),
                "format": text("format"),
                "description": description,
                "priority": column["priority"].as_i64().unwrap_or(0),
            }),
            kind: text("type"),
            path: JsonPath::parse(&text("jsonPath"))?,
        })
    }

    fn cell(&self, object: &Value, now: &str) -> Value {
        let Some(value) = self.path.first(object) else {
            return Value::Null;
        };
        match (self.kind.as_str(), value) {
            (_, Value::Null) => Value::Null,
            ("integer", value) => value
                .as_i64()
                .or_else(|| value.as_str()?.parse().ok())
                .map_or(Value::Null, Value::from),
            ("number", value) if value.is_number() => value.clone(),
            ("boolean", value) if value.is_boolean() => value.clone(),
            ("date", Value::String(time)) => duration::since(time, now).into(),
            ("string", Value::String(text)) => text.as_str().into(),
            ("string", _) => self.path.joined(object).into(),
            _ => Value::Null,
        }
    }
}

/// A column that is not from a definition.
fn definition(name: &str, kind: &str, priority: i64) -> Value {
    let format = if name == "Name" { "name" } else { "" };
    json!({
        "name": name,
        "type": kind,
        "format": format,
        "description": format!("{name} of the object"),
        "priority": priority,
    })
}

/// The columns of a kind.
pub(crate) fn columns(resource: &Resource) -> Vec<Value> {
    if resource.schema.is_none() {
        let columns = builtin::columns(resource).iter();
        return columns
            .map(|(name, kind, priority)| definition(name, kind, *priority))
            .collect();
    }
    let mut columns = vec![definition("Name", "string", 0)];
    columns.extend(
        resource
            .columns
            .iter()
            .map(|column| column.definition.clone()),
    );
    if resource.columns.is_empty() {
        columns.push(definition("Age", "date", 0));
    }
    columns
}

fn cells(resource: &Resource, object: &Value, now: &str) -> Vec<Value> {
    if resource.schema.is_none() {
        return builtin::cells(resource, object, now);
    }
    let mut cells = vec![object["metadata"]["name"].clone()];
    cells.extend(
        resource
            .columns
            .iter()
            .map(|column| column.cell(object, now)),
    );
    if resource.columns.is_empty() {
        cells.push(duration::age(object, now).into());
    }
    cells
}

/// One object as a row.
pub(crate) fn row(
    resource: &Resource,
    object: &Value,
    included: IncludedObject,
    now: &str,
) -> Value {
    let mut row = json!({"cells": cells(resource, object, now)});
    row["object"] = match included {
        IncludedObject::Nothing => Value::Null,
        IncludedObject::Metadata => partial_metadata(object),
        IncludedObject::Object => object.clone(),
    };
    row
}

/// Objects of one kind as a table.
pub(crate) fn table(
    server: &Server,
    resource: &Resource,
    (included, metadata): (IncludedObject, Value),
    objects: &[Value],
) -> Value {
    let now = server.now();
    let rows = objects
        .iter()
        .map(|object| row(resource, object, included, &now));
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns(resource),
        "rows": rows.collect::<Vec<Value>>(),
    })
}
