//! Whether a value is merged as a whole, by its keys or by its items, given its type and content.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::types::{ListOwnership, ListType, MapType, Type};

static FREE_MAP: LazyLock<MapType> = LazyLock::new(|| MapType {
    others: Some(Type::FREE),
    ..MapType::default()
});

/// How a value is merged.
pub(super) enum MergeShape<'t> {
    Atomic,
    Map(&'t MapType),
    List(&'t ListType),
}

/// How these values of one field are merged; a value of another type makes it atomic.
pub(super) fn merge_shape<'t>(kind: &'t Type, values: &[Option<&Value>]) -> MergeShape<'t> {
    let mut values = values
        .iter()
        .flatten()
        .filter(|value| !value.is_null())
        .peekable();
    let is_something = values.peek().is_some();
    match kind.resolve() {
        Type::Map(map) if !map.is_atomic && values.all(|value| value.is_object()) => {
            MergeShape::Map(map)
        }
        Type::Any { is_shared: true } if is_something && values.all(|value| value.is_object()) => {
            MergeShape::Map(&FREE_MAP)
        }
        Type::List(list)
            if list.ownership != ListOwnership::Atomic
                && values.all(|value| is_keyed(list, value)) =>
        {
            MergeShape::List(list)
        }
        _ => MergeShape::Atomic,
    }
}

fn is_keyed(list: &ListType, value: &Value) -> bool {
    let mut items = value.as_array().into_iter().flatten();
    value.is_array() && items.all(|item| path_element(list, item).is_some())
}

/// The path element of a list item; `None` if it has no keys.
pub(super) fn path_element(list: &ListType, item: &Value) -> Option<String> {
    match &list.ownership {
        ListOwnership::Set => {
            let is_plain = !item.is_object() && !item.is_array() && !item.is_null();
            is_plain.then(|| format!("v:{item}"))
        }
        ListOwnership::Keys(names) => {
            let item = item.as_object()?;
            let mut names: Vec<&String> = names.iter().collect();
            names.sort();
            let keys: Map<String, Value> = names
                .into_iter()
                .filter_map(|name| {
                    let value = item.get(name).cloned();
                    Some((name.clone(), value.or_else(|| default_of(list, name))?))
                })
                .collect();
            (!keys.is_empty()).then(|| format!("k:{}", Value::Object(keys)))
        }
        ListOwnership::Atomic => None,
    }
}

fn default_of(list: &ListType, name: &str) -> Option<Value> {
    match list.items.resolve() {
        Type::Map(map) => map.fields.get(name)?.default.clone(),
        _ => None,
    }
}

/// The items of a list with their path elements.
pub(super) fn items<'v>(list: &ListType, value: Option<&'v Value>) -> Vec<(String, &'v Value)> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items
        .filter_map(|item| Some((path_element(list, item)?, item)))
        .collect()
}

/// Whether a value is missing or an empty map or list.
pub(super) fn is_empty_container(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => true,
    }
}
