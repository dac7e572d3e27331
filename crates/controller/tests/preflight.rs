//! What is wrong with a strategy is in the status before a promotion needs it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

use std::time::Duration;

use api::{
    Pipeline, conditions,
    pipeline::{PipelineStatus, STRATEGY_READY},
};
use controller::{Metrics, Settings};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use testbed::{forge::Forge, objects::apply, tls};
use tokio_util::sync::CancellationToken;

fn definitions() -> Vec<Value> {
    let ours = api::crds().into_iter().map(|definition| {
        let mut value = serde_json::to_value(definition).unwrap();
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        value
    });
    ours.collect()
}

fn pipeline(url: &str, branch: &str) -> Value {
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop"},
            "promotion": {"strategy": {"pull-request": {
                "type": "gitea", "url": url, "baseBranch": branch, "secretRef": {"name": "git"},
            }}},
            "environments": [
                {"name": "dev", "targets": [{"namespace": "shop-dev"}]},
                {"name": "prod", "targets": [{"namespace": "shop-prod"}]},
            ],
        },
    })
}

fn secret(forge: &Forge, token: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git", "namespace": "default"},
        "stringData": {
            "username": "sluice", "password": token, "token": token,
            "caFile": forge.certificate_authority(),
        },
    })
}

/// Waits until the status is as wanted.
async fn until(pipelines: &Api<Pipeline>, is_it: impl Fn(&PipelineStatus) -> bool) {
    for _ in 0..600 {
        let status = pipelines.get("shop").await.unwrap().status;
        if status.is_some_and(|status| is_it(&status)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{:#?}", pipelines.get("shop").await.unwrap().status);
}

/// The reason of the condition, which names the environment too.
fn has_problem(reason: &'static str) -> impl Fn(&PipelineStatus) -> bool {
    move |status| {
        let condition = conditions::find(&status.conditions, STRATEGY_READY);
        let is_told = condition.is_some_and(|it| {
            it.status == "False" && it.reason == reason && it.message.starts_with("prod: ")
        });
        is_told && status.preflight.keys().eq(["prod"])
    }
}

async fn set_branch(pipelines: &Api<Pipeline>, branch: &str) {
    let strategy = json!({"pull-request": {"baseBranch": branch}});
    let patch = Patch::Merge(json!({"spec": {"promotion": {"strategy": strategy}}}));
    let parameters = PatchParams::default();
    pipelines.patch("shop", &parameters, &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_of_strategies_are_reported_before_a_promotion() {
    tls::install_provider();
    let client: Client = apiserver::Server::in_memory().client();
    apply(&client, definitions()).await;
    let forge = Forge::start_with_tls().await.unwrap();
    let files = [("prod/shop.yaml", "version: 1.0.0\n")];
    let repository = forge
        .create_repository("team/config", &files)
        .await
        .unwrap();
    apply(&client, vec![pipeline(&repository.url(), "main")]).await;
    let settings = Settings {
        allow_internal_urls: true,
        probe_address: None,
        metrics_address: None,
        ..Settings::default()
    };
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let running = tokio::spawn(controller::run(
        client.clone(),
        settings,
        Metrics::new(),
        stop,
    ));
    let pipelines: Api<Pipeline> = Api::namespaced(client.clone(), "default");
    until(&pipelines, has_problem("SecretMissing")).await;

    apply(&client, vec![secret(&forge, forge.token())]).await;
    set_branch(&pipelines, "trunk").await;
    until(&pipelines, has_problem("NoBaseBranch")).await;

    forge.set_forbids_push(true);
    set_branch(&pipelines, "main").await;
    until(&pipelines, has_problem("Forbidden")).await;

    forge.set_forbids_push(false);
    set_branch(&pipelines, "nowhere").await;
    until(&pipelines, has_problem("NoBaseBranch")).await;
    set_branch(&pipelines, "main").await;
    let is_well = |status: &PipelineStatus| {
        let condition = conditions::find(&status.conditions, STRATEGY_READY);
        condition.is_none() && status.preflight.is_empty()
    };
    until(&pipelines, is_well).await;

    let checks = json!([{"name": "errors", "prometheus": {
        "address": "http://prometheus.example:9090", "query": "up", "passExpr": "value > 0.0",
    }}]);
    let check = |checks: Value, used: Value| {
        let spec = json!({"checks": checks, "promotion": {"checks": used}});
        Patch::Merge(json!({"spec": spec}))
    };
    let parameters = PatchParams::default();
    let used = check(checks, json!(["errors"]));
    pipelines.patch("shop", &parameters, &used).await.unwrap();
    until(&pipelines, has_problem("CheckHostNotAllowed")).await;
    let status = pipelines.get("shop").await.unwrap().status.unwrap();
    let expected =
        "the check errors cannot be measured: checks may not ask prometheus.example:9090: ";
    let message = &status.preflight["prod"].message;
    assert!(message.starts_with(expected), "{message}");
    let unused = check(Value::Null, Value::Null);
    pipelines.patch("shop", &parameters, &unused).await.unwrap();
    until(&pipelines, is_well).await;

    forge.set_forbids_feedback(true);
    // By default the token may lack it: promotions go on without the comment.
    let labels = json!({"pull-request": {"labels": ["promotion"]}});
    let patch = Patch::Merge(json!({"spec": {"promotion": {"strategy": labels}}}));
    let parameters = PatchParams::default();
    pipelines.patch("shop", &parameters, &patch).await.unwrap();
    let is_told = |status: &PipelineStatus| {
        let finding = status.not_checked.get("prod");
        finding.is_some_and(|it| it.reason == "FeedbackRightMissing") && is_well(status)
    };
    until(&pipelines, is_told).await;
    let feedback = json!({"pull-request": {"feedback": ["commit-status", "comment"]}});
    let patch = Patch::Merge(json!({"spec": {"promotion": {"strategy": feedback}}}));
    pipelines.patch("shop", &parameters, &patch).await.unwrap();
    until(&pipelines, has_problem("TokenRightMissing")).await;
    let status = pipelines.get("shop").await.unwrap().status.unwrap();
    let expected = "the token may not comment on pull requests: give it the scope write:issue";
    assert_eq!(status.preflight["prod"].message, expected);

    // Behind the API of GitHub the stand-in does not tell the scopes of a token.
    let github = json!({"pull-request": {"type": "github"}});
    let patch = Patch::Merge(json!({"spec": {"promotion": {"strategy": github}}}));
    pipelines.patch("shop", &parameters, &patch).await.unwrap();
    let is_untold = |status: &PipelineStatus| {
        let finding = status.not_checked.get("prod");
        let is_untold = finding.is_some_and(|it| it.reason == "TokenRightsNotTold");
        is_untold && is_well(status)
    };
    until(&pipelines, is_untold).await;
    assert!(!running.is_finished());
}
