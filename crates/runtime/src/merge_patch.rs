//! Computes the JSON merge patch between two values: changed fields, and null for removed ones.

use serde_json::{Map, Value};

/// The patch that turns `old` into `new`; `None` if they are equal.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return Some(new.clone());
    };
    let mut patch = Map::new();
    for (field, value) in after {
        match before.get(field) {
            Some(known) => {
                if let Some(change) = merge_patch(known, value) {
                    patch.insert(field.clone(), change);
                }
            }
            None => {
                patch.insert(field.clone(), value.clone());
            }
        }
    }
    for field in before.keys().filter(|field| !after.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_changed_fields_are_in_the_patch() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "list": [1], "same": {"x": 1}});
        let new = json!({"a": 1, "b": {"c": 3}, "list": [1, 2], "same": {"x": 1}, "new": {}});
        let patch = merge_patch(&old, &new);
        let expected = json!({"b": {"c": 3, "d": null}, "list": [1, 2], "new": {}});
        assert_eq!(patch, Some(expected));
        assert_eq!(merge_patch(&new, &new), None);
    }

    #[test]
    fn removed_fields_are_null_and_lists_are_replaced() {
        for (before, after, patch) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (
                json!({"a": 1}),
                json!({"a": 2, "b": {"c": 3}}),
                Some(json!({"a": 2, "b": {"c": 3}})),
            ),
            (
                json!({"a": 1, "b": 2}),
                json!({"a": 1}),
                Some(json!({"b": null})),
            ),
            (
                json!({"a": {"x": 1, "y": 2}}),
                json!({"a": {"x": 1}}),
                Some(json!({"a": {"y": null}})),
            ),
            (
                json!({"l": [1, 2]}),
                json!({"l": [2]}),
                Some(json!({"l": [2]})),
            ),
            (json!(null), json!({"a": 1}), Some(json!({"a": 1}))),
        ] {
            assert_eq!(merge_patch(&before, &after), patch, "{before} to {after}");
        }
    }
}
