//! Merges a configuration into an object.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::merge_shape::{MergeShape, is_empty_container, items, merge_shape};
use crate::types::{ListType, MapType, Type};

/// `live` with all fields of `config`.
pub(super) fn merged(kind: &Type, live: &Value, config: &Value) -> Value {
    merge(kind, Some(live), Some(config)).unwrap_or_else(|| config.clone())
}

fn merge(kind: &Type, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let is_empty_container = is_empty_container(live) && is_empty_container(config);
    match merge_shape(kind, &[live, config]) {
        MergeShape::Map(map) if !is_empty_container => Some(merge_maps(map, live, config)),
        MergeShape::List(list) if !is_empty_container => Some(merge_lists(list, live, config)),
        _ => config.or(live).cloned(),
    }
}

fn merge_maps(map: &MapType, live: Option<&Value>, config: Option<&Value>) -> Value {
    let mut merged = Map::new();
    let empty = Map::new();
    let live = live.and_then(Value::as_object).unwrap_or(&empty);
    let config = config.and_then(Value::as_object).unwrap_or(&empty);
    for name in live.keys().chain(config.keys()) {
        let kind = map.field(name).unwrap_or(&Type::OPAQUE);
        if !merged.contains_key(name)
            && let Some(value) = merge(kind, live.get(name), config.get(name))
        {
            merged.insert(name.clone(), value);
        }
    }
    merged.into()
}

fn merge_lists(list: &ListType, live: Option<&Value>, config: Option<&Value>) -> Value {
    let (live, config) = (items(list, live), items(list, config));
    let mut by_element: HashMap<&str, Vec<&Value>> = HashMap::with_capacity(live.len());
    for (element, item) in &live {
        by_element.entry(element).or_default().push(item);
    }
    let mut merged = Vec::new();
    for source in order(&live, &config) {
        let (mine, wanted) = match source {
            ItemSource::Live(index) => (Some(live[index].1), None),
            ItemSource::Config(index) => {
                let (element, item) = &config[index];
                // Duplicates are replaced, not merged.
                let mine = match by_element.get(element.as_str()).map(Vec::as_slice) {
                    Some([mine]) => Some(*mine),
                    _ => None,
                };
                (mine, Some(*item))
            }
        };
        merged.extend(merge(&list.items, mine, wanted));
    }
    merged.into()
}

#[derive(Clone, Copy)]
enum ItemSource {
    Live(usize),
    Config(usize),
}

/// The order of the merged items: those of the configuration in its order, the others between them
/// where they were.
fn order(live: &[(String, &Value)], config: &[(String, &Value)]) -> Vec<ItemSource> {
    let in_live: HashSet<&str> = live.iter().map(|(element, _)| element.as_str()).collect();
    let in_config: HashSet<&str> = config.iter().map(|(element, _)| element.as_str()).collect();
    let mut shared = config
        .iter()
        .map(|(element, _)| element.as_str())
        .filter(|element| in_live.contains(element))
        .peekable();
    let mut placed: HashSet<&str> = HashSet::new();
    let mut sources = Vec::new();
    let (mut left, mut right) = (0, 0);
    while left < live.len() || right < config.len() {
        if let Some((element, _)) = live.get(left) {
            let element = element.as_str();
            if !in_config.contains(element) {
                sources.push(ItemSource::Live(left));
                left += 1;
                continue;
            }
            let is_next = config.get(right).is_some_and(|(next, _)| next == element);
            // An item in both that is not next in the configuration comes later.
            if placed.contains(element)
                || (!is_next && shared.peek().is_some_and(|it| *it != element))
            {
                left += 1;
                continue;
            }
            left += usize::from(is_next);
        }
        let Some((element, _)) = config.get(right) else {
            continue;
        };
        placed.insert(element);
        sources.push(ItemSource::Config(right));
        right += 1;
        if shared.peek() == Some(&element.as_str()) {
            shared.next();
        }
    }
    sources
}
