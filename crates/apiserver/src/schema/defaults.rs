//! Sets the defaults of a schema.
//!
//! A null that the schema does not allow counts as missing: it is replaced by the default or
//! removed.

use serde_json::Value;

use super::error::{FieldError, child};
use super::node::SchemaNode;
use super::{cel, prune, value};

pub(super) fn fill(node: &SchemaNode, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let node = node.field(name);
                !node.is_some_and(|node| refuses_null(node, value) && node.default.is_none())
            });
            for (name, node) in &node.properties {
                let Some(default) = &node.default else {
                    continue;
                };
                if fields
                    .get(name)
                    .is_none_or(|value| refuses_null(node, value))
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                fill_one(node.field(name), value);
            }
        }
        Value::Array(items) => {
            for item in items {
                fill_one(node.items.as_deref(), item);
            }
        }
        _ => {}
    }
}

fn fill_one(node: Option<&SchemaNode>, value: &mut Value) {
    let Some(node) = node else { return };
    if refuses_null(node, value)
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
    fill(node, value);
}

fn refuses_null(node: &SchemaNode, value: &Value) -> bool {
    value.is_null() && !node.nullable
}

/// Defaults must be valid values without unknown fields.
pub(super) fn check(root: &SchemaNode, errors: &mut Vec<FieldError>) {
    check_default(root, "", errors);
}

fn check_default(node: &SchemaNode, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        check_one_default(node, default, &child(path, "default"), errors);
    }
    if let Some(items) = &node.items {
        check_default(items, &child(path, "items"), errors);
    }
    for (name, property) in &node.properties {
        check_default(
            property,
            &child(path, &format!("properties[{name}]")),
            errors,
        );
    }
}

fn check_one_default(node: &SchemaNode, default: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    prune::prune(node, &mut pruned, node.embedded);
    if pruned != *default {
        errors.push(FieldError::invalid(
            path,
            default,
            "must not have unknown fields",
        ));
    }
    let checked = value::CheckedValue {
        value: default,
        path: "",
        old: None,
    };
    let mut found = value::check(node, checked).into_errors();
    if found.is_empty() && node.has_rules {
        cel::evaluate(node, default, None, &mut found);
    }
    errors.extend(found.into_iter().map(|error| error.below(path)));
}
