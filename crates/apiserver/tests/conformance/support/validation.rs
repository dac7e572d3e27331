//! Expectations about the validation of Things against their schema.

use serde_json::{Value, json};

use super::{Answer, Context, spec_schema};

/// Defines Things whose spec has these properties.
pub(crate) async fn define(api: &Context, properties: Value) {
    api.define_things(spec_schema(properties)).await;
}

pub(crate) async fn create(api: &Context, spec: Value) -> Answer {
    api.post(
        &api.custom("things"),
        &api.thing("a", json!({"spec": spec})),
    )
    .await
}

/// The causes of a refusal as `field: message (reason)`, sorted, and the message that joins them.
#[track_caller]
pub(crate) fn causes(api: &Context, answer: Answer) -> Vec<String> {
    let status = answer.refused_somehow(422, "Invalid");
    let details = &status["details"];
    assert_eq!(details["name"], "a");
    assert_eq!(details["kind"], "Thing");
    assert_eq!(details["group"], api.group.as_str());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = details["causes"].as_array().unwrap();
    let joined: Vec<String> = list
        .iter()
        .map(|cause| format!("{}: {}", text(&cause["field"]), text(&cause["message"])))
        .collect();
    let joined = if joined.len() == 1 {
        joined[0].clone()
    } else {
        format!("[{}]", joined.join(", "))
    };
    assert_eq!(
        status["message"],
        format!("Thing.{} \"a\" is invalid: {joined}", api.group)
    );
    let describe = |cause: &Value| {
        format!(
            "{}: {} ({})",
            text(&cause["field"]),
            text(&cause["message"]),
            text(&cause["reason"])
        )
    };
    let mut causes: Vec<String> = list.iter().map(describe).collect();
    causes.sort();
    causes
}

/// Creates a Thing with this spec, which must be refused for exactly these causes.
pub(crate) async fn refused(api: &Context, spec: Value, expected: &[&str]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(causes(api, create(api, spec).await), expected);
}
