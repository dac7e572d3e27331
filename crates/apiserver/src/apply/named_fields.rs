//! The fields that a configuration contains.

use std::collections::HashMap;

use serde_json::Value;

use super::merge_shape::{MergeShape, items, merge_shape};
use crate::{
    field_set::{FieldSet, field_element},
    types::Type,
};

/// All fields in `value`: atomic values, list items, keys of maps, and empty containers.
pub(super) fn named_fields(kind: &Type, value: &Value) -> FieldSet {
    let mut fields = FieldSet::default();
    match merge_shape(kind, &[Some(value)]) {
        MergeShape::Atomic => fields.is_member = true,
        MergeShape::Map(map) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let mut inner = named_fields(map.field(name).unwrap_or(&Type::OPAQUE), value);
                let is_empty = value.is_null() || value.as_object().is_some_and(|it| it.is_empty());
                inner.is_member |= is_empty || !map.fields.contains_key(name);
                fields.insert_set(&field_element(name), inner);
            }
        }
        MergeShape::List(list) => {
            let items = items(list, Some(value));
            let mut times: HashMap<&str, usize> = HashMap::with_capacity(items.len());
            for (element, _) in &items {
                *times.entry(element).or_default() += 1;
            }
            for (element, item) in &items {
                let is_repeated = times.get(element.as_str()).is_some_and(|times| *times > 1);
                let mut inner = match is_repeated {
                    true => FieldSet::default(),
                    false => named_fields(&list.items, item),
                };
                inner.is_member = true;
                fields.insert_set(element, inner);
            }
        }
    }
    fields
}
