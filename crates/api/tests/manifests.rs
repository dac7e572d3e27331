//! What people have written, in every generation, is read whole and written back unchanged.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use api::{
    Change, GitopsCluster, Pipeline, PipelineTrigger, Promotion,
    pipeline::{ForgeKind, PipelineStatus, Scope, When},
    promotion::Phase,
    trigger::{PipelineTriggerStatus, Template, TriggerSourceKind},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const PIPELINES: &str = include_str!("manifests/pipelines.yaml");
const TRIGGERS: &str = include_str!("manifests/triggers.yaml");
const CLUSTERS: &str = include_str!("manifests/clusters.yaml");
const PROMOTIONS: &str = include_str!("manifests/promotions.yaml");

fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

fn named<T: DeserializeOwned>(text: &str, name: &str) -> T {
    let document = documents(text)
        .into_iter()
        .find(|document| document["metadata"]["name"] == name);
    serde_json::from_value(document.unwrap()).unwrap()
}

#[track_caller]
fn check_unchanged<T: DeserializeOwned + Serialize>(document: Value) {
    let object: T = serde_json::from_value(document.clone()).unwrap();
    let mut expected = document;
    if expected.get("spec").is_none() {
        expected["spec"] = json!({ "environments": [] });
    }
    assert_eq!(serde_json::to_value(&object).unwrap(), expected);
}

#[test]
fn every_manifest_is_read_whole() {
    for document in [PIPELINES, TRIGGERS, CLUSTERS, PROMOTIONS]
        .into_iter()
        .flat_map(documents)
    {
        match document["kind"].as_str().unwrap() {
            "Pipeline" => check_unchanged::<Pipeline>(document),
            "PipelineTrigger" => check_unchanged::<PipelineTrigger>(document),
            "GitopsCluster" => check_unchanged::<GitopsCluster>(document),
            "Promotion" => check_unchanged::<Promotion>(document),
            "Change" => check_unchanged::<Change>(document),
            other => unreachable!("{other}"),
        }
    }
}

#[test]
fn new_fields_mean_what_they_say() {
    let everything: Pipeline = named(PIPELINES, "everything");
    let spec = everything.spec;
    let promotion = spec.promotion.as_ref().unwrap();
    assert_eq!(promotion.when, Some(When::AnyTargetReady));
    assert_eq!(promotion.scope, Some(Scope::Target));
    assert_eq!(promotion.soak.as_ref().unwrap().length().as_secs(), 5400);
    assert_eq!(
        promotion.strategy.pull_request.as_ref().unwrap().forge,
        ForgeKind::Gitea
    );
    assert!(spec.promotion_into("prod").unwrap().manual);
    assert_eq!(spec.promotion_into("dev"), Some(promotion));
}

#[test]
fn the_first_environment_of_a_name_that_has_settings_decides() {
    let mut spec = named::<Pipeline>(PIPELINES, "odd").spec;
    assert_eq!(spec.promotion_into("dev"), None);
    spec.environments[1].promotion = spec.environments[3].promotion.clone();
    assert_eq!(
        spec.promotion_into("dev"),
        spec.environments[3].promotion.as_ref()
    );
    assert_eq!(spec.promotion_into("nowhere"), None);
}

#[test]
fn a_trigger_has_exactly_one_template() {
    let template = |name: &str| match named::<PipelineTrigger>(TRIGGERS, name).spec.template() {
        Some(Template::Pipeline(_)) => "pipeline",
        Some(Template::RunSpec(_)) => "spec",
        Some(Template::Run(_)) => "run",
        None => "none",
    };
    let templates = [
        "first",
        "first-renamed",
        "second",
        "third",
        "fourth",
        "newest",
    ]
    .map(template);
    assert_eq!(
        templates,
        ["pipeline", "pipeline", "pipeline", "spec", "run", "run"]
    );
    let mut two = named::<PipelineTrigger>(TRIGGERS, "first").spec;
    two.pipeline_run = Some(serde_json::Map::new());
    assert_eq!(two.template(), None);
}

