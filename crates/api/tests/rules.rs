//! The rules the API server evaluates, evaluated here.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::{Value, json};

/// What the definition of a kind has against an object, or against a change of it.
fn complaints(kind: &str, object: &Value, old: Option<&Value>) -> String {
    let definition = api::crds()
        .into_iter()
        .find(|definition| definition.spec.names.kind == kind);
    let version = definition.unwrap().spec.versions.remove(0);
    let schema = version.schema.unwrap().open_api_v3_schema.unwrap();
    let schema = serde_json::to_value(schema).unwrap();
    let verdict = kube_cel::Validator::new().validate(&schema, object, old);
    let errors = verdict
        .err()
        .map(|errors| errors.into_vec())
        .unwrap_or_default();
    let messages: Vec<_> = errors.into_iter().map(|error| error.message).collect();
    messages.join("; ")
}

/// The object with a patch of its spec merged in; null removes.
fn edited(object: &Value, patch: Value) -> Value {
    fn merge(value: &mut Value, patch: Value) {
        let Value::Object(patch) = patch else {
            *value = patch;
            return;
        };
        for (key, patch) in patch {
            match patch {
                Value::Null => drop(value.as_object_mut().unwrap().remove(&key)),
                patch => merge(&mut value[&key], patch),
            }
        }
    }
    let mut object = object.clone();
    merge(&mut object["spec"], patch);
    object
}

fn promotion() -> Value {
    json!({
        "spec": {
            "pipeline": "basket", "environment": "prod", "revision": "1.2.3", "version": "1.2.3",
            "replaces": "1.2.2", "ordinal": 0, "needsApproval": true,
            "strategy": { "pull-request": {
                "type": "github", "url": "https://git.example.com/fleet.git",
                "baseBranch": "main", "secretRef": { "name": "fleet" }
            } }
        }
    })
}

#[track_caller]
fn check_promotion(before: Value, change: Value, expected: &str) {
    let old = edited(&promotion(), before);
    assert_eq!(
        complaints("Promotion", &edited(&old, change), Some(&old)),
        expected
    );
}

#[test]
fn a_promotion_is_frozen() {
    let frozen = "a promotion cannot be edited";
    for change in [
        json!({ "pipeline": "other" }),
        json!({ "environment": "dev" }),
        json!({ "revision": "2" }),
        json!({ "version": "2" }),
        json!({ "ordinal": 1 }),
        json!({ "needsApproval": false }),
        json!({ "replaces": "0" }),
        json!({ "replaces": null }),
        json!({ "target": { "namespace": "x" } }),
        json!({ "request": { "id": "1", "kind": "Promote" } }),
        json!({ "strategy": { "notification": {} } }),
        json!({ "strategy": { "pull-request": { "url": "https://elsewhere.example.com" } } }),
        json!({ "strategy": { "pull-request": { "secretRef": { "name": "other" } } } }),
    ] {
        check_promotion(json!({}), change, frozen);
    }
    check_promotion(
        json!({ "target": { "namespace": "x" } }),
        json!({ "target": null }),
        frozen,
    );
    check_promotion(json!({}), json!({}), "");
    assert_eq!(complaints("Promotion", &promotion(), None), "");
}

#[test]
fn approvals_are_given_and_replaced_and_not_taken_back() {
    let by = |names: &[&str]| {
        let all: Vec<_> = names.iter().map(|by| json!({ "by": by })).collect();
        json!({ "approvals": all })
    };
    let kept = "an approval cannot be taken back; reject the promotion instead";
    check_promotion(json!({}), by(&["ann"]), "");
    check_promotion(by(&["ann"]), by(&["bob", "ann"]), "");
    let again = json!({ "approvals": [{ "by": "ann", "note": "again" }] });
    check_promotion(by(&["ann"]), again, "");
    check_promotion(by(&["ann", "bob"]), by(&["bob"]), kept);
    check_promotion(by(&["ann"]), json!({ "approvals": null }), kept);
    let policy = json!({ "approvalPolicy": { "count": 2 } });
    let frozen = "a promotion cannot be edited";
    check_promotion(
        policy.clone(),
        json!({ "approvalPolicy": { "count": 1 } }),
        frozen,
    );
    check_promotion(policy, json!({ "approvalPolicy": null }), frozen);
}

/// Where earlier versions stored the approval, nothing new is written.
#[test]
fn the_approval_of_an_earlier_version_stays() {
    let approval = json!({ "approval": { "by": "ann" } });
    let elsewhere = "approvals are given in spec.approvals";
    check_promotion(json!({}), approval.clone(), elsewhere);
    check_promotion(approval.clone(), json!({}), "");
    let other = json!({ "approval": { "by": "bob" } });
    check_promotion(approval.clone(), other, elsewhere);
    check_promotion(approval, json!({ "approval": null }), elsewhere);
}

#[test]
fn a_promotion_is_rejected_once() {
    let rejection = json!({ "rejection": { "by": "ann" } });
    let once = "a promotion is rejected once, and that cannot be changed or taken back";
    check_promotion(json!({}), rejection.clone(), "");
    let other = json!({ "rejection": { "by": "bob" } });
    check_promotion(rejection.clone(), other, once);
    check_promotion(rejection, json!({ "rejection": null }), once);
}

