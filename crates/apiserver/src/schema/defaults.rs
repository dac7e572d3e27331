//! Filling in what a schema says when nothing is said.
//!
//! A null where no null may be counts as nothing: it takes the default or,
//! without one, disappears from objects.

use serde_json::Value;

use super::node::Node;

pub(super) fn fill(node: &Node, value: &mut Value) {
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

fn fill_one(node: Option<&Node>, value: &mut Value) {
    let Some(node) = node else { return };
    if refuses_null(node, value)
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
    fill(node, value);
}

fn refuses_null(node: &Node, value: &Value) -> bool {
    value.is_null() && !node.nullable
}
