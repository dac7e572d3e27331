//! Lists of type set and map: duplicates, and the old item that an item replaces.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::error::{FieldError, child};
use super::node::SchemaNode;

/// The items of an old list by their keys, for lists that are maps.
pub(super) struct OldItems<'v>(HashMap<String, &'v Value>);

impl<'v> OldItems<'v> {
    pub(super) fn of(node: &SchemaNode, old: Option<&'v Value>) -> Self {
        let mut by_keys = HashMap::new();
        let old = old.filter(|_| node.is_list_type("map"));
        for item in old.and_then(Value::as_array).into_iter().flatten() {
            by_keys.entry(name_of(node, item)).or_insert(item);
        }
        Self(by_keys)
    }

    /// The old item with the same keys.
    pub(super) fn find(&self, node: &SchemaNode, item: &Value) -> Option<&'v Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&name_of(node, item)).copied()
    }
}

/// The keys of an item as text.
fn name_of(node: &SchemaNode, item: &Value) -> String {
    Value::Object(keys(node, item)).to_string()
}

/// The keys of an item of a list of type map.
fn keys(node: &SchemaNode, item: &Value) -> Map<String, Value> {
    let field = |name: &String| Some((name.clone(), item.get(name)?.clone()));
    node.list_map_keys.iter().filter_map(field).collect()
}

/// Finds duplicates in sets and maps anywhere in `value`.
pub(super) fn check(node: &SchemaNode, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            check_list(node, items, path, errors);
            if let Some(node) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    check(node, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(node) = node.additional_schema() {
                    check(node, value, &format!("{path}[{name}]"), errors);
                }
                if let Some(node) = node.properties.get(name) {
                    check(node, value, &child(path, name), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_list(node: &SchemaNode, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    match node.list_type.as_deref() {
        Some("set") => {
            for index in repeated(items) {
                errors.push(FieldError::duplicate(
                    format!("{path}[{index}]"),
                    Some(&items[index]),
                ));
            }
        }
        Some("map") => {
            let is_wrong_type = |item: &&Value| !item.is_null() && !item.is_object();
            if let Some(index) = items.iter().position(|item| is_wrong_type(&item)) {
                let detail = "must be an object for an array of list-type map";
                let field = format!("{path}[{index}]");
                return errors.push(FieldError::invalid(field, &items[index], detail));
            }
            let keys: Vec<Value> = items.iter().map(|item| keys(node, item).into()).collect();
            for index in repeated(&keys) {
                errors.push(FieldError::duplicate(
                    format!("{path}[{index}]"),
                    Some(&keys[index]),
                ));
            }
        }
        _ => {}
    }
}

/// Where each value that occurs more than once occurs the second time.
fn repeated(values: &[Value]) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(values.len());
    let mut repeated = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(index);
        }
    }
    repeated
}
