//! The JSON merge patch that turns one document into another.

use serde_json::{Map, Value, json};

/// What to send so that `before` becomes `after`: nothing when they are the same, nulls for what
/// went away.
pub(super) fn between(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in after {
        let known = before.get(name).unwrap_or(&Value::Null);
        // An object in a patch is merged, so one that is new goes in as it is.
        if let Some(difference) = between(known, value) {
            patch.insert(name.clone(), difference);
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), json!(null));
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_sent() {
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
            assert_eq!(between(&before, &after), patch, "{before} to {after}");
        }
    }
}
