//! Laying a configuration over an object.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::shape::{Shape, is_bare, items, shape};
use crate::types::{ListType, MapType, Type};

/// `live` with everything that `config` says.
pub(super) fn merged(kind: &Type, live: &Value, config: &Value) -> Value {
    merge(kind, Some(live), Some(config)).unwrap_or_else(|| config.clone())
}

fn merge(kind: &Type, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let is_bare = is_bare(live) && is_bare(config);
    match shape(kind, &[live, config]) {
        Shape::Map(map) if !is_bare => Some(merge_maps(map, live, config)),
        Shape::List(list) if !is_bare => Some(merge_lists(list, live, config)),
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
    let mut by_step: HashMap<&str, Vec<&Value>> = HashMap::with_capacity(live.len());
    for (step, item) in &live {
        by_step.entry(step).or_default().push(item);
    }
    let mut merged = Vec::new();
    for place in order(&live, &config) {
        let (mine, wanted) = match place {
            Place::Live(index) => (Some(live[index].1), None),
            Place::Config(index) => {
                let (step, item) = &config[index];
                // What is there several times is replaced, not merged.
                let mine = match by_step.get(step.as_str()).map(Vec::as_slice) {
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
enum Place {
    Live(usize),
    Config(usize),
}

/// Items of the configuration come in its order; the others stay where they were among them.
fn order(live: &[(String, &Value)], config: &[(String, &Value)]) -> Vec<Place> {
    let in_live: HashSet<&str> = live.iter().map(|(step, _)| step.as_str()).collect();
    let in_config: HashSet<&str> = config.iter().map(|(step, _)| step.as_str()).collect();
    let mut shared = config
        .iter()
        .map(|(step, _)| step.as_str())
        .filter(|step| in_live.contains(step))
        .peekable();
    let mut placed: HashSet<&str> = HashSet::new();
    let mut places = Vec::new();
    let (mut left, mut right) = (0, 0);
    while left < live.len() || right < config.len() {
        if let Some((step, _)) = live.get(left) {
            let step = step.as_str();
            if !in_config.contains(step) {
                places.push(Place::Live(left));
                left += 1;
                continue;
            }
            let is_next = config.get(right).is_some_and(|(next, _)| next == step);
            // A shared item that is not next in the configuration waits for its turn there.
            if placed.contains(step) || (!is_next && shared.peek().is_some_and(|it| *it != step)) {
                left += 1;
                continue;
            }
            left += usize::from(is_next);
        }
        let Some((step, _)) = config.get(right) else {
            continue;
        };
        placed.insert(step);
        places.push(Place::Config(right));
        right += 1;
        if shared.peek() == Some(&step.as_str()) {
            shared.next();
        }
    }
    places
}
