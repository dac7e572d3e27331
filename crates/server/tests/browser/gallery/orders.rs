//! Pipelines with a history: promotions that failed, were rolled back or rejected, and one that awaits approval.

use serde_json::{Value, json};

use super::objects::{VERSION, create, hours_ago, target};
use crate::world::{World, pipeline};

/// A pipeline that waits for the second of two approvals, after a release that failed and was rolled back.
pub(super) fn orders(world: &World) {
    let mut object = pipeline("orders");
    let spec = &mut object["spec"];
    spec["environments"] = json!([
        {"name": "dev", "targets": [{"namespace": "dev"}]},
        {"name": "staging", "targets": [{"namespace": "staging"}], "verify": {"checks": ["smoke"]}},
        {"name": "prod", "targets": [{"namespace": "prod"}]},
    ]);
    spec["checks"] = json!([{"name": "smoke", "external": {}}]);
    spec["promotion"]["soak"] = json!("30m");
    spec["promotion"]["approvalPolicy"] = policy();
    let ran = |revisions: &[(&str, i64)]| -> Vec<Value> {
        let all = revisions.iter().map(|(revision, hours)| {
            let at = hours_ago(*hours);
            json!({"revision": revision, "version": revision, "firstReadyAt": at, "allReadyAt": at, "checkedAt": at})
        });
        all.collect()
    };
    let targets = |clusters: &[&str], revision: &str, hours: i64| -> Vec<Value> {
        let all = clusters.iter().map(|cluster| {
            let mut target = target(cluster, revision, true);
            target["readySince"] = json!(hours_ago(hours));
            target["version"] = json!(revision);
            target
        });
        all.collect()
    };
    let smoke = json!({
        "run": "orders-smoke", "check": "smoke", "cause": "Verify", "revision": "6.3.0",
        "verdict": "Passed", "message": "12 of 12 requests", "at": hours_ago(2),
    });
    object["status"] = json!({"environments": {
        "dev": {"targets": targets(&["eu"], "6.3.0", 3), "ran": ran(&[("6.3.0", 3), ("6.2.0", 40), ("6.1.0", 100)])},
        "staging": {
            "targets": targets(&["eu", "us"], "6.3.0", 2), "checks": [smoke],
            "ran": ran(&[("6.3.0", 2), ("6.2.0", 38), ("6.1.0", 95)]),
        },
        "prod": {
            "targets": targets(&["eu", "us", "asia"], "6.1.0", 30), "ran": ran(&[("6.1.0", 90)]),
            "promotion": {"name": "orders-prod-2", "revision": "6.3.0", "phase": "AwaitingApproval"},
        },
    }});
    world.create(&object);
    promotions(world);
}

fn policy() -> Value {
    json!({"count": 2, "from": [{"group": "sre"}], "notRequester": true})
}

/// A promotion into prod; its name begins with that of the pipeline.
fn promotion(name: &str, (from, to): (&str, &str), extra: &Value, status: &Value) -> Value {
    let of = name.split('-').next().unwrap();
    let mut spec = json!({
        "pipeline": of, "environment": "prod", "revision": to, "version": to, "replaces": from,
        "ordinal": 0, "needsApproval": true, "approvalPolicy": policy(),
        "strategy": pipeline(of)["spec"]["promotion"]["strategy"],
    });
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": VERSION, "kind": "Promotion",
        "metadata": {"name": name, "namespace": "shop", "labels": {"pipelines.weave.works/pipeline": of}},
        "spec": spec, "status": status,
    })
}

fn promotions(world: &World) {
    let url = |number: u64| format!("https://forge.example/shop/pulls/{number}");
    let failed = json!({
        "phase": "Failed", "reason": "CheckFailed", "finishedAt": hours_ago(36), "url": url(3),
        "message": "smoke failed in prod: 2 of 12 requests were answered with 503",
    });
    let back = json!({"phase": "Succeeded", "finishedAt": hours_ago(35), "url": url(4)});
    let approval = json!({
        "by": "bea", "group": "sre", "at": hours_ago(1), "note": "tested on staging", "changeDigest": "sha256:1",
    });
    let merges = json!({
        "phase": "WaitingForMerge", "reason": "WaitingForMerge", "url": url(7),
        "message": "waits until somebody merges the pull request",
    });
    let commit = |id: &str, title: &str| json!({"id": id, "title": title, "author": "Cy"});
    let change = json!({
        "digest": "sha256:1",
        "edits": [{
            "file": "clusters/prod/orders.yaml", "path": "HelmRelease/orders spec.chart.spec.version",
            "old": "6.1.0", "new": "6.3.0",
        }],
        "commits": {
            "from": "4f2a9c1d00", "to": "b7e01f5c00", "total": 14,
            "url": "https://forge.example/orders/compare/6.1.0...6.3.0",
            "newest": [commit("b7e01f5c00", "Retry payments once"), commit("90c1aa7e00", "Show the tax of an order")],
        },
    });
    let waits = json!({
        "phase": "AwaitingApproval", "reason": "AwaitingApproval", "change": change,
        "message": "6.3.0 needs 1 more approval to enter prod",
    });
    for object in [
        promotion(
            "checkout-prod",
            ("6.1.0", "6.2.0"),
            &json!({"needsApproval": false}),
            &merges,
        ),
        promotion("orders-prod-0", ("6.1.0", "6.2.0"), &json!({}), &failed),
        promotion(
            "orders-prod-1",
            ("6.2.0", "6.1.0"),
            &json!({"cause": "orders-prod-0"}),
            &back,
        ),
        promotion(
            "orders-prod-2",
            ("6.1.0", "6.3.0"),
            &json!({"approvals": [approval]}),
            &waits,
        ),
    ] {
        create_owned(world, object);
    }
}

fn create_owned(world: &World, mut object: Value) {
    let of = object["spec"]["pipeline"].as_str().unwrap().to_owned();
    let uid = world.pipeline(&of).metadata.uid;
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": VERSION, "kind": "Pipeline", "name": of, "uid": uid}]);
    create(world, &object);
}

/// A pipeline whose newest revision somebody rejected for prod.
pub(super) fn rejected(world: &World) {
    let mut object = pipeline("rejected");
    object["status"] = json!({"environments": {
        "dev": {"targets": [target("eu", "6.3.0", true)]},
        "prod": {"targets": [target("eu", "6.1.0", true)], "rejected": ["6.3.0"], "hold": {
            "reason": "Rejected", "message": "ann rejected 6.3.0 in prod: it loses orders; resolved by a newer revision",
        }},
    }});
    world.create(&object);
    let status = json!({"phase": "Abandoned", "reason": "Rejected", "finishedAt": hours_ago(1)});
    let rejection =
        json!({"rejection": {"by": "ann", "note": "it loses orders", "at": hours_ago(1)}});
    let ended = promotion("rejected-prod-0", ("6.1.0", "6.3.0"), &rejection, &status);
    create_owned(world, ended);
}
