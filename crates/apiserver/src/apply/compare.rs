//! What differs between two states of an object.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde_json::{Map, Value};

use super::shape::{Shape, is_bare, items, shape};
use crate::{
    fields::{Fields, field_step},
    types::{ListType, MapType, Type},
};

static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// The fields that differ.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Difference {
    pub(super) added: Fields,
    pub(super) modified: Fields,
    pub(super) removed: Fields,
}

impl Difference {
    fn put(&mut self, step: &str, inner: Self) {
        self.added.put(step, inner.added);
        self.modified.put(step, inner.modified);
        self.removed.put(step, inner.removed);
    }

    fn mark(&mut self, old: Option<&Value>, new: Option<&Value>) {
        self.added.is_member = old.is_none();
        self.removed.is_member = new.is_none();
    }
}

/// Compares two values of a place; one of them may be missing.
pub(super) fn compare(kind: &Type, old: Option<&Value>, new: Option<&Value>) -> Difference {
    compare_without(kind, old, new, &Fields::default())
}

/// Like [`compare`], but for some fields of the place and all below them.
pub(super) fn compare_without(
    kind: &Type,
    old: Option<&Value>,
    new: Option<&Value>,
    apart: &Fields,
) -> Difference {
    let mut difference = Difference::default();
    let is_bare = is_bare(old) && is_bare(new);
    match shape(kind, &[old, new]) {
        Shape::Map(map) if !is_bare => compare_maps(&mut difference, map, (old, new), apart),
        Shape::List(list) if !is_bare => compare_lists(&mut difference, list, old, new),
        _ => difference.modified.is_member = old.is_some() && new.is_some() && old != new,
    }
    difference.mark(old, new);
    difference
}

fn keys(value: Option<&Value>) -> impl Iterator<Item = &String> {
    value
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
}

fn compare_maps(
    difference: &mut Difference,
    map: &MapType,
    (old, new): (Option<&Value>, Option<&Value>),
    apart: &Fields,
) {
    let is_gone = |name: &&String| new.is_none_or(|new| new.get(name.as_str()).is_none());
    for name in keys(new).chain(keys(old).filter(is_gone)) {
        if apart.has_field(name) {
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
        difference.put(&field_step(name), compare(kind, before, after));
    }
}

type Items<'v> = BTreeMap<String, Vec<&'v Value>>;

fn by_step<'v>(list: &ListType, value: Option<&'v Value>) -> Items<'v> {
    let mut grouped = Items::new();
    for (step, item) in items(list, value) {
        grouped.entry(step).or_default().push(item);
    }
    grouped
}

fn compare_lists(
    difference: &mut Difference,
    list: &ListType,
    old: Option<&Value>,
    new: Option<&Value>,
) {
    let (old, new) = (by_step(list, old), by_step(list, new));
    let steps: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let none = Vec::new();
    for step in steps {
        let before = old.get(step).unwrap_or(&none);
        let after = new.get(step).unwrap_or(&none);
        difference.put(step, compare_items(list, before, after));
    }
}

/// Compares the items of one step. What is there several times counts as one leaf.
fn compare_items(list: &ListType, old: &[&Value], new: &[&Value]) -> Difference {
    match (old, new) {
        ([] | [_], [] | [_]) => compare(&list.items, old.first().copied(), new.first().copied()),
        ([_, _, ..], [_, _, ..]) => {
            let mut difference = Difference::default();
            difference.modified.is_member = old != new;
            difference
        }
        ([_, _, ..], _) => {
            let mut difference = match new.first() {
                Some(item) => compare(&list.items, None, Some(item)),
                None => Difference::default(),
            };
            difference.removed.is_member = true;
            difference
        }
        (_, _) => {
            let mut difference = match old.first() {
                Some(item) => compare(&list.items, Some(item), None),
                None => Difference::default(),
            };
            difference.added.is_member = true;
            difference
        }
    }
}
