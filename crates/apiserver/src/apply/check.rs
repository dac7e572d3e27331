//! Checks an applied configuration against the types of its kind.

use std::collections::HashSet;

use serde_json::Value;

use super::merge_shape;
use crate::types::{ListOwnership, ListType, MapType, ScalarType, Type};

/// Refuses undeclared fields, wrong types and duplicate list items.
pub(super) fn check_types(kind: &Type, config: &Value) -> Result<(), String> {
    let mut errors = Vec::new();
    check(kind, config, "", &mut errors);
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn check(kind: &Type, value: &Value, path: &str, errors: &mut Vec<String>) {
    match (kind.resolve(), value) {
        (_, Value::Null) | (Type::Any { .. }, _) => {}
        (Type::Map(map), Value::Object(_)) => check_map(map, value, path, errors),
        (Type::List(list), Value::Array(items)) => check_list(list, items, path, errors),
        (Type::Scalar(scalar), value) => {
            if let Some(expected) = expected_type(*scalar, value) {
                errors.push(format!(
                    "{path}: expected {expected}, got {}",
                    go_value(value)
                ));
            }
        }
        (Type::Map(_), other) => {
            errors.push(format!("{path}: expected map, got {}", go_value(other)))
        }
        (_, other) => errors.push(format!("{path}: expected list, got {}", go_value(other))),
    }
}

fn go_value(value: &Value) -> String {
    format!("&value.valueUnstructured{{Value:{value}}}")
}

fn check_map(map: &MapType, value: &Value, path: &str, errors: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match map.field(name) {
            Some(kind) => check(kind, value, &path, errors),
            None => errors.push(format!("{path}: field not declared in schema")),
        }
    }
}

fn check_list(list: &ListType, items: &[Value], path: &str, errors: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if list.ownership == ListOwnership::Atomic {
            check(&list.items, item, &format!("{path}[{index}]"), errors);
            continue;
        }
        let Some(element) = merge_shape::path_element(list, item) else {
            errors.push(format!(
                "{path}: element {index}: {}",
                missing_key_message(list, item)
            ));
            continue;
        };
        let path_element = crate::field_set::display_element(&element);
        if !seen.insert(element) {
            errors.push(format!("{path}: duplicate entries for key {path_element}"));
        }
        check(&list.items, item, &format!("{path}{path_element}"), errors);
    }
}

fn missing_key_message(list: &ListType, item: &Value) -> String {
    match &list.ownership {
        ListOwnership::Keys(_) if item.is_null() => {
            "associative list with keys may not have a null element".to_owned()
        }
        ListOwnership::Keys(_) if !item.is_object() => {
            "associative list with keys may not have non-map elements".to_owned()
        }
        ListOwnership::Keys(keys) => {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            )
        }
        _ if item.is_object() => {
            "associative list without keys has an element that's a map type".to_owned()
        }
        _ if item.is_null() => {
            "associative list without keys has an element that's an explicit null".to_owned()
        }
        _ => "not supported: associative list with lists as elements".to_owned(),
    }
}

fn expected_type(scalar: ScalarType, value: &Value) -> Option<&'static str> {
    let (check_types, expected) = match scalar {
        ScalarType::Text | ScalarType::Bytes => (value.is_string(), "string"),
        ScalarType::Bool => (value.is_boolean(), "boolean"),
        ScalarType::Int32 | ScalarType::Int64 | ScalarType::Number => {
            (value.is_number(), "numeric (int or float)")
        }
        ScalarType::Time | ScalarType::Quantity | ScalarType::IntOrText => {
            (!value.is_object() && !value.is_array(), "scalar")
        }
    };
    (!check_types).then_some(expected)
}
