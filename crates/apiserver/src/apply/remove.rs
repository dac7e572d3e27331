//! Removes the fields that a configuration contained before and no longer contains.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    merge_shape::{MergeShape, merge_shape, path_element},
    named_fields::named_fields,
};
use crate::{
    field_set::{FieldSet, field_element},
    types::Type,
};

/// `merged` without the fields of the `last` configuration that nobody owns any more.
pub(super) fn pruned(kind: &Type, merged: Value, last: &FieldSet, all_owned: &FieldSet) -> Value {
    if last.is_empty() {
        return merged;
    }
    let last = with_parents(kind, last);
    let before = with_parents(kind, &named_fields(kind, &merged));
    let kept_after = |value: &Value| with_parents(kind, &named_fields(kind, value));
    let without_last = removed(kind, &merged, &last);
    let kept = kept_after(&without_last).union(&with_parents(kind, all_owned));
    let with_owned = removed(kind, &merged, &before.difference(&kept));
    // Other fields that were removed on the way were not in the last configuration.
    let gone = before.difference(&kept_after(&with_owned));
    removed(kind, &merged, &gone.intersection(&last))
}

/// The set with the declared parents of its members.
fn with_parents(kind: &Type, fields: &FieldSet) -> FieldSet {
    let mut result = FieldSet {
        is_member: fields.is_member,
        children: BTreeMap::new(),
    };
    for (element, inner) in &fields.children {
        let name = element.strip_prefix("f:");
        let (inner_kind, is_declared) = match (kind.resolve(), name) {
            (Type::Map(map), Some(name)) => (map.field(name), map.fields.contains_key(name)),
            (Type::List(list), None) => (Some(&list.items), false),
            (any @ Type::Any { .. }, _) => (Some(any), false),
            _ => (None, false),
        };
        let mut inner = with_parents(inner_kind.unwrap_or(&Type::OPAQUE), inner);
        inner.is_member |= is_declared;
        result.insert_set(element, inner);
    }
    result
}

/// The value without these fields. Containers that become empty stay.
fn removed(kind: &Type, value: &Value, fields: &FieldSet) -> Value {
    let left = |element: &str, kind: &Type, value: &Value| match fields.children.get(element) {
        Some(inner) if inner.is_member => None,
        Some(inner) => Some(removed(kind, value, inner)),
        None => Some(value.clone()),
    };
    match (merge_shape(kind, &[Some(value)]), value) {
        (MergeShape::Map(map), Value::Object(entries)) => {
            let entries = entries.iter().filter_map(|(name, value)| {
                let kind = map.field(name).unwrap_or(&Type::OPAQUE);
                Some((name.clone(), left(&field_element(name), kind, value)?))
            });
            Value::Object(entries.collect())
        }
        (MergeShape::List(list), Value::Array(items)) => {
            let items = items
                .iter()
                .filter_map(|item| left(&path_element(list, item)?, &list.items, item));
            items.collect()
        }
        _ => value.clone(),
    }
}
