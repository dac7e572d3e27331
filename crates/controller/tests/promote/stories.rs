//! RFC-0003's scenarios and RFC-0001's stories, from applied manifest to an environment that runs
//! the revision.

use serde_json::json;

use crate::world::{World, apply, manifest, released, spec, wait_for};

const TEST: &str = "test/app.yaml";
const PROD: &str = "prod/app.yaml";

/// RFC-0003: a single deployment target per environment. The manifest is the RFC's, with the
/// promotion settings as they came to be written.
#[tokio::test]
async fn rfc_0003_scenario_1_single_target_per_environment() {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:search:prod"))]).await;
    world.leaf("dev", "search", "1.0.0").await;
    world.leaf("prod", "search", "1.0.0").await;
    apply(
        &world.hub,
        &json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "search", "namespace": "default"},
            "spec": {
                "appRef": {
                    "kind": "HelmRelease", "name": "app",
                    "apiVersion": "helm.toolkit.fluxcd.io/v2beta1",
                },
                "promotion": world.promotion(),
                "environments": [
                    {"name": "dev", "targets": [{"namespace": "search", "clusterRef": {
                        "kind": "GitopsCluster", "name": "dev", "namespace": "default",
                    }}]},
                    {"name": "prod", "targets": [{"namespace": "search", "clusterRef": {
                        "kind": "GitopsCluster", "name": "prod", "namespace": "default",
                    }}]},
                ],
            },
        }),
    )
    .await;
    world.deploy("dev", "search", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "search").await;
    world.expect("prod 1.1.0 Succeeded").await;
}

/// RFC-0003: prod follows as soon as one of several targets of test has been deployed.
#[tokio::test]
async fn rfc_0003_scenario_3_one_of_several_targets_is_enough() {
    let world = World::with(&[
        (TEST, &manifest("1.0.0", "default:app:test")),
        (PROD, &manifest("1.0.0", "default:app:prod")),
    ])
    .await;
    for cluster in ["dev", "qa", "perf", "prod"] {
        world.leaf(cluster, cluster, "1.0.0").await;
    }
    let mut promotion = world.promotion();
    promotion["when"] = json!("AnyTargetReady");
    let drawing = "dev=dev/dev > test=qa/qa,perf/perf > prod=prod/prod";
    world.pipeline("app", spec(drawing, &promotion)).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("test 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.expect("test 1.1.0 Deploying").await;

    world.sync(TEST, "qa", "qa").await; // and perf lags behind
    world
        .expect("test 1.1.0 Deploying, prod 1.1.0 WaitingForMerge")
        .await;
    world.repository.merge(2).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world
        .expect("test 1.1.0 Deploying, prod 1.1.0 Succeeded")
        .await;
    world.sync(TEST, "perf", "perf").await;
    world
        .expect("test 1.1.0 Succeeded, prod 1.1.0 Succeeded")
        .await;
}

/// RFC-0001, story 7, without the HTTP call: CI's report is what the server stores.
#[tokio::test]
async fn rfc_0001_story_7_ci_proposes_a_revision() {
    let dev = "dev/app.yaml";
    let world = World::with(&[(dev, &manifest("1.0.0", "default:app:dev"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    let mut spec = spec("dev=dev/dev", &world.promotion());
    spec["source"] = json!({"kind": "Hook"});
    world.pipeline("app", spec).await;
    world.expect_hold("app", "dev", "").await;
    let report = json!({"revision": "1.1.0", "signed": true, "at": "2026-11-15T08:00:00Z"});
    let reports = json!({"reports": {planner::RELEASE_REPORT: report}});
    world.patch_status("app", reports).await;
    world.expect("dev 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.sync(dev, "dev", "dev").await;
    world.expect("dev 1.1.0 Succeeded").await;
}

/// RFC-0001, story 8: what failed because of its environment goes on by itself once that is well:
/// the forge, the credentials, and the cluster.
#[tokio::test]
async fn rfc_0001_story_8_resumes_by_itself() {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let spec = spec("dev=dev/dev > prod=prod/prod", &world.promotion());
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;

    world.forge.set_up(false);
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/ForgeUnavailable").await;
    world.forge.set_up(true);
    world.expect("prod 1.1.0 WaitingForMerge").await;

    world.repository.merge(1).await.unwrap();
    world.expect("prod 1.1.0 Deploying").await;
    world
        .set_status("prod", "prod", &released("1.1.0", false))
        .await;
    world.expect("prod 1.1.0 Failed/DeployFailed").await;
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Succeeded").await;
}

/// RFC-0001, story 10: a paused pipeline starts nothing, and goes on where it was.
#[tokio::test]
async fn rfc_0001_story_10_suspend_and_resume() {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let spec = spec("dev=dev/dev > prod=prod/prod", &world.promotion());
    world.pipeline("app", spec).await;
    world
        .patch_pipeline("app", json!({"spec": {"suspend": true}}))
        .await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect_hold("app", "prod", "Suspended").await;
    world.expect("").await;
    world
        .patch_pipeline("app", json!({"spec": {"suspend": false}}))
        .await;
    world.expect("prod 1.1.0 WaitingForMerge").await;

    // While it is paused the pull request is followed, and what comes after it waits.
    world
        .patch_pipeline("app", json!({"spec": {"suspend": true}}))
        .await;
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Succeeded").await;
    world.deploy("dev", "dev", "1.2.0").await;
    world.expect_hold("app", "prod", "Suspended").await;
    assert_eq!(world.repository.pull_requests().await.len(), 1);
    world
        .patch_pipeline("app", json!({"spec": {"suspend": null}}))
        .await;
    let opened = async || world.repository.pull_requests().await.len() == 2;
    assert!(wait_for(opened).await, "it does not go on");
}
