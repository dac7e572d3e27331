//! Selectors as people write them.

use serde_json::json;

use super::*;

fn selects(selector: &str, labels: Value) -> bool {
    let selector = Selector {
        labels: parse_labels(selector).expect("well formed"),
        fields: Vec::new(),
    };
    selector.matches(&json!({"metadata": {"labels": labels}}))
}

#[test]
fn labels_are_selected_as_kubectl_users_write_it() {
    assert!(selects("a=b", json!({"a": "b"})));
    assert!(!selects("a=b", json!({"a": "c"})));
    assert!(selects("a!=b", json!({})));
    assert!(selects("a", json!({"a": ""})));
    assert!(selects("!a, b in (c, d)", json!({"b": "d"})));
    assert!(selects("b notin (c)", json!({})));
    assert!(selects("n > 3", json!({"n": "10"})));
    assert!(selects("", json!({})));
}

#[test]
fn names_are_selected_by_key() {
    let key = StoreKey::new("g/things".into(), Some("n"), "a");
    let by_key = |fields: &[(&str, &str, bool)], labels: &str| {
        let requirement = |(path, value, equal): &(&str, &str, bool)| FieldRequirement {
            path: path.split('.').map(str::to_owned).collect(),
            value: (*value).to_owned(),
            equal: *equal,
        };
        let selector = Selector {
            labels: parse_labels(labels).expect("well formed"),
            fields: fields.iter().map(requirement).collect(),
        };
        selector.by_key(&key)
    };
    let (name, namespace) = ("metadata.name", "metadata.namespace");
    assert_eq!(by_key(&[], ""), Some(true));
    assert_eq!(by_key(&[(name, "a", true)], ""), Some(true));
    assert_eq!(by_key(&[(name, "a", false)], ""), Some(false));
    assert_eq!(
        by_key(&[(namespace, "n", true), (name, "b", true)], "x"),
        Some(false)
    );
    assert_eq!(by_key(&[(namespace, "n", true)], "x"), None);
    assert_eq!(
        by_key(&[(name, "a", true), ("spec.x", "1", true)], ""),
        None
    );
}

#[test]
fn nonsense_is_refused() {
    for selector in [
        "a=b=c", "a in b", "a in (b", ",", "a,", "=b", "!", "a b", "a=-", "n>x", "!a=b",
    ] {
        assert!(parse_labels(selector).is_err(), "{selector}");
    }
}
