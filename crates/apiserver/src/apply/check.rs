//! Whether a configuration fits its kind: ownership needs to know what every field is.

use std::collections::HashSet;

use serde_json::Value;

use super::shape;
use crate::types::{ListType, MapType, Scalar, Sharing, Type};

/// Refuses what is not declared, of the wrong type, or in a list twice.
pub(super) fn fits(kind: &Type, config: &Value) -> Result<(), String> {
    let mut faults = Vec::new();
    check(kind, config, "", &mut faults);
    match faults.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn check(kind: &Type, value: &Value, path: &str, faults: &mut Vec<String>) {
    match (kind.resolve(), value) {
        (_, Value::Null) | (Type::Any { .. }, _) => {}
        (Type::Map(map), Value::Object(_)) => check_map(map, value, path, faults),
        (Type::List(list), Value::Array(items)) => check_list(list, items, path, faults),
        (Type::Scalar(scalar), value) => {
            if let Some(expected) = misfit(*scalar, value) {
                faults.push(format!("{path}: expected {expected}, got {}", told(value)));
            }
        }
        (Type::Map(_), other) => faults.push(format!("{path}: expected map, got {}", told(other))),
        (_, other) => faults.push(format!("{path}: expected list, got {}", told(other))),
    }
}

fn told(value: &Value) -> String {
    format!("&value.valueUnstructured{{Value:{value}}}")
}

fn check_map(map: &MapType, value: &Value, path: &str, faults: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match map.field(name) {
            Some(kind) => check(kind, value, &path, faults),
            None => faults.push(format!("{path}: field not declared in schema")),
        }
    }
}

fn check_list(list: &ListType, items: &[Value], path: &str, faults: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if list.sharing == Sharing::Atomic {
            check(&list.items, item, &format!("{path}[{index}]"), faults);
            continue;
        }
        let Some(step) = shape::step(list, item) else {
            faults.push(format!("{path}: element {index}: {}", keyless(list, item)));
            continue;
        };
        let place = crate::fields::told(&step);
        if !seen.insert(step) {
            faults.push(format!("{path}: duplicate entries for key {place}"));
        }
        check(&list.items, item, &format!("{path}{place}"), faults);
    }
}

fn keyless(list: &ListType, item: &Value) -> String {
    match &list.sharing {
        Sharing::Keys(_) if item.is_null() => {
            "associative list with keys may not have a null element".to_owned()
        }
        Sharing::Keys(_) if !item.is_object() => {
            "associative list with keys may not have non-map elements".to_owned()
        }
        Sharing::Keys(keys) => {
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

fn misfit(scalar: Scalar, value: &Value) -> Option<&'static str> {
    let (fits, expected) = match scalar {
        Scalar::Text | Scalar::Bytes => (value.is_string(), "string"),
        Scalar::Bool => (value.is_boolean(), "boolean"),
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => {
            (value.is_number(), "numeric (int or float)")
        }
        Scalar::Time | Scalar::Quantity | Scalar::IntOrText => {
            (!value.is_object() && !value.is_array(), "scalar")
        }
    };
    (!fits).then_some(expected)
}
