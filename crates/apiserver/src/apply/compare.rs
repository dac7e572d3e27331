//! Compares two states of an object field by field.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde_json::{Map, Value};

use super::merge_shape::{MergeShape, is_empty_container, items, merge_shape};
use crate::{
    field_set::{FieldSet, field_element},
    types::{ListType, MapType, Type},
};

static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// The fields that differ.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FieldDifference {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl FieldDifference {
    fn insert_set(&mut self, element: &str, inner: Self) {
        self.added.insert_set(element, inner.added);
        self.modified.insert_set(element, inner.modified);
        self.removed.insert_set(element, inner.removed);
    }

    fn set_presence(&mut self, old: Option<&Value>, new: Option<&Value>) {
        self.added.is_member = old.is_none();
        self.removed.is_member = new.is_none();
    }
}

/// Compares two values of a field; one of them may be missing.
pub(super) fn compare(kind: &Type, old: Option<&Value>, new: Option<&Value>) -> FieldDifference {
    compare_without(kind, old, new, &FieldSet::default())
}

/// Like [`compare`], without some fields and all that is in them.
pub(super) fn compare_without(
    kind: &Type,
    old: Option<&Value>,
    new: Option<&Value>,
    ignored: &FieldSet,
) -> FieldDifference {
    let mut difference = FieldDifference::default();
    let is_empty_container = is_empty_container(old) && is_empty_container(new);
    match merge_shape(kind, &[old, new]) {
        MergeShape::Map(map) if !is_empty_container => {
            compare_maps(&mut difference, map, (old, new), ignored)
        }
        MergeShape::List(list) if !is_empty_container => {
            compare_lists(&mut difference, list, old, new)
        }
        _ => difference.modified.is_member = old.is_some() && new.is_some() && old != new,
    }
    difference.set_presence(old, new);
    difference
}

fn keys(value: Option<&Value>) -> impl Iterator<Item = &String> {
    value
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
}

fn compare_maps(
    difference: &mut FieldDifference,
    map: &MapType,
    (old, new): (Option<&Value>, Option<&Value>),
    ignored: &FieldSet,
) {
    let is_gone = |name: &&String| new.is_none_or(|new| new.get(name.as_str()).is_none());
    for name in keys(new).chain(keys(old).filter(is_gone)) {
        if ignored.has_field(name) {
            continue;
        }
        let is_inline = map.fields.get(name).is_some_and(|field| field.is_inline);
        let absent: Option<&Value> = is_inline.then_some(&EMPTY);
        let before = old.and_then(|value| value.get(name)).or(absent);
        let after = new.and_then(|value| value.get(name)).or(absent);
        if before == after {
            continue;
        }
        let kind = map.field(name).unwrap_or(&Type::OPAQUE);
        difference.insert_set(&field_element(name), compare(kind, before, after));
    }
}

type ItemsByElement<'v> = BTreeMap<String, Vec<&'v Value>>;

fn by_element<'v>(list: &ListType, value: Option<&'v Value>) -> ItemsByElement<'v> {
    let mut grouped = ItemsByElement::new();
    for (element, item) in items(list, value) {
        grouped.entry(element).or_default().push(item);
    }
    grouped
}

fn compare_lists(
    difference: &mut FieldDifference,
    list: &ListType,
    old: Option<&Value>,
    new: Option<&Value>,
) {
    let (old, new) = (by_element(list, old), by_element(list, new));
    let elements: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let none = Vec::new();
    for element in elements {
        let before = old.get(element).unwrap_or(&none);
        let after = new.get(element).unwrap_or(&none);
        difference.insert_set(element, compare_items(list, before, after));
    }
}

/// Compares the list items with one path element. Duplicates count as one atomic value.
fn compare_items(list: &ListType, old: &[&Value], new: &[&Value]) -> FieldDifference {
    match (old, new) {
        ([] | [_], [] | [_]) => compare(&list.items, old.first().copied(), new.first().copied()),
        ([_, _, ..], [_, _, ..]) => {
            let mut difference = FieldDifference::default();
            difference.modified.is_member = old != new;
            difference
        }
        ([_, _, ..], _) => {
            let mut difference = match new.first() {
                Some(item) => compare(&list.items, None, Some(item)),
                None => FieldDifference::default(),
            };
            difference.removed.is_member = true;
            difference
        }
        (_, _) => {
            let mut difference = match old.first() {
                Some(item) => compare(&list.items, Some(item), None),
                None => FieldDifference::default(),
            };
            difference.added.is_member = true;
            difference
        }
    }
}
