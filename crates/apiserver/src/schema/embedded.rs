//! Resources inside resources: what every one of them must have.

use serde_json::Value;

use super::error::{FieldError, child};
use super::node::Node;
use crate::definition::names;

/// The first embedded resource that cannot be read as one.
pub(super) fn undecodable(node: &Node, value: &Value, path: &str) -> Option<FieldError> {
    let mut found = None;
    each(node, value, path, &mut |resource, path| {
        found = found
            .take()
            .or_else(|| unreadable(resource, path).map(FieldError::into_malformed));
    });
    found
}

/// Checks `apiVersion`, `kind` and `metadata` of every embedded resource in `value`.
pub(super) fn check(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    each(node, value, path, &mut |resource, path| {
        check_resource(resource, path, errors)
    });
}

/// Calls `visit` with every embedded resource in `value` and its path.
fn each(node: &Node, value: &Value, path: &str, visit: &mut dyn FnMut(&Value, &str)) {
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
    let metadata = resource
        .get("metadata")
        .filter(|metadata| !metadata.is_null())?;
    let field = child(path, "metadata");
    if !metadata.is_object() {
        let found = kind_of(metadata);
        let detail = format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta");
        return Some(FieldError::invalid(field, metadata, &detail));
    }
    let wrong = |name: &str, value: &Value, expected: &str| {
        let found = kind_of(value);
        let detail = format!(
            "json: cannot unmarshal {found} into Go struct field ObjectMeta.{name} of type {expected}"
        );
        FieldError::invalid(field.clone(), metadata, &detail)
    };
    for name in ["name", "namespace", "generateName"] {
        let value = metadata
            .get(name)
            .filter(|value| !value.is_string() && !value.is_null());
        if let Some(value) = value {
            return Some(wrong(name, value, "string"));
        }
    }
    for name in ["labels", "annotations"] {
        let value = metadata.get(name).filter(|value| !value.is_null());
        match value {
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

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_resource(resource: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = child(path, name);
        match resource.get(name).and_then(Value::as_str) {
            None => errors.push(FieldError::required(field, "")),
            Some("") => errors.push(FieldError::invalid_text(field, "", "must not be empty")),
            Some(text) => errors.extend(check_type_name(name, text, field)),
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

fn check_type_name(name: &str, text: &str, field: String) -> Option<FieldError> {
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
