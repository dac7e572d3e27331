//! Strategic merge patch: a merge patch that merges lists as the kind defines, with `$`-directives to
//! delete, replace, retain and order.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::types::{ListType, PatchStrategy, Type};

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// `original` with the patch applied. Errors say which part of the patch is invalid.
pub(crate) fn merged(kind: &Type, original: &Value, patch: &Value) -> Result<Value, String> {
    let empty = Map::new();
    let fields = original.as_object().unwrap_or(&empty);
    let Value::Object(patch) = patch else {
        return Err("a patch is an object".to_owned());
    };
    merge_map(kind, fields.clone(), patch).map(Value::Object)
}

type JsonObject = Map<String, Value>;

fn merge_map(
    kind: &Type,
    mut original: JsonObject,
    patch: &JsonObject,
) -> Result<JsonObject, String> {
    match patch.get(PATCH).map(|directive| directive.as_str()) {
        Some(Some("replace")) => return Ok(without_directives(patch)),
        Some(Some("delete")) => return Ok(Map::new()),
        None | Some(Some("merge")) => {}
        Some(other) => {
            let other = other.unwrap_or_default();
            return Err(format!("unknown patch directive {other:?}"));
        }
    }
    retain(&mut original, patch)?;
    for (name, wanted) in patch {
        if let Some(list) = name.strip_prefix(DELETE_VALUES) {
            delete_values(&mut original, list, wanted);
        } else if !name.starts_with('$') {
            let order = patch.get(&format!("{ORDER}{name}"));
            merge_field(kind.field(name), &mut original, (name, wanted), order)?;
        }
    }
    for (name, order) in patch {
        if let Some(list) = name.strip_prefix(ORDER)
            && !patch.contains_key(list)
        {
            reorder(kind.field(list), &mut original, list, order);
        }
    }
    Ok(original)
}

fn merge_field(
    kind: Option<&Type>,
    original: &mut JsonObject,
    (name, wanted): (&str, &Value),
    order: Option<&Value>,
) -> Result<(), String> {
    let kind = kind.unwrap_or(&Type::OPAQUE).resolve();
    let value = match (kind, original.remove(name), wanted) {
        (_, _, Value::Null) => return Ok(()),
        (_, Some(Value::Object(old)), Value::Object(new)) => merge_map(kind, old, new)?.into(),
        (_, _, Value::Object(new)) => merge_map(kind, Map::new(), new)?.into(),
        (Type::List(list), old, Value::Array(new))
            if list.patch_strategy != PatchStrategy::Replace =>
        {
            let old = old.and_then(|old| old.as_array().cloned());
            merge_list(list, old.unwrap_or_default(), new, order)?
        }
        (_, _, other) => other.clone(),
    };
    original.insert(name.to_owned(), value);
    Ok(())
}

/// The content of a patch without directives and nulls.
fn without_directives(patch: &JsonObject) -> JsonObject {
    let entries = patch
        .iter()
        .filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    entries
        .map(|(name, value)| match value {
            Value::Object(inner) => (name.clone(), without_directives(inner).into()),
            other => (name.clone(), other.clone()),
        })
        .collect()
}

/// Drops the fields that `$retainKeys` does not list.
fn retain(original: &mut JsonObject, patch: &JsonObject) -> Result<(), String> {
    let Some(kept) = patch.get(RETAIN) else {
        return Ok(());
    };
    let Some(kept) = kept.as_array() else {
        return Err(format!("{RETAIN} must be a list"));
    };
    let kept: HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let is_kept = |name: &String| kept.contains(name.as_str());
    if let Some(stray) = patch
        .iter()
        .find(|(name, value)| !name.starts_with('$') && !value.is_null() && !is_kept(name))
    {
        return Err(format!(
            "{RETAIN} does not list the patched field {}",
            stray.0
        ));
    }
    original.retain(|name, _| is_kept(name));
    Ok(())
}

fn delete_values(original: &mut JsonObject, list: &str, values: &Value) {
    let gone = values.as_array().into_iter().flatten();
    let gone: HashSet<String> = gone.map(Value::to_string).collect();
    if let Some(Value::Array(items)) = original.get_mut(list) {
        items.retain(|item| !gone.contains(&item.to_string()));
    }
}

