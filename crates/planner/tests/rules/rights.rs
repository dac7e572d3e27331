//! What people may write by themselves.

use api::{CheckRun, Pipeline, Promotion};
use planner::{
    WritingUser, approving_group, refuse_check_run, refuse_freeze, refuse_pipeline,
    refuse_pipeline_deletion, refuse_promotion,
};
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

/// `name of group and group: verb verb/environment …`
fn ask<T>(writer: &str, refuse: impl Fn(&WritingUser<'_>) -> T) -> T {
    let (name, verbs) = writer.split_once(": ").unwrap_or((writer, ""));
    let (name, groups) = name.split_once(" of ").unwrap_or((name, ""));
    let groups: Vec<_> = groups.split(" and ").map(str::to_owned).collect();
    let may = |verb: &str, environment: Option<&str>| {
        let wanted = match environment {
            Some(environment) => format!("{verb}/{environment}"),
            None => verb.to_owned(),
        };
        verbs.split(' ').any(|has| has == wanted)
    };
    refuse(&WritingUser {
        name,
        groups: &groups,
        may: &may,
    })
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

/// The same table is tried on a real API server in `testbed/tests/policy.rs`.
#[test]
fn attacks_on_approvals_are_refused() {
    let no_right =
        "may not approve or reject promotions of pipeline shop into prod: the verb approve";
    let own = "everybody gives and replaces only their own approval";
    let policy =
        json!({"count": 2, "from": [{"group": "sre"}, {"user": "ann"}], "notRequester": true});
    let request = json!({"id": "1", "kind": "Promote", "by": "eve"});
    let bob = json!({"by": "bob", "group": "sre"});
    let given = |approvals: Value| json!({"approvals": approvals});
    for (writer, before, patch, expected) in [
        ("ann: approve", json!([]), given(json!([{"by": "ann"}])), ""),
        (
            "ann: approve/prod",
            json!([]),
            given(json!([{"by": "ann"}])),
            "",
        ),
        (
            "ann: approve/dev promote",
            json!([]),
            given(json!([{"by": "ann"}])),
            no_right,
        ),
        ("ann", json!([]), given(json!([{"by": "ann"}])), no_right),
        (
            "ann: approve",
            json!([]),
            given(json!([{"by": "boss"}])),
            own,
        ),
        (
            "ann: approve",
            json!([]),
            given(json!([{"by": "ann"}, {"by": "boss"}])),
            own,
        ),
        (
            "ann: approve",
            json!([bob]),
            given(json!([{"by": "ann"}])),
            own,
        ),
        (
            "ann: approve",
            json!([bob]),
            given(json!([{"by": "bob", "group": "sre", "changeDigest": "forged"}, {"by": "ann"}])),
            own,
        ),
        (
            "ann: approve",
            json!([bob]),
            given(json!([{"by": "ann"}, bob])),
            "",
        ),
        (
            "ann: approve",
            json!([{"by": "ann"}]),
            given(json!([{"by": "ann", "note": "again"}])),
            "",
        ),
        (
            "bob: approve",
            json!([]),
            given(json!([bob])),
            "bob is not in the group sre",
        ),
        (
            "bob: approve",
            json!([]),
            given(json!([{"by": "bob"}])),
            "do not count from bob",
        ),
        (
            "bob of ops: approve",
            json!([]),
            given(json!([{"by": "bob", "group": "ops"}])),
            "do not count from bob",
        ),
        (
            "bob of sre and ops: approve",
            json!([]),
            given(json!([bob])),
            "",
        ),
        (
            "eve of sre: approve",
            json!([]),
            given(json!([{"by": "eve", "group": "sre"}])),
            "eve requested this promotion, so somebody else must approve it",
        ),
        (
            "ann: approve",
            json!([]),
            given(json!([{"by": "ann", "signature": "a5"}])),
            "approvals by the key of a webhook are written by Sluice",
        ),
        (
            "secret:keys: approve",
            json!([]),
            given(json!([{"by": "secret:keys"}])),
            "approvals by the key of a webhook are written by Sluice",
        ),
        (
            "ann: approve",
            json!([]),
            json!({"rejection": {"by": "ann"}}),
            "",
        ),
        (
            "ann: approve",
            json!([]),
            json!({"rejection": {"by": "boss"}}),
            "spec.rejection.by must be ann",
        ),
        (
            "ann: promote",
            json!([]),
            json!({"rejection": {"by": "ann"}}),
            no_right,
        ),
        (
            "ann: approve",
            json!([]),
            json!({"withdrawn": {"reason": "no"}}),
            "withdrawn by Sluice",
        ),
        ("ann", json!([bob]), json!({}), ""),
    ] {
        let fixed = json!({"approvalPolicy": policy, "request": request, "approvals": before});
        let old = promotion(fixed.clone());
        let new = promotion(merged(fixed, patch.clone()));
        let refused = ask(writer, |writer| refuse_promotion(Some(&old), &new, writer));
        let refused = refused.unwrap_or_default();
        let is_right = refused.contains(expected) && refused.is_empty() == expected.is_empty();
        assert!(is_right, "{writer} {patch}: {refused}");
    }
    let new = promotion(json!({}));
    let created = ask("ann: approve", |it| refuse_promotion(None, &new, it));
    check(created, "created by Sluice");
}

#[test]
fn the_group_of_an_approval_is_one_that_the_policy_names() {
    let policy = json!({"from": [{"group": "ops"}, {"group": "sre"}, {"user": "ann"}]});
    let promotion = promotion(json!({"approvalPolicy": policy}));
    let group = |user: &str, groups: &[&str]| {
        let groups: Vec<_> = groups.iter().map(|it| (*it).to_owned()).collect();
        approving_group(&promotion.spec, user, &groups)
    };
    assert_eq!(group("bob", &["all", "sre"]), Ok(Some("sre".to_owned())));
    assert_eq!(group("ann", &["sre"]), Ok(None));
    assert!(
        group("cid", &["all"])
            .unwrap_err()
            .contains("do not count from cid")
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
            "manual" | "requireVerifiedSource" => promotion[name] = json!(value == "true"),
            "policy" => promotion["approvalPolicy"] = json!(crate::drawing::policy(value)),
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
        ("policy 1", "", refused),
        ("policy 1", "manual true", refused),
        ("manual true", "policy 1", ""),
        ("policy 2", "policy 1", refused),
        ("policy 1", "policy 2", ""),
        ("policy 1 group:sre", "policy 1", refused),
        ("policy 1 group:sre", "policy 1 group:sre user:ann", refused),
        ("policy 1 group:sre", "policy 1 group:ops", refused),
        ("policy 1 group:sre user:ann", "policy 1 user:ann", ""),
        ("policy 1", "policy 1 group:sre", ""),
        ("policy 1 not-requester", "policy 1", refused),
        ("policy 1", "policy 1 not-requester", ""),
        ("policy 1 expires:1h", "policy 1", refused),
        ("policy 1 expires:1h", "policy 1 expires:61m", refused),
        ("policy 1 expires:1h", "policy 1 expires:60m", ""),
        ("policy 1", "policy 1 expires:1h", ""),
        ("policy 1", "policy 1, targets other", refused),
        ("policy 1", "policy 1, strategy webhook", refused),
        ("policy 1", "-", refused),
        ("requireVerifiedSource true", "", refused),
        ("requireVerifiedSource true", "-", refused),
        ("", "requireVerifiedSource true", ""),
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

/// `NAME[,AFTER…]` for each environment; one in capitals is guarded, `NAME-` has no targets.
fn in_order(text: &str) -> Pipeline {
    let environments = text.split(' ').map(|text| {
        let mut names = text.split(',');
        let name = names.next().unwrap();
        let mut environment = json!({"name": name.trim_end_matches('-')});
        environment["targets"] = match name.ends_with('-') {
            true => json!([]),
            false => json!([{"namespace": name}]),
        };
        if text.contains(',') {
            let after: Vec<_> = names.filter(|it| !it.is_empty()).collect();
            environment["after"] = json!(after);
        }
        let is_guarded = name.to_uppercase() == name;
        environment["promotion"] = json!({"strategy": {"notification": {}}, "manual": is_guarded});
        environment
    });
    let environments: Vec<_> = environments.collect();
    pipeline(json!({"spec": {"environments": environments}}))
}

/// The same is tried on a real API server in `testbed/tests/policy.rs`.
#[test]
fn a_guarded_environment_keeps_what_it_comes_after() {
    let refused = "may not weaken or remove what guards PROD of pipeline shop: the verb approve";
    for (old, new, expected) in [
        ("dev test PROD", "test dev PROD", refused),
        ("dev test PROD", "dev PROD test", refused),
        ("dev test PROD", "dev test new PROD", refused),
        ("dev test PROD", "dev PROD", refused),
        ("dev test PROD", "dev test- PROD", refused),
        ("dev test PROD", "dev test PROD,dev", refused),
        ("dev test PROD", "dev test PROD,", refused),
        ("dev test PROD", "dev test PROD,test,dev", refused),
        ("dev eu us PROD,eu,us", "dev eu us PROD,eu", refused),
        ("dev eu us PROD,eu,us", "dev eu us PROD", refused),
        ("dev eu us PROD,eu,us", "dev us eu PROD,us,eu", ""),
        ("dev test PROD", "dev test PROD,test", ""),
        ("dev test PROD,test", "dev test PROD", ""),
        ("dev test PROD", "dev test PROD lab,", ""),
        ("dev test PROD", "lab dev test PROD", ""),
        ("dev test prod", "test dev prod,dev", ""),
        ("dev test- PROD", "dev PROD", ""),
        ("dev test PROD-", "test dev PROD-", ""),
    ] {
        let (old, new) = (in_order(old), in_order(new));
        let ask = |who: &str| ask(who, |it| refuse_pipeline(Some(&old), &new, it));
        check(ask("ann: promote suspend approve/dev"), expected);
        check(ask("ann: approve"), "");
        check(ask("ann: approve/PROD"), "");
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

#[test]
fn freezes_and_overrides_need_their_own_verbs() {
    let freeze = |writer: &str| ask(writer, |writer| refuse_freeze("stop", writer));
    check(
        freeze("ann: promote approve"),
        "ann may not write the Freeze stop",
    );
    check(freeze("ann: freeze"), "");
    let overriding = |text: &str| {
        pipeline(json!({"metadata": {"annotations": {"pipelines.weave.works/override": text}}}))
    };
    let bare = pipeline(json!({}));
    let write = |writer: &str, old: &Pipeline, new: &Pipeline| {
        ask(writer, |writer| refuse_pipeline(Some(old), new, writer))
    };
    let refused = "may not override gates of pipeline shop";
    check(write("ann: promote", &bare, &overriding("{}")), refused);
    check(write("ann: override", &bare, &overriding("{}")), "");
    check(write("ann: promote", &overriding("{}"), &bare), refused);
    check(
        write("ann: promote", &overriding("{}"), &overriding("{}")),
        "",
    );
}

/// The annotation stays after its request was handled.
#[test]
fn the_override_of_another_person_cannot_be_used_again() {
    let annotated = |requests: Value| {
        let overriding = json!({"request": "r1", "reason": "incident", "passes": ["freeze/stop"]});
        pipeline(json!({"metadata": {"annotations": {
            "pipelines.weave.works/override": overriding.to_string(),
            "pipelines.weave.works/request": requests.to_string(),
        }}}))
    };
    let of = |id: &str| json!({"prod": {"id": id, "revision": "2", "by": "eve"}});
    let old = annotated(json!({"dev": {"id": "r1", "revision": "1", "by": "ann"}}));
    let write = |writer: &str, requests: Value| {
        let new = annotated(requests);
        ask(writer, |writer| refuse_pipeline(Some(&old), &new, writer))
    };
    let refused = "eve may not override gates of pipeline shop";
    check(write("eve: promote", of("r1")), refused);
    let one = json!({"environment": "prod", "id": "r1", "revision": "2"});
    check(write("eve: promote", one), refused);
    check(write("eve: promote override", of("r1")), "");
    check(write("eve: promote", of("r2")), "");
}

/// By its labels Sluice finds a promotion, and its owner can cause its deletion.
#[test]
fn labels_and_owners_of_a_promotion_are_written_by_sluice() {
    let labelled = |metadata: Value| {
        let mut promotion = promotion(json!({}));
        promotion.metadata = serde_json::from_value(metadata).unwrap();
        promotion
    };
    let label = "pipelines.weave.works/pipeline";
    let old = labelled(json!({"labels": {label: "shop"}}));
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    let refused = "the labels and owners of a promotion are written by Sluice";
    for (metadata, expected) in [
        (json!({"labels": {label: "other"}}), refused),
        (json!({}), refused),
        (
            json!({"labels": {label: "shop"}, "ownerReferences": owner}),
            refused,
        ),
        (json!({"labels": {label: "shop", "team": "a"}}), ""),
    ] {
        let new = labelled(metadata);
        let writer = "ann: approve promote";
        check(
            ask(writer, |writer| refuse_promotion(Some(&old), &new, writer)),
            expected,
        );
    }
}

fn check_run(patch: Value) -> CheckRun {
    let bare = json!({"metadata": {"name": "r"}, "spec": {
        "pipeline": "shop", "environment": "prod", "revision": "1", "version": "1",
        "attempt": 0, "cause": "Verify", "check": {"name": "ticket", "external": {}},
    }});
    serde_json::from_value(merged(bare, patch)).unwrap()
}

/// The same table is tried on a real API server in `testbed/tests/policy.rs`.
#[test]
fn check_runs_are_written_by_sluice_and_results_by_who_may_report() {
    let old = check_run(json!({}));
    let sluice = "created and deleted by Sluice";
    let everything = "ann: report approve promote override";
    check(
        ask(everything, |it| refuse_check_run(None, Some(&old), it)),
        sluice,
    );
    check(
        ask(everything, |it| refuse_check_run(Some(&old), None, it)),
        sluice,
    );
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    let owned = check_run(json!({"metadata": {"ownerReferences": owner}}));
    let owners = "the labels and owners of a check run are written by Sluice";
    check(
        ask(everything, |it| {
            refuse_check_run(Some(&old), Some(&owned), it)
        }),
        owners,
    );
    let result = |result: Value| check_run(json!({"spec": {"result": result}}));
    for (writer, reported, expected) in [
        (
            "ann: approve promote",
            json!({"passed": true, "by": "ann"}),
            "the verb report",
        ),
        (
            "ann: report/dev",
            json!({"passed": true, "by": "ann"}),
            "the verb report",
        ),
        (
            "ann: report",
            json!({"passed": true, "by": "bob"}),
            "spec.result.by must be ann",
        ),
        (
            "ann: report",
            json!({"passed": true}),
            "spec.result.by must be ann",
        ),
        (
            "ann: report",
            json!({"passed": true, "by": "ann", "signature": "a"}),
            "spec.result.by must be ann",
        ),
        ("ann: report", json!({"passed": true, "by": "ann"}), ""),
        (
            "ann: report/prod",
            json!({"passed": false, "by": "ann"}),
            "",
        ),
    ] {
        let new = result(reported);
        check(
            ask(writer, |it| refuse_check_run(Some(&old), Some(&new), it)),
            expected,
        );
    }
}

#[test]
fn weakening_checks_needs_the_right_to_approve() {
    let smoke = json!({"name": "smoke", "external": {}});
    let ticket = json!({"name": "ticket", "external": {"secretRef": {"name": "ticket"}}});
    let with = |verify: Value, before: Value, checks: Value| {
        pipeline(json!({"spec": {"checks": checks, "environments": [
            {"name": "dev", "targets": []},
            {"name": "prod", "targets": [], "verify": verify, "promotion": {"checks": before}},
        ]}}))
    };
    let verify = json!({"checks": ["smoke"], "onFailure": "Rollback"});
    let all = json!([smoke, ticket]);
    let old = with(verify.clone(), json!(["ticket"]), all.clone());
    let refused = "may not weaken or remove what guards prod of pipeline shop: the verb approve";
    let other = json!({"name": "smoke", "job": {"cronJobRef": {"name": "e2e"}}});
    for (new, expected) in [
        (
            with(json!({"checks": []}), json!(["ticket"]), all.clone()),
            refused,
        ),
        (
            with(json!({"checks": ["smoke"]}), json!(["ticket"]), all.clone()),
            refused,
        ),
        (with(Value::Null, json!(["ticket"]), all.clone()), refused),
        (with(verify.clone(), json!([]), all.clone()), refused),
        (
            with(verify.clone(), json!(["ticket"]), json!([other, ticket])),
            refused,
        ),
        (
            with(verify.clone(), json!(["ticket"]), json!([smoke])),
            refused,
        ),
        (
            with(verify.clone(), json!(["ticket", "smoke"]), all.clone()),
            "",
        ),
        (with(verify, json!(["ticket"]), json!([ticket, smoke])), ""),
    ] {
        check(
            ask("ann: promote", |it| refuse_pipeline(Some(&old), &new, it)),
            expected,
        );
        check(
            ask("ann: approve", |it| refuse_pipeline(Some(&old), &new, it)),
            "",
        );
    }
}

/// A check that is both before the environment and in it guards it in both places.
#[test]
fn a_check_that_stays_in_one_place_is_missed_in_the_other() {
    let ticket = json!({"name": "ticket", "external": {}});
    let with = |verify: Value, before: Value, namespace: &str| {
        pipeline(json!({"spec": {"checks": [ticket], "environments": [
            {"name": "dev", "targets": []},
            {
                "name": "prod", "targets": [{"namespace": namespace}],
                "verify": {"checks": verify}, "promotion": {"checks": before},
            },
        ]}}))
    };
    let (some, none) = (json!(["ticket"]), json!([]));
    let refused = "may not weaken or remove what guards prod of pipeline shop: the verb approve";
    for (old, new, expected) in [
        (
            with(some.clone(), some.clone(), "a"),
            with(none.clone(), some.clone(), "a"),
            refused,
        ),
        (
            with(some.clone(), some.clone(), "a"),
            with(some.clone(), none.clone(), "a"),
            refused,
        ),
        (
            with(some.clone(), none.clone(), "a"),
            with(some.clone(), some.clone(), "a"),
            "",
        ),
        // What has checks is guarded, so that it does not lead elsewhere.
        (
            with(some.clone(), none.clone(), "a"),
            with(some.clone(), none.clone(), "b"),
            refused,
        ),
        (
            with(none.clone(), some.clone(), "a"),
            with(none.clone(), some.clone(), "b"),
            refused,
        ),
        (
            with(none.clone(), none.clone(), "a"),
            with(none.clone(), none.clone(), "b"),
            "",
        ),
    ] {
        check(
            ask("ann: promote", |it| refuse_pipeline(Some(&old), &new, it)),
            expected,
        );
        check(
            ask("ann: approve", |it| refuse_pipeline(Some(&old), &new, it)),
            "",
        );
    }
}
