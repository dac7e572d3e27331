//! What people may write by themselves.

use api::{Pipeline, Promotion};
use planner::{WritingUser, refuse_pipeline, refuse_pipeline_deletion, refuse_promotion};
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
fn ask<T>(writer: &str, refuse: impl Fn(&WritingUser<'_>) -> T) -> T {
    let (name, verbs) = writer.split_once(": ").unwrap_or((writer, ""));
    let may = |verb: &str, environment: Option<&str>| {
        let wanted = match environment {
            Some(environment) => format!("{verb}/{environment}"),
            None => verb.to_owned(),
        };
        verbs.split(' ').any(|has| has == wanted)
    };
    refuse(&WritingUser { name, may: &may })
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

/// Whoever may not resume an environment may not remove it either, to add it again.
#[test]
fn removing_a_suspended_environment_resumes_it() {
    let environments =
        json!([{"name": "dev", "targets": []}, {"name": "prod", "targets": [], "suspend": true}]);
    let old = pipeline(json!({"spec": {"environments": environments}}));
    let new = pipeline(json!({"spec": {"environments": [{"name": "dev", "targets": []}]}}));
    for (writer, expected) in [
        ("ann: suspend/prod", ""),
        ("ann: suspend/dev", "may not suspend or resume environments"),
    ] {
        let refused = ask(writer, |writer| refuse_pipeline(Some(&old), &new, writer));
        check(refused, expected);
    }
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
        (
            "a nn: promote",
            asks(r#"{"prod": {"revision": "1", "by": "a nn"}}"#),
            "",
        ),
        (
            "ann: promote",
            asks(r#"{"prod": {"revision": "1", "by": "a nn"}}"#),
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

/// Settings of prod: `NAME VALUE` each; `-` stands for no environment prod.
fn guarded(prod: &str) -> Pipeline {
    let mut promotion = json!({"strategy": {"notification": {}}});
    let mut targets = json!([{"namespace": "prod"}]);
    for setting in prod.split(", ").filter(|it| !it.is_empty() && *it != "-") {
        let (name, value) = setting.split_once(' ').unwrap();
        match name {
            "manual" => promotion["manual"] = json!(value == "true"),
            "targets" => targets = json!([{"namespace": value}]),
            "strategy" => promotion["strategy"] = json!({value: {}}),
            "early" => {
                promotion["webhook"] = json!({"url": value});
                promotion.as_object_mut().unwrap().remove("strategy");
            }
            _ => promotion[name] = value.into(),
        }
    }
    let mut environments = json!([{"name": "dev", "targets": []}]);
    if prod != "-" {
        let prod = json!({"name": "prod", "targets": targets, "promotion": promotion});
        environments.as_array_mut().unwrap().push(prod);
    }
    pipeline(json!({"spec": {"environments": environments}}))
}

#[test]
fn weakening_needs_the_right_to_approve() {
    let refused = "may not weaken or remove what guards prod of pipeline shop: the verb approve";
    for (old, new, expected) in [
        ("manual true", "", refused),
        ("manual true", "manual true, soak 1h", ""),
        ("", "manual true", ""),
        ("manual true", "-", refused),
        ("manual true", "manual true, targets other", refused),
        ("manual true", "manual true, strategy webhook", refused),
        ("manual true", "manual true, when AnyTargetReady", refused),
        ("soak 1h", "soak 59m", refused),
        ("soak 1h", "soak 60m", ""),
        ("soak 1h", "soak 2h", ""),
        ("soak 1h", "", refused),
        ("soak 1h", "-", refused),
        ("soak 0s", "-", ""),
        ("when AllTargetsReady", "", refused),
        ("when AllTargetsReady", "-", refused),
        ("when AnyTargetReady", "", ""),
        ("when AnyTargetReady", "-", ""),
        ("", "when AnyTargetReady", refused),
        ("", "when AllTargetsReady", ""),
        ("", "early https://ci.example.com", refused),
        ("", "targets other, strategy webhook", ""),
        ("", "-", ""),
    ] {
        let (old, new) = (guarded(old), guarded(new));
        let ask = |who: &str| ask(who, |it| refuse_pipeline(Some(&old), &new, it));
        check(ask("ann: promote suspend approve/dev"), expected);
        check(ask("ann: approve"), "");
        check(ask("ann: approve/prod"), "");
    }
}

#[test]
fn a_guarded_pipeline_is_deleted_by_who_may_approve() {
    let delete = |old: &Pipeline, who: &str| ask(who, |it| refuse_pipeline_deletion(old, it));
    check(delete(&guarded(""), "ann"), "");
    check(
        delete(&guarded("manual true"), "ann: suspend"),
        "what guards prod",
    );
    check(delete(&guarded("manual true"), "ann: approve/prod"), "");
    let mut owned = guarded("manual true");
    owned.metadata.owner_references = Some(vec![Default::default()]);
    let own = |who: &str| {
        ask(who, |it| {
            refuse_pipeline(Some(&guarded("manual true")), &owned, it)
        })
    };
    check(own("ann"), "what guards prod");
    check(own("ann: approve"), "");
}

#[test]
fn what_is_remembered_of_a_copy_is_written_by_sluice() {
    let remembers = |text: &str| {
        let annotations = json!({"pipelines.weave.works/adopted": text});
        pipeline(json!({"metadata": {"annotations": annotations}}))
    };
    let forged = remembers(r#"{"suspend": true}"#);
    let who = "ann: approve suspend promote";
    for (old, new, expected) in [
        (None, &forged, "written by Sluice"),
        (Some(pipeline(json!({}))), &forged, "written by Sluice"),
        (Some(remembers("{}")), &forged, "written by Sluice"),
        (Some(remembers("{}")), &remembers("{}"), ""),
        (Some(remembers("{}")), &pipeline(json!({})), ""),
    ] {
        let refused = ask(who, |it| refuse_pipeline(old.as_ref(), new, it));
        check(refused, expected);
    }
}

#[test]
fn settings_of_the_whole_pipeline_guard_every_environment_without_its_own() {
    let shared = |manual: bool| {
        let promotion = json!({"manual": manual, "strategy": {"notification": {}}});
        pipeline(json!({"spec": {"promotion": promotion}}))
    };
    let ask = |who: &str| {
        ask(who, |it| {
            refuse_pipeline(Some(&shared(true)), &shared(false), it)
        })
    };
    check(ask("ann: approve/prod"), "what guards dev, prod");
    check(ask("ann: approve/prod approve/dev"), "");
}
