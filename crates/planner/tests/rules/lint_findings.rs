//! What is wrong with a spec before it runs: each finding with its field.

use api::pipeline::PipelineSpec;
use planner::lint;
use serde_json::{Value, json};

/// A pipeline dev > prod with the settings of prod, and those of the whole pipeline.
fn spec(prod: Value, pipeline: Value) -> Value {
    json!({
        "appRef": {
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
        },
        "promotion": pipeline,
        "environments": [
            {"name": "dev", "targets": [{"namespace": "dev"}]},
            {"name": "prod", "targets": [{"namespace": "prod"}], "promotion": prod},
        ],
    })
}

#[track_caller]
fn check(spec: Value, expected: &[&str]) {
    let parsed: PipelineSpec = serde_json::from_value(spec.clone()).unwrap();
    let found = lint(&parsed).into_iter().map(|it| {
        let word = if it.is_error { "error" } else { "warning" };
        format!("{word} {}: {}", it.field, it.text)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected, "{spec}");
}

fn pull_request(more: Value) -> Value {
    let mut to = json!({"url": "https://git.example/a.git", "baseBranch": "main", "secretRef": {"name": "git"}});
    let more = more.as_object().unwrap().clone();
    to.as_object_mut().unwrap().extend(more);
    json!({"strategy": {"pull-request": to}})
}

#[test]
fn a_draft_that_should_merge_itself_is_told() {
    check(spec(pull_request(json!({})), Value::Null), &[]);
    check(spec(pull_request(json!({"draft": true})), Value::Null), &[]);
    check(
        spec(pull_request(json!({"autoMerge": true})), Value::Null),
        &[],
    );
    check(
        spec(
            pull_request(json!({"draft": true, "autoMerge": true})),
            Value::Null,
        ),
        &[
            "warning spec.environments[1].promotion.strategy.pull-request.draft: prod: a draft is not \
             merged until somebody marks it ready",
        ],
    );
}

#[test]
fn a_promotion_without_a_strategy_is_told_of_where_something_would_be_promoted() {
    let nothing = || json!({"strategy": {}});
    let text = "the promotion into prod names no strategy";
    check(
        spec(Value::Null, nothing()),
        &[&format!("error spec.promotion.strategy: {text}")],
    );
    check(
        spec(nothing(), Value::Null),
        &[&format!(
            "error spec.environments[1].promotion.strategy: {text}"
        )],
    );
    let mut first = spec(pull_request(json!({})), Value::Null);
    first["environments"][0]["promotion"] = nothing();
    first["source"] = json!({"kind": "GitRepository", "name": "app"});
    check(
        first,
        &[
            "error spec.environments[0].promotion.strategy: the promotion into dev names no strategy",
        ],
    );
}

#[test]
fn a_policy_that_its_users_cannot_meet_for_their_own_requests_is_told() {
    let policy = |not_requester: bool, users: &[&str]| {
        let from: Vec<_> = users.iter().map(|user| json!({"user": user})).collect();
        let mut settings = pull_request(json!({}));
        settings["approvalPolicy"] =
            json!({"count": 1, "from": from, "notRequester": not_requester});
        spec(settings, Value::Null)
    };
    check(policy(false, &["ann"]), &[]);
    check(policy(true, &["ann", "bob"]), &[]);
    check(
        policy(true, &["ann"]),
        &[
            "warning spec.environments[1].promotion.approvalPolicy: the approvalPolicy of prod cannot be \
             met for what one of its users requested: name one more",
        ],
    );
}

#[test]
fn checks_that_nothing_uses_and_rollbacks_that_nothing_carries_out_are_told() {
    let with = |checks: Value, verify: Value| {
        let mut spec = spec(pull_request(json!({})), Value::Null);
        spec["checks"] = checks;
        spec["environments"][0]["verify"] = verify.clone();
        spec["environments"][1]["verify"] = verify;
        spec
    };
    let ticket = || json!([{"name": "ticket", "external": {}}]);
    let verify = |back: &str| json!({"checks": ["ticket"], "onFailure": back});
    check(with(ticket(), verify("Hold")), &[]);
    check(
        with(ticket(), Value::Null),
        &["warning spec.checks[0]: no environment uses the check ticket"],
    );
    // A strategy leads into prod, and none into dev.
    check(
        with(ticket(), verify("Rollback")),
        &[
            "warning spec.environments[0].verify: dev is never rolled back: no strategy leads into it, so \
             onFailure: Rollback only holds",
        ],
    );
}

#[test]
fn one_target_is_in_one_environment() {
    let shared = |dev: &[&str], prod: &[&str]| {
        let targets = |names: &[&str]| -> Vec<Value> {
            let targets = names.iter().map(|name| match name.split_once('/') {
                Some((cluster, namespace)) => {
                    let (home, cluster) = cluster.split_once('.').unwrap_or(("", cluster));
                    let cluster =
                        json!({"kind": "GitopsCluster", "name": cluster, "namespace": home});
                    json!({"namespace": namespace, "clusterRef": cluster})
                }
                None => json!({"namespace": name}),
            });
            targets.collect()
        };
        let mut spec = spec(pull_request(json!({})), Value::Null);
        spec["environments"][0]["targets"] = targets(dev).into();
        spec["environments"][1]["targets"] = targets(prod).into();
        spec
    };
    check(shared(&["shop"], &["eu/shop"]), &[]);
    check(shared(&["fleet.eu/shop"], &["other.eu/shop"]), &[]);
    check(
        shared(&["shop", "fleet.eu/shop"], &["fleet.eu/shop"]),
        &["error spec.environments[1].targets[0]: dev and prod have the same target fleet.eu/shop"],
    );
    check(
        shared(&["shop"], &["eu/shop", "eu/shop"]),
        &["warning spec.environments[1].targets[1]: prod has the target eu/shop twice"],
    );
}

#[test]
fn an_app_needs_a_kind_and_a_name() {
    for (kind, name) in [("", "app"), ("Kustomization", ""), ("", "")] {
        let mut spec = spec(pull_request(json!({})), Value::Null);
        spec["appRef"]["kind"] = kind.into();
        spec["appRef"]["name"] = name.into();
        check(spec, &["error spec.appRef: appRef needs a kind and a name"]);
    }
}

#[test]
fn a_circle_of_environments_is_told_of_where_it_begins() {
    let mut spec = spec(pull_request(json!({})), Value::Null);
    let environments = spec["environments"].as_array_mut().unwrap();
    for (name, after) in [("b", "c"), ("c", "b")] {
        environments.push(json!({
            "name": name, "after": [after], "targets": [{"namespace": name}],
            "promotion": pull_request(json!({})),
        }));
    }
    let parsed: PipelineSpec = serde_json::from_value(spec).unwrap();
    let found = lint(&parsed);
    let circle = found.iter().find(|it| it.text.contains("in a circle"));
    assert_eq!(circle.unwrap().field, "spec.environments[2]", "{found:?}");
}

#[test]
fn a_provider_excludes_a_secret_and_plain_text() {
    let oci = |more: Value| {
        let mut to = json!({"url": "oci://registry.example/shop", "tag": "prod"});
        let more = more.as_object().unwrap().clone();
        to.as_object_mut().unwrap().extend(more);
        spec(json!({"strategy": {"oci": to}}), Value::Null)
    };
    let secret = || json!({"name": "registry"});
    check(oci(json!({"provider": "aws"})), &[]);
    check(oci(json!({"secretRef": secret()})), &[]);
    check(oci(json!({"insecure": true})), &[]);
    for more in [
        json!({"provider": "aws", "secretRef": secret()}),
        json!({"provider": "aws", "insecure": true}),
    ] {
        check(
            oci(more),
            &[
                "error spec.environments[1].promotion.strategy.oci.provider: the promotion of prod has a \
                 provider, which excludes secretRef and insecure",
            ],
        );
    }
}

#[test]
fn a_rollout_needs_a_tag_per_target_and_inputs_need_a_token() {
    let oci = json!({"oci": {"url": "oci://registry.example/shop", "tag": "prod"}});
    check(
        spec(json!({"strategy": oci, "rollout": {}}), Value::Null),
        &[
            "error spec.environments[1].promotion.strategy.oci.tag: the promotion of prod has rollout and \
             one tag for all; put ${cluster} or ${namespace} into it",
        ],
    );
    let inputs = |name: &str| json!({"resourceSetInputs": {"secretRef": {"name": name}}});
    check(
        spec(json!({"strategy": inputs("inputs")}), Value::Null),
        &[],
    );
    check(
        spec(json!({"strategy": inputs("")}), Value::Null),
        &[
            "error spec.environments[1].promotion.strategy.resourceSetInputs: the promotion of prod has \
             resourceSetInputs without secretRef; name the Secret with the key inputs-token",
        ],
    );
}
