//! What people may write by themselves.

use api::{Pipeline, Promotion};
use planner::{Writer, refuse_pipeline, refuse_promotion};
use serde_json::{Value, json};

fn merged(mut value: Value, patch: Value) -> Value {
    match patch {
        Value::Object(patch) => {
            for (key, patch) in patch {
                let before = value[&key].take();
                value[&key] = merged(before, patch);
            }
            value
        }
        patch => patch,
    }
}

/// `name: verb verb/environment …`
fn ask<T>(writer: &str, refuse: impl Fn(&Writer<'_>) -> T) -> T {
    let (name, verbs) = writer.split_once(": ").unwrap_or((writer, ""));
    let may = |verb: &str, environment: Option<&str>| {
        let wanted = match environment {
            Some(environment) => format!("{verb}/{environment}"),
            None => verb.to_owned(),
        };
        verbs.split(' ').any(|has| has == wanted)
    };
    refuse(&Writer { name, may: &may })
}

fn promotion(spec: Value) -> Promotion {
    let bare = json!({"metadata": {"name": "p"}, "spec": {
        "pipeline": "shop", "environment": "prod", "revision": "1", "version": "1",
        "ordinal": 0, "strategy": {}, "needsApproval": true,
    }});
    serde_json::from_value(merged(bare, json!({"spec": spec}))).unwrap()
}

fn pipeline(patch: Value) -> Pipeline {
    let bare = json!({"metadata": {"name": "shop"}, "spec": {
        "environments": [{"name": "dev", "targets": []}, {"name": "prod", "targets": []}],
    }});
    serde_json::from_value(merged(bare, patch)).unwrap()
}

#[track_caller]
fn check(refused: Option<String>, expected: &str) {
    let refused = refused.unwrap_or_default();
    assert!(
        refused.contains(expected) && refused.is_empty() == expected.is_empty(),
        "{refused}"
    );
}

#[test]
fn approvals_are_by_who_may_and_says_so() {
    let old = promotion(json!({}));
    let by = |name: &str| promotion(json!({"approval": {"by": name}}));
    for (writer, new, expected) in [
        ("ann: approve", by("ann"), ""),
        ("ann: approve/prod", by("ann"), ""),
        (
            "ann: approve/dev promote",
            by("ann"),
            "ann may not approve promotions of pipeline shop into prod",
        ),
        ("ann", by("ann"), "the verb approve"),
        ("ann: approve", by("boss"), "spec.approval.by must be ann"),
        (
            "ann: approve",
            promotion(json!({"withdrawn": {"reason": "no"}})),
            "withdrawn by Sluice",
        ),
        ("ann", promotion(json!({})), ""),
    ] {
        check(
            ask(writer, |writer| refuse_promotion(Some(&old), &new, writer)),
            expected,
        );
    }
    let new = promotion(json!({}));
    check(
        ask("ann: approve", |writer| {
            refuse_promotion(None, &new, writer)
        }),
        "created by Sluice",
    );
}

#[test]
fn suspending_and_asking_are_rights_of_their_own() {
    let old = pipeline(json!({}));
    let suspended = || pipeline(json!({"spec": {"suspend": true}}));
    let prod = || {
        let environments = json!([{"name": "dev", "targets": []}, {"name": "prod", "targets": [], "suspend": true}]);
        pipeline(json!({"spec": {"environments": environments}}))
    };
    let asks = |request: &str| {
        pipeline(json!({"metadata": {"annotations": {"pipelines.weave.works/request": request}}}))
    };
    for (writer, new, expected) in [
        ("ann: suspend", suspended(), ""),
        (
            "ann: suspend/prod",
            suspended(),
            "ann may not suspend or resume pipeline shop",
        ),
        ("ann: suspend/prod", prod(), ""),
        (
            "ann: suspend/dev",
            prod(),
            "may not suspend or resume environments",
        ),
        ("ann: promote", asks(r#"{"prod": {"revision": "1"}}"#), ""),
        (
            "ann: promote",
            asks(r#"{"prod": {"revision": "1", "by": "ann"}}"#),
            "",
        ),
        (
            "ann: promote",
            asks(r#"{"prod": {"revision": "1", "by": "boss"}}"#),
            "leave \"by\" out",
        ),
        (
            "ann: promote",
            asks(r#"{"environment": "prod", "\u0062y": "boss"}"#),
            "leave \"by\" out",
        ),
        ("ann: promote", asks("no json"), ""),
        ("ann", asks("{}"), "may not ask for promotions"),
        (
            "ann",
            pipeline(json!({"metadata": {"labels": {"a": "b"}}})),
            "",
        ),
    ] {
        check(
            ask(writer, |writer| refuse_pipeline(Some(&old), &new, writer)),
            expected,
        );
    }
    check(
        ask("ann", |writer| refuse_pipeline(None, &suspended(), writer)),
        "",
    );
}
