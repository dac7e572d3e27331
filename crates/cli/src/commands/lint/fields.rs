//! Finds fields that the schema does not have, with a similar one as a suggestion.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value};

use super::super::format::closest_name;

/// A field that the schema does not have.
pub(super) struct UnknownField {
    pub(super) path: String,
    suggestion: Option<String>,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unknown field {}", self.path)?;
        match &self.suggestion {
            Some(suggestion) => write!(formatter, ": did you mean {suggestion}?"),
            None => Ok(()),
        }
    }
}

/// All unknown fields of an object.
pub(super) fn unknown(value: &Value, root: &JSONSchemaProps) -> Vec<UnknownField> {
    let mut found = Vec::new();
    let Some(object) = value.as_object() else {
        return found;
    };
    for (name, value) in object {
        let is_common = ["apiVersion", "kind", "metadata", "status"].contains(&name.as_str());
        if !is_common {
            field(name, value, root, "", &mut found);
        }
    }
    found
}

fn field(
    name: &str,
    value: &Value,
    parent: &JSONSchemaProps,
    path: &str,
    found: &mut Vec<UnknownField>,
) {
    let path = match path.is_empty() {
        true => name.to_owned(),
        false => format!("{path}.{name}"),
    };
    let properties = parent.properties.as_ref();
    if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
        return walk(value, schema, &path, found);
    }
    let is_open = parent.x_kubernetes_preserve_unknown_fields == Some(true);
    match &parent.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(schema)) => walk(value, schema, &path, found),
        Some(JSONSchemaPropsOrBool::Bool(true)) => {}
        _ if is_open => {}
        _ => {
            let known = properties.into_iter().flat_map(|it| it.keys());
            found.push(UnknownField {
                path,
                suggestion: closest_name(name, known.map(String::as_str)).map(str::to_owned),
            });
        }
    }
}

fn walk(value: &Value, schema: &JSONSchemaProps, path: &str, found: &mut Vec<UnknownField>) {
    match (value, &schema.items) {
        (Value::Object(object), _) => fields(object, schema, path, found),
        (Value::Array(items), Some(JSONSchemaPropsOrArray::Schema(schema))) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, schema, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn fields(
    object: &Map<String, Value>,
    schema: &JSONSchemaProps,
    path: &str,
    found: &mut Vec<UnknownField>,
) {
    for (name, value) in object {
        field(name, value, schema, path, found);
    }
}
