//! Resources inside resources: what every one of them must have.

use serde_json::Value;

use super::error::{FieldError, child};
use super::node::Node;
use crate::definition::names;

/// Checks `apiVersion`, `kind` and `metadata` of every embedded resource in `value`.
pub(super) fn check(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.embedded {
                check_resource(value, path, errors);
            }
            for (name, value) in fields {
                if let Some(node) = node.properties.get(name) {
                    check(node, value, &child(path, name), errors);
                } else if let Some(node) = node.additional_schema() {
                    check(node, value, &format!("{path}[{name}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                check(node, item, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

fn check_resource(resource: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = child(path, name);
        match resource.get(name) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid_text(field, "", "must not be empty"));
            }
            Some(Value::String(text)) => errors.extend(check_type_name(name, text, field)),
            Some(other) => errors.push(FieldError::invalid(field, other, "must be a string")),
        }
    }
    if let Some(metadata) = resource.get("metadata") {
        check_metadata(metadata, &child(path, "metadata"), errors);
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

fn check_metadata(metadata: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !metadata.is_object() {
        return errors.push(FieldError::invalid(path, metadata, "must be an object"));
    }
    for name in ["name", "namespace", "generateName"] {
        let Some(value) = metadata.get(name) else {
            continue;
        };
        let field = child(path, name);
        match value {
            Value::String(text) if [".", ".."].contains(&text.as_str()) => {
                let detail = format!("may not be '{text}'");
                errors.push(FieldError::invalid_text(field, text, &detail));
            }
            Value::String(text) => {
                for character in ["/", "%"].into_iter().filter(|part| text.contains(part)) {
                    let detail = format!("may not contain '{character}'");
                    errors.push(FieldError::invalid_text(field.clone(), text, &detail));
                }
            }
            other => errors.push(FieldError::invalid(field, other, "must be a string")),
        }
    }
    for name in ["labels", "annotations"] {
        let Some(value) = metadata.get(name).filter(|value| !value.is_null()) else {
            continue;
        };
        let texts = value
            .as_object()
            .is_some_and(|map| map.values().all(Value::is_string));
        if !texts {
            let detail = "must be a map of strings";
            errors.push(FieldError::invalid(child(path, name), value, detail));
        }
    }
}