fn merge_list(
    list: &ListType,
    original: Vec<Value>,
    patch: &[Value],
    order: Option<&Value>,
) -> Result<Value, String> {
    let key = match &list.patch_strategy {
        PatchStrategy::MergeByKey(key) => Some(key.as_str()),
        _ => None,
    };
    let replaces = |item: &&Value| item[PATCH] == "replace";
    if patch.iter().any(|item| replaces(&item)) {
        let items = patch.iter().filter(|item| !replaces(item));
        return Ok(items.cloned().collect());
    }
    let before = ItemPositions::of(key, &original);
    let mut items = MergedItems::of(key, original);
    for wanted in patch {
        if wanted[PATCH] == "delete" {
            items.remove(wanted);
        } else if let (Some(key), None) = (key, key.and_then(|key| wanted.get(key))) {
            return Err(format!(
                "map: {wanted} does not contain declared merge key: {key}"
            ));
        } else if let Value::Object(fields) = wanted {
            let found = items.find(wanted);
            let old = found.and_then(|item| item.as_object().cloned());
            let item = merge_map(&list.items, old.unwrap_or_default(), fields)?;
            items.set(wanted, item.into());
        } else if items.find(wanted).is_none() {
            items.set(wanted, wanted.clone());
        }
    }
    let order = order.and_then(Value::as_array).map_or(patch, Vec::as_slice);
    let items = items.list.into_iter().flatten().collect();
    Ok(ordered(key, items, order, &before).into())
}

/// The identity of a list item: its merge key, or the whole item where there is no merge key. `None`
/// for an item without its key.
fn identity(key: Option<&str>, item: &Value) -> Option<String> {
    match key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

/// The items of a list while it is merged, by identity.
struct MergedItems<'k> {
    key: Option<&'k str>,
    /// `None` for removed items.
    list: Vec<Option<Value>>,
    positions: HashMap<String, Vec<usize>>,
}

impl<'k> MergedItems<'k> {
    fn of(key: Option<&'k str>, list: Vec<Value>) -> Self {
        let mut items = Self {
            key,
            list: Vec::with_capacity(list.len()),
            positions: HashMap::with_capacity(list.len()),
        };
        list.into_iter().for_each(|item| items.push(item));
        items
    }

    fn push(&mut self, item: Value) {
        if let Some(identity) = identity(self.key, &item) {
            let positions = self.positions.entry(identity).or_default();
            positions.push(self.list.len());
        }
        self.list.push(Some(item));
    }

    /// The position of the first item with the same identity.
    fn position(&self, like: &Value) -> Option<usize> {
        let positions = self.positions.get(&identity(self.key, like)?);
        positions.and_then(|positions| positions.first()).copied()
    }

    fn find(&self, like: &Value) -> Option<&Value> {
        self.list[self.position(like)?].as_ref()
    }

    /// Replaces the first item with the same identity, or appends the item.
    fn set(&mut self, like: &Value, item: Value) {
        match self.position(like) {
            Some(position) => self.list[position] = Some(item),
            None => self.push(item),
        }
    }

    /// Removes all items with the same identity.
    fn remove(&mut self, like: &Value) {
        let positions = identity(self.key, like).and_then(|it| self.positions.remove(&it));
        for position in positions.into_iter().flatten() {
            self.list[position] = None;
        }
    }
}

/// The first position of each identity in a list.
struct ItemPositions(HashMap<String, usize>);

impl ItemPositions {
    fn of(key: Option<&str>, list: &[Value]) -> Self {
        let mut positions = HashMap::with_capacity(list.len());
        for (position, item) in list.iter().enumerate() {
            if let Some(identity) = identity(key, item) {
                positions.entry(identity).or_insert(position);
            }
        }
        Self(positions)
    }

    fn find(&self, key: Option<&str>, item: &Value) -> Option<usize> {
        self.0.get(&identity(key, item)?).copied()
    }
}

