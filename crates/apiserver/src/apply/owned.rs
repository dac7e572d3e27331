//! The fields that a configuration names.

use std::collections::HashMap;

use serde_json::Value;

use super::shape::{Shape, items, shape};
use crate::{
    fields::{Fields, field_step},
    types::Type,
};

/// Every field in `value`: leaves, items of shared lists, keys of maps, and what is empty.
pub(super) fn owned(kind: &Type, value: &Value) -> Fields {
    let mut fields = Fields::default();
    match shape(kind, &[Some(value)]) {
        Shape::Leaf => fields.is_member = true,
        Shape::Map(map) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let mut inner = owned(map.field(name).unwrap_or(&Type::OPAQUE), value);
                let is_empty = value.is_null() || value.as_object().is_some_and(|it| it.is_empty());
                inner.is_member |= is_empty || !map.fields.contains_key(name);
                fields.put(&field_step(name), inner);
            }
        }
        Shape::List(list) => {
            let items = items(list, Some(value));
            let mut times: HashMap<&str, usize> = HashMap::with_capacity(items.len());
            for (step, _) in &items {
                *times.entry(step).or_default() += 1;
            }
            for (step, item) in &items {
                let is_repeated = times.get(step.as_str()).is_some_and(|times| *times > 1);
                let mut inner = match is_repeated {
                    true => Fields::default(),
                    false => owned(&list.items, item),
                };
                inner.is_member = true;
                fields.put(step, inner);
            }
        }
    }
    fields
}