#[test]
fn a_withdrawal_stays() {
    let withdrawn = json!({ "withdrawn": { "reason": "Newer" } });
    check_promotion(json!({}), withdrawn.clone(), "");
    check_promotion(
        withdrawn.clone(),
        json!({ "withdrawn": { "reason": "Other" } }),
        "",
    );
    check_promotion(
        withdrawn,
        json!({ "withdrawn": null }),
        "a withdrawal cannot be taken back",
    );
}

#[test]
fn a_change_stays_in_the_repository_and_as_it_is() {
    let change = |path: &str| json!({ "spec": { "path": path, "content": "", "title": "t" } });
    let inside = "must stay inside the repository";
    for (path, expected) in [
        ("a/b.yaml", ""),
        ("a..b/..c", ""),
        ("/etc/passwd", inside),
        ("..", inside),
        ("../a", inside),
        ("a/../b", inside),
        ("a/..", inside),
    ] {
        assert_eq!(
            complaints("Change", &change(path), None),
            expected,
            "{path}"
        );
    }
    let edit = complaints("Change", &change("b"), Some(&change("a")));
    assert_eq!(edit, "a change cannot be edited; create another");
}

#[test]
fn a_cluster_has_one_way_in() {
    let check = |cluster: Value, expected: &str| {
        assert_eq!(complaints("GitopsCluster", &cluster, None), expected)
    };
    let name = json!({ "name": "x" });
    check(json!({ "spec": { "secretRef": name } }), "");
    check(json!({ "spec": { "capiClusterRef": name } }), "");
    check(
        json!({ "spec": { "secretRef": name, "capiClusterRef": name } }),
        "cannot provide both capiClusterRef and secretRef",
    );
    check(
        json!({ "spec": {} }),
        "must provide a secretRef or capiClusterRef",
    );
    check(json!({}), "must configure spec");
}

#[test]
fn a_trigger_has_one_template() {
    let one = "exactly one of pipeline, pipelineRunSpec and pipelineRun must be given";
    let check = |templates: Value, expected: &str| {
        let mut spec = templates;
        spec["source"] = json!({ "kind": "GitRepository", "name": "code" });
        assert_eq!(
            complaints("PipelineTrigger", &json!({ "spec": spec }), None),
            expected
        );
    };
    check(json!({ "pipeline": { "name": "build" } }), "");
    check(json!({ "pipelineRunSpec": {} }), "");
    check(json!({ "pipelineRun": { "spec": {} } }), "");
    check(json!({}), one);
    check(json!({ "pipelineRun": {}, "pipelineRunSpec": {} }), one);
}

#[test]
fn only_a_hook_needs_no_name() {
    let check = |source: Value, expected: &str| {
        let pipeline = json!({ "spec": { "environments": [], "source": source } });
        assert_eq!(complaints("Pipeline", &pipeline, None), expected);
    };
    check(json!({ "kind": "Hook" }), "");
    check(json!({ "kind": "HelmChart", "name": "x" }), "");
    check(
        json!({ "kind": "HelmChart" }),
        "a source other than Hook needs a name",
    );
}

fn check_run() -> Value {
    json!({
        "spec": {
            "pipeline": "basket", "environment": "prod", "revision": "1.2.3", "version": "1.2.3",
            "attempt": 0, "cause": "Verify", "check": { "name": "ticket", "external": {} }
        }
    })
}

#[track_caller]
fn check_check_run(before: Value, change: Value, expected: &str) {
    let old = edited(&check_run(), before);
    let new = edited(&old, change);
    assert_eq!(complaints("CheckRun", &new, Some(&old)), expected);
}

#[test]
fn a_check_run_is_frozen() {
    for change in [
        json!({ "pipeline": "other" }),
        json!({ "environment": "dev" }),
        json!({ "revision": "2" }),
        json!({ "version": "2" }),
        json!({ "attempt": 1 }),
        json!({ "cause": "Promotion" }),
        json!({ "check": { "name": "other" } }),
        json!({ "check": { "external": { "secretRef": { "name": "other" } } } }),
    ] {
        check_check_run(json!({}), change, "a check run cannot be edited");
    }
    check_check_run(json!({}), json!({}), "");
}

#[test]
fn the_result_of_an_external_check_is_set_once() {
    let passed = json!({ "result": { "passed": true } });
    check_check_run(json!({}), passed.clone(), "");
    let once = "the result of a check is set once, and that cannot be changed or taken back";
    check_check_run(
        passed.clone(),
        json!({ "result": { "passed": false } }),
        once,
    );
    check_check_run(passed.clone(), json!({ "result": null }), once);
    let job = json!({ "check": { "external": null, "job": { "cronJobRef": { "name": "e2e" } } } });
    let external = "only the result of an external check can be reported";
    check_check_run(job, passed, external);
}

#[test]
fn a_check_is_of_one_kind() {
    let one = "a check is exactly one of prometheus, http, job and external";
    let pipeline = |checks: Value| json!({ "spec": { "environments": [], "checks": checks } });
    let http = json!({ "url": "https://shop.example.com", "passExpr": "status == 200" });
    for (check, expected) in [
        (json!({ "name": "a", "external": {} }), ""),
        (json!({ "name": "a", "http": http }), ""),
        (json!({ "name": "a" }), one),
        (json!({ "name": "a", "external": {}, "http": http }), one),
    ] {
        let object = pipeline(json!([check]));
        assert_eq!(complaints("Pipeline", &object, None), expected, "{check}");
    }
}
