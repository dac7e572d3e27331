//! Validates embedded resources.

use serde_json::{Map, Value};

use super::error::{FieldError, child};
use super::node::SchemaNode;
use crate::{definition::names, metadata::type_name};

/// The first embedded resource that cannot be read as one.
pub(super) fn undecodable(node: &SchemaNode, value: &Value, path: &str) -> Option<FieldError> {
    let mut found = None;
    each(node, value, path, &mut |resource, path| {
        found = found
            .take()
            .or_else(|| unreadable(resource, path).map(FieldError::into_malformed));
    });
    found
}

/// Checks `apiVersion`, `kind` and `metadata` of every embedded resource in `value`.
pub(super) fn check(node: &SchemaNode, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    each(node, value, path, &mut |resource, path| {
        check_resource(resource, path, errors)
    });
}

/// Calls `visit` with every embedded resource in `value` and its path.
fn each(node: &SchemaNode, value: &Value, path: &str, visit: &mut dyn FnMut(&Value, &str)) {
    match value {
        Value::Object(fields) => {
            if node.embedded {
                visit(value, path);
            }
            for (name, value) in fields {
                if let Some(node) = node.properties.get(name) {
                    each(node, value, &child(path, name), visit);
                } else if let Some(node) = node.additional_schema() {
                    each(node, value, &format!("{path}[{name}]"), visit);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                each(node, item, &format!("{path}[{index}]"), visit);
            }
        }
        _ => {}
    }
}

fn unreadable(resource: &Value, path: &str) -> Option<FieldError> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = resource.get(name).filter(|value| !value.is_string()) {
            return Some(FieldError::invalid(
                child(path, name),
                value,
                "must be a string",
            ));
        }
    }
    let metadata = resource.get("metadata").filter(|value| !value.is_null())?;
    let detail = match metadata {
        Value::Object(metadata) => unreadable_metadata(metadata)?,
        other => {
            let found = type_name(other);
            format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta")
        }
    };
    Some(FieldError::invalid(
        child(path, "metadata"),
        metadata,
        &detail,
    ))
}

fn unreadable_metadata(metadata: &Map<String, Value>) -> Option<String> {
    let wrong = |name: &str, value: &Value, expected: &str| {
        let (found, field) = (type_name(value), format!("ObjectMeta.{name}"));
        format!("json: cannot unmarshal {found} into Go struct field {field} of type {expected}")
    };
    let present = |name: &str| metadata.get(name).filter(|value| !value.is_null());
    for name in ["name", "namespace", "generateName"] {
        if let Some(value) = present(name).filter(|value| !value.is_string()) {
            return Some(wrong(name, value, "string"));
        }
    }
    for name in ["labels", "annotations"] {
        match present(name) {
            None => {}
            Some(Value::Object(map)) => {
                if let Some(value) = map.values().find(|value| !value.is_string()) {
                    return Some(wrong(name, value, "string"));
                }
            }
            Some(other) => return Some(wrong(name, other, "map[string]string")),
        }
    }
    None
}

fn check_resource(resource: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = child(path, name);
        match resource.get(name).and_then(Value::as_str) {
            None => errors.push(FieldError::required(field, "")),
            Some("") => errors.push(FieldError::invalid_text(field, "", "must not be empty")),
            Some(text) => errors.extend(check_type_meta(name, text, field)),
        }
    }
    for name in ["name", "namespace", "generateName"] {
        let Some(text) = resource["metadata"][name].as_str() else {
            continue;
        };
        let field = child(path, &format!("metadata.{name}"));
        if [".", ".."].contains(&text) {
            let detail = format!("may not be '{text}'");
            errors.push(FieldError::invalid_text(field.clone(), text, &detail));
        }
        for character in ["/", "%"].into_iter().filter(|part| text.contains(part)) {
            let detail = format!("may not contain '{character}'");
            errors.push(FieldError::invalid_text(field.clone(), text, &detail));
        }
    }
}

fn check_type_meta(name: &str, text: &str, field: String) -> Option<FieldError> {
    if name == "apiVersion" {
        let detail = format!("unexpected GroupVersion string: {text}");
        let slashes = text.matches('/').count();
        return (slashes > 1).then(|| FieldError::invalid_text(field, text, &detail));
    }
    let problems = names::label_problems(&text.to_lowercase());
    let detail = format!(
        "may have mixed case, but should otherwise match: {}",
        problems.join(",")
    );
    (!problems.is_empty()).then(|| FieldError::invalid_text(field, text, &detail))
}
