//! Objects against schemas, as text.

use serde_json::{Value, json};

use super::{FieldError, Schema};

fn told(errors: &[FieldError]) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{} {}: {}", error.reason, error.field, error.message))
        .collect()
}

/// A schema whose `spec` is `spec`.
fn schema(spec: &Value) -> Schema {
    let root = json!({ "type": "object", "properties": { "spec": spec } });
    Schema::compile(&root).unwrap_or_else(|errors| panic!("{:#?}", told(&errors)))
}

/// Checks `object` as the `spec` of a new object.
fn check(spec: Value, object: Value, expected: &[&str]) {
    let errors = schema(&spec).validate(&json!({ "spec": object }), None);
    assert_eq!(told(&errors), expected, "{object} against {spec}");
}

#[test]
fn types() {
    check(
        json!({"type": "integer"}),
        json!("x"),
        &[
            "FieldValueTypeInvalid spec: Invalid value: \"string\": spec in body must be of type integer: \"string\"",
        ],
    );
}