#[test]
fn credentials_are_found_under_both_names() {
    let name = |trigger: &str| {
        let spec = named::<PipelineTrigger>(TRIGGERS, trigger).spec;
        spec.credentials()
            .map(|credentials| credentials.name.clone())
    };
    assert_eq!(name("fourth").as_deref(), Some("registry"));
    assert_eq!(name("newest").as_deref(), Some("registry"));
    assert_eq!(name("first"), None);
}

#[test]
fn a_trigger_without_spec_is_read_too() {
    let trigger: PipelineTrigger = serde_json::from_value(json!({ "metadata": {} })).unwrap();
    assert_eq!(trigger.spec.template(), None);
    let trigger: PipelineTrigger =
        serde_json::from_value(json!({ "metadata": {}, "spec": {} })).unwrap();
    assert_eq!(trigger.spec.source.kind, TriggerSourceKind::GitRepository);
    assert_eq!(trigger.spec.source.name, "");
}

#[test]
fn pruned_remains_of_early_manifests_are_read() {
    // Before `strategy` existed its members stood beside `manual`; the API server drops them.
    let spec =
        json!({ "appRef": { "name": "x" }, "environments": [{ "name": "dev" }], "promotion": {} });
    let pipeline: Pipeline =
        serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
    assert_eq!(pipeline.spec.promotion.unwrap().strategy.pull_request, None);
    let cluster: GitopsCluster = serde_json::from_value(json!({ "metadata": {} })).unwrap();
    assert!(!cluster.is_ready());
    assert_eq!(cluster.kubeconfig_secret(), None);
}

#[test]
fn the_status_of_the_weave_pipeline_controller_is_read_and_kept() {
    let conditions = json!([{
        "type": "Ready", "status": "True", "reason": "ReconciliationSucceeded",
        "message": "All clusters checked", "lastTransitionTime": "2023-05-09T10:00:00Z"
    }]);
    let status = json!({
        "observedGeneration": 3,
        "conditions": conditions,
        "environments": {
            "dev": { "targets": [{
                "clusterAppRef": {
                    "apiVersion": "helm.toolkit.fluxcd.io/v2beta1", "kind": "HelmRelease", "name": "basket",
                    "clusterRef": { "kind": "GitopsCluster", "name": "dev" }
                },
                "ready": true, "revision": "1.2.3"
            }] },
            "prod": { "waitingApproval": { "revision": "" } }
        }
    });
    let read: PipelineStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), status);
    let nulls = json!({ "observedGeneration": -1, "conditions": null, "environments": null });
    let read: PipelineStatus = serde_json::from_value(nulls).unwrap();
    assert_eq!(read.observed_generation, Some(-1));
    assert!(read.environments.is_empty());
}

#[test]
fn trigger_status_holds_both_notations() {
    let status = json!({
        "latestEvent": "main/abc", "latestPipelineRun": "first-abcd", "currentPipelineRetry": 1,
        "gitRepository": { "branchName": "main", "commitId": "abc", "repositoryName": "code", "details": "{}" },
        "imagePolicy": { "repositoryName": "acme", "imageName": "shop", "imageVersion": "v2" },
        "branches": { "branch": { "feature/x": { "name": "feature/x", "commit": "abc" } } }
    });
    let read: PipelineTriggerStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), status);
}

#[test]
fn clusters_name_their_secret() {
    let secret = |name: &str| named::<GitopsCluster>(CLUSTERS, name).kubeconfig_secret();
    assert_eq!(secret("dev").as_deref(), Some("dev-kubeconfig"));
    assert_eq!(secret("prod").as_deref(), Some("prod-kubeconfig"));
}

#[test]
fn a_successor_waits_for_the_merge() {
    use Phase::*;
    let before = [AwaitingApproval, Running, WaitingForMerge];
    let after = [
        Deploying, Succeeded, Failed, Superseded, Abandoned, Withdrawn,
    ];
    assert!(
        before
            .iter()
            .all(|phase| !phase.lets_successor_act() && !phase.is_terminal())
    );
    assert!(after.iter().all(|phase| phase.lets_successor_act()));
    assert!(after[1..].iter().all(|phase| phase.is_terminal()) && !Deploying.is_terminal());
}
