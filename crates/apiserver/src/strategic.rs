//! Strategic merge patch: like a merge patch, but lists are merged where the kind says how, and
//! `$`-directives in the patch delete, replace, retain and order.

use serde_json::{Map, Value};

use crate::types::{ListType, Merging, Type};

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// `original` as the patch changes it. Errors say which part of the patch makes no sense.
pub(crate) fn merged(kind: &Type, original: &Value, patch: &Value) -> Result<Value, String> {
    let empty = Map::new();
    let fields = original.as_object().unwrap_or(&empty);
    let Value::Object(patch) = patch else {
        return Err("a patch is an object".to_owned());
    };
    merge_map(kind, fields.clone(), patch).map(Value::Object)
}

type Fields = Map<String, Value>;

fn merge_map(kind: &Type, mut original: Fields, patch: &Fields) -> Result<Fields, String> {
    match patch.get(PATCH).map(|directive| directive.as_str()) {
        Some(Some("replace")) => return Ok(plain(patch)),
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
    original: &mut Fields,
    (name, wanted): (&str, &Value),
    order: Option<&Value>,
) -> Result<(), String> {
    let kind = kind.unwrap_or(&Type::OPAQUE).resolve();
    let value = match (kind, original.remove(name), wanted) {
        (_, _, Value::Null) => return Ok(()),
        (_, Some(Value::Object(old)), Value::Object(new)) => merge_map(kind, old, new)?.into(),
        (_, _, Value::Object(new)) => merge_map(kind, Map::new(), new)?.into(),
        (Type::List(list), old, Value::Array(new)) if list.merging != Merging::Replace => {
            let old = old.and_then(|old| old.as_array().cloned());
            merge_list(list, old.unwrap_or_default(), new, order)?
        }
        (_, _, other) => other.clone(),
    };
    original.insert(name.to_owned(), value);
    Ok(())
}

/// A patch's own content: without directives and nulls.
fn plain(patch: &Fields) -> Fields {
    let entries = patch
        .iter()
        .filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    entries
        .map(|(name, value)| match value {
            Value::Object(inner) => (name.clone(), plain(inner).into()),
            other => (name.clone(), other.clone()),
        })
        .collect()
}

/// Drops the fields that the patch does not want to keep.
fn retain(original: &mut Fields, patch: &Fields) -> Result<(), String> {
    let Some(kept) = patch.get(RETAIN) else {
        return Ok(());
    };
    let Some(kept) = kept.as_array() else {
        return Err(format!("{RETAIN} must be a list"));
    };
    let is_kept = |name: &String| kept.iter().any(|it| it == name);
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

fn delete_values(original: &mut Fields, list: &str, values: &Value) {
    let gone = values.as_array().map_or(&[][..], Vec::as_slice);
    if let Some(Value::Array(items)) = original.get_mut(list) {
        items.retain(|item| !gone.contains(item));
    }
}

fn merge_list(
    list: &ListType,
    original: Vec<Value>,
    patch: &[Value],
    order: Option<&Value>,
) -> Result<Value, String> {
    let key = match &list.merging {
        Merging::By(key) => Some(key.as_str()),
        _ => None,
    };
    let replaces = |item: &&Value| item[PATCH] == "replace";
    if patch.iter().any(|item| replaces(&item)) {
        let items = patch.iter().filter(|item| !replaces(item));
        return Ok(items.cloned().collect());
    }
    let before = original.clone();
    let mut items = original;
    for wanted in patch {
        let found = items.iter().position(|item| is_same(key, item, wanted));
        if wanted[PATCH] == "delete" {
            items.retain(|item| !is_same(key, item, wanted));
        } else if let (Some(key), None) = (key, key.and_then(|key| wanted.get(key))) {
            return Err(format!(
                "map: {wanted} does not contain declared merge key: {key}"
            ));
        } else if let Value::Object(fields) = wanted {
            let old = found.and_then(|index| items[index].as_object().cloned());
            let item = merge_map(&list.items, old.unwrap_or_default(), fields)?.into();
            match found {
                Some(index) => items[index] = item,
                None => items.push(item),
            }
        } else if found.is_none() {
            items.push(wanted.clone());
        }
    }
    let order = order.and_then(Value::as_array).map_or(patch, Vec::as_slice);
    Ok(ordered(key, items, order, &before).into())
}

fn reorder(kind: Option<&Type>, original: &mut Fields, name: &str, order: &Value) {
    let Some(Type::List(list)) = kind.map(Type::resolve) else {
        return;
    };
    let key = match &list.merging {
        Merging::By(key) => Some(key.as_str()),
        _ => None,
    };
    if let (Some(Value::Array(items)), Some(order)) = (original.get_mut(name), order.as_array()) {
        let before = items.clone();
        *items = ordered(key, std::mem::take(items), order, &before);
    }
}

/// Two items that stand for the same thing.
fn is_same(key: Option<&str>, one: &Value, two: &Value) -> bool {
    match key {
        Some(key) => one.get(key).is_some() && one.get(key) == two.get(key),
        None => one == two,
    }
}

/// What `order` lists, in that order; the rest stays in front of what it was in front of.
fn ordered(key: Option<&str>, items: Vec<Value>, order: &[Value], before: &[Value]) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|it| is_same(key, it, item));
    let (mut listed, mut rest): (Vec<Value>, Vec<Value>) = items
        .into_iter()
        .partition(|item| place(order, item).is_some());
    listed.sort_by_key(|item| place(order, item));
    rest.sort_by_key(|item| place(before, item));
    let mut result = Vec::with_capacity(listed.len() + rest.len());
    let (mut listed, mut rest) = (listed.into_iter().peekable(), rest.into_iter().peekable());
    loop {
        let takes_rest = match (rest.peek(), listed.peek()) {
            (None, None) => return result,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(rest), Some(listed)) => match (place(before, rest), place(before, listed)) {
                (Some(rest), Some(listed)) => rest < listed,
                _ => false,
            },
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

    #[test]
    fn plain_values_are_added_and_deleted() {
        let kind = Type::named("ObjectMeta");
        let original = json!({"finalizers": ["a", "b"]});
        let patch = json!({"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]});
        let expected = json!({"finalizers": ["c", "b"]});
        assert_eq!(merged(&kind, &original, &patch), Ok(expected));
    }
}
