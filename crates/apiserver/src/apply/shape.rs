//! How a value at a place is shared, seen by its type and by what is there.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::types::{ListType, MapType, Sharing, Type};

static FREE_MAP: LazyLock<MapType> = LazyLock::new(|| MapType {
    others: Some(Type::FREE),
    ..MapType::default()
});

/// A place with one owner, or with owners further inside.
pub(super) enum Shape<'t> {
    Leaf,
    Map(&'t MapType),
    List(&'t ListType),
}

/// The shape of a place with these values; a value that does not fit makes it a leaf.
pub(super) fn shape<'t>(kind: &'t Type, values: &[Option<&Value>]) -> Shape<'t> {
    let mut values = values
        .iter()
        .flatten()
        .filter(|value| !value.is_null())
        .peekable();
    let is_something = values.peek().is_some();
    match kind.resolve() {
        Type::Map(map) if !map.is_atomic && values.all(|value| value.is_object()) => {
            Shape::Map(map)
        }
        Type::Any { is_shared: true } if is_something && values.all(|value| value.is_object()) => {
            Shape::Map(&FREE_MAP)
        }
        Type::List(list)
            if list.sharing != Sharing::Atomic && values.all(|value| is_keyed(list, value)) =>
        {
            Shape::List(list)
        }
        _ => Shape::Leaf,
    }
}

fn is_keyed(list: &ListType, value: &Value) -> bool {
    let mut items = value.as_array().into_iter().flatten();
    value.is_array() && items.all(|item| step(list, item).is_some())
}

/// The step to an item of a shared list; `None` if it has no keys.
pub(super) fn step(list: &ListType, item: &Value) -> Option<String> {
    match &list.sharing {
        Sharing::Set => {
            let is_plain = !item.is_object() && !item.is_array() && !item.is_null();
            is_plain.then(|| format!("v:{item}"))
        }
        Sharing::Keys(names) => {
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
        Sharing::Atomic => None,
    }
}

fn default_of(list: &ListType, name: &str) -> Option<Value> {
    match list.items.resolve() {
        Type::Map(map) => map.fields.get(name)?.default.clone(),
        _ => None,
    }
}

/// The items of a list with their steps.
pub(super) fn items<'v>(list: &ListType, value: Option<&'v Value>) -> Vec<(String, &'v Value)> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items
        .filter_map(|item| Some((step(list, item)?, item)))
        .collect()
}

/// Whether there is nothing in a map or list.
pub(super) fn is_bare(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => true,
    }
}
