//! Taking fields away: what a configuration named before and names no longer.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    owned::owned,
    shape::{Shape, shape, step},
};
use crate::{
    fields::{Fields, field_step},
    types::Type,
};

/// `merged` without what its writer had set `last` time, unless somebody (the writer included)
/// still owns it.
pub(super) fn pruned(kind: &Type, merged: Value, last: &Fields, all_owned: &Fields) -> Value {
    if last.is_empty() {
        return merged;
    }
    let last = with_parents(kind, last);
    let before = with_parents(kind, &owned(kind, &merged));
    let kept_after = |value: &Value| with_parents(kind, &owned(kind, value));
    let without_last = removed(kind, &merged, &last);
    let kept = kept_after(&without_last).union(&with_parents(kind, all_owned));
    let with_owned = removed(kind, &merged, &before.difference(&kept));
    // Whatever else fell away on the road was never this writer's to remove.
    let gone = before.difference(&kept_after(&with_owned));
    removed(kind, &merged, &gone.intersection(&last))
}

/// The set with the declared fields on the way to its members.
fn with_parents(kind: &Type, fields: &Fields) -> Fields {
    let mut result = Fields {
        is_member: fields.is_member,
        below: BTreeMap::new(),
    };
    for (step, inner) in &fields.below {
        let name = step.strip_prefix("f:");
        let (inner_kind, is_declared) = match (kind.resolve(), name) {
            (Type::Map(map), Some(name)) => (map.field(name), map.fields.contains_key(name)),
            (Type::List(list), None) => (Some(&list.items), false),
            (any @ Type::Any { .. }, _) => (Some(any), false),
            _ => (None, false),
        };
        let mut inner = with_parents(inner_kind.unwrap_or(&Type::OPAQUE), inner);
        inner.is_member |= is_declared;
        result.put(step, inner);
    }
    result
}

/// The value without these fields. What is emptied by that stays, if it is not one of them.
fn removed(kind: &Type, value: &Value, fields: &Fields) -> Value {
    let left = |step: &str, kind: &Type, value: &Value| match fields.below.get(step) {
        Some(inner) if inner.is_member => None,
        Some(inner) => Some(removed(kind, value, inner)),
        None => Some(value.clone()),
    };
    match (shape(kind, &[Some(value)]), value) {
        (Shape::Map(map), Value::Object(entries)) => {
            let entries = entries.iter().filter_map(|(name, value)| {
                let kind = map.field(name).unwrap_or(&Type::OPAQUE);
                Some((name.clone(), left(&field_step(name), kind, value)?))
            });
            Value::Object(entries.collect())
        }
        (Shape::List(list), Value::Array(items)) => {
            let items = items
                .iter()
                .filter_map(|item| left(&step(list, item)?, &list.items, item));
            items.collect()
        }
        _ => value.clone(),
    }
}