fn reorder(kind: Option<&Type>, original: &mut JsonObject, name: &str, order: &Value) {
    let Some(Type::List(list)) = kind.map(Type::resolve) else {
        return;
    };
    let key = match &list.patch_strategy {
        PatchStrategy::MergeByKey(key) => Some(key.as_str()),
        _ => None,
    };
    if let (Some(Value::Array(items)), Some(order)) = (original.get_mut(name), order.as_array()) {
        let before = ItemPositions::of(key, items);
        *items = ordered(key, std::mem::take(items), order, &before);
    }
}

/// The items in the order of `order`; others stay before the items that they were before.
fn ordered(
    key: Option<&str>,
    items: Vec<Value>,
    order: &[Value],
    before: &ItemPositions,
) -> Vec<Value> {
    let order = ItemPositions::of(key, order);
    let (mut listed, mut rest): (Vec<Value>, Vec<Value>) = items
        .into_iter()
        .partition(|item| order.find(key, item).is_some());
    listed.sort_by_cached_key(|item| order.find(key, item));
    rest.sort_by_cached_key(|item| before.find(key, item));
    let mut result = Vec::with_capacity(listed.len() + rest.len());
    let (mut listed, mut rest) = (listed.into_iter().peekable(), rest.into_iter().peekable());
    loop {
        let takes_rest = match (rest.peek(), listed.peek()) {
            (None, None) => return result,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(rest), Some(listed)) => {
                match (before.find(key, rest), before.find(key, listed)) {
                    (Some(rest), Some(listed)) => rest < listed,
                    _ => false,
                }
            }
        };
        result.extend(if takes_rest {
            rest.next()
        } else {
            listed.next()
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(original: Value, patch: Value, expected: Value) {
        let merged = merged(&Type::named("PodSpec"), &original, &patch);
        assert_eq!(merged, Ok(expected), "{patch}");
    }

    #[test]
    fn items_are_merged_by_their_key() {
        check(
            json!({"containers": [{"name": "a", "image": "x"}, {"name": "b"}], "hostname": "h"}),
            json!({"containers": [{"name": "a", "tty": true}, {"name": "c"}], "hostname": null}),
            json!({"containers": [{"name": "a", "image": "x", "tty": true}, {"name": "c"}, {"name": "b"}]}),
        );
        check(
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"$patch": "delete", "name": "a"}]}),
            json!({"containers": [{"name": "b"}]}),
        );
        check(
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}]}),
        );
    }

    #[test]
    fn directives_order_retain_and_replace() {
        check(
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
        );
        check(
            json!({"hostname": "h", "nodeName": "n"}),
            json!({"$retainKeys": ["nodeName"], "nodeName": "m"}),
            json!({"nodeName": "m"}),
        );
        check(
            json!({"nodeSelector": {"a": "1"}, "tolerations": [{"key": "x"}]}),
            json!({"nodeSelector": {"$patch": "replace", "b": "2"}, "tolerations": []}),
            json!({"nodeSelector": {"b": "2"}, "tolerations": []}),
        );
        let patch = json!({"$retainKeys": [], "nodeName": "m"});
        assert!(merged(&Type::named("PodSpec"), &json!({}), &patch).is_err());
        let patch = json!({"containers": [{"image": "x"}]});
        assert!(merged(&Type::named("PodSpec"), &json!({}), &patch).is_err());
    }

    /// As many items as fit into a body: a quadratic search would take too long.
    #[test]
    fn long_lists_are_merged() {
        let named = |extra: &str| -> Vec<Value> {
            let item = |index: usize| json!({"name": format!("{index}"), extra: "x"});
            (0..100_000).map(item).collect()
        };
        let original = json!({"containers": named("image")});
        let patch = json!({"containers": named("tty"), "$setElementOrder/containers": named("a")});
        let merged = merged(&Type::named("PodSpec"), &original, &patch).expect("a patch");
        let last = json!({"name": "99999", "image": "x", "tty": "x"});
        assert_eq!(merged["containers"][99_999], last);
    }

    #[test]
    fn plain_values_are_added_and_deleted() {
        let kind = Type::named("ObjectMeta");
        let original = json!({"finalizers": ["a", "b"]});
        let patch = json!({"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]});
        let expected = json!({"finalizers": ["c", "b"]});
        assert_eq!(merged(&kind, &original, &patch), Ok(expected));
    }
}
