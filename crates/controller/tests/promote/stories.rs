//! The scenarios of RFC-0003 and the user stories of RFC-0001, from the applied manifest to an
//! environment that runs the revision.

use serde_json::{Value, json};

use crate::{
    webhook_receiver::{Receiver, hmac_of},
    world::{World, apply, define, definition, manifest, released, set_status, spec, wait_for},
};

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

/// RFC-0003: several targets in one environment, each with a pull request of its own.
#[tokio::test]
async fn rfc_0003_scenario_2_a_pull_request_for_each_target() {
    let files = ["qa", "perf"].map(|name| {
        let marker = format!("default:app:test:{name}/{name}");
        (format!("{name}.yaml"), manifest("1.0.0", &marker))
    });
    let files = files
        .each_ref()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    let world = World::with(&files).await;
    for cluster in ["dev", "qa", "perf"] {
        world.leaf(cluster, cluster, "1.0.0").await;
    }
    let mut promotion = world.promotion();
    promotion["scope"] = json!("Target");
    world
        .pipeline(
            "app",
            spec("dev=dev/dev > test=qa/qa,perf/perf", &promotion),
        )
        .await;
    world.deploy("dev", "dev", "1.1.0").await;
    world
        .expect_all(&[
            "test/qa/qa 1.1.0 WaitingForMerge",
            "test/perf/perf 1.1.0 WaitingForMerge",
        ])
        .await;
    let mut heads: Vec<_> = world
        .repository
        .pull_requests()
        .await
        .into_iter()
        .map(|it| it.head)
        .collect();
    heads.sort();
    assert_eq!(
        heads,
        [
            "promotion-default-app-test-perf-perf",
            "promotion-default-app-test-qa-qa"
        ]
    );
    let qa = world.repository.pull_requests().await;
    let qa = qa.iter().find(|it| it.head.ends_with("qa")).unwrap();
    world.repository.merge(qa.number).await.unwrap();
    world.sync("qa.yaml", "qa", "qa").await;
    world
        .expect_all(&[
            "test/qa/qa 1.1.0 Succeeded",
            "test/perf/perf 1.1.0 WaitingForMerge",
        ])
        .await;
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

/// RFC-0003: an external process makes the change. It is called, and told about by its own address.
#[tokio::test]
async fn rfc_0003_scenario_4_promotion_via_an_external_process() {
    let world = World::with(&[(PROD, &manifest("1.0.0", "nobody's"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let jenkins = Receiver::start().await;
    jenkins.answer(201, &[("location", "/job/deploy/7")], "");
    world.hook_secret("my-jenkins-promotion-secret").await;
    let webhook = json!({
        "url": jenkins.url(), "secretRef": {"name": "my-jenkins-promotion-secret"},
    });
    let promotion = json!({"strategy": {"webhook": webhook}});
    let spec = spec("dev=dev/dev > prod=prod/prod", &promotion);
    world.pipeline("app", spec).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Deploying").await;
    let status = promotions[0].status.clone().unwrap();
    let shown = format!("{}/job/deploy/7", jenkins.origin());
    assert_eq!(status.url, Some(shown));
    let calls = jenkins.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].header("x-signature"), hmac_of(&calls[0].body));
    let uid = promotions[0].metadata.uid.as_deref().unwrap();
    assert_eq!(calls[0].header("idempotency-key"), uid);
    let told: Value = serde_json::from_slice(&calls[0].body).unwrap();
    assert_eq!(
        (&told["environment"], &told["version"]),
        (&json!("prod"), &json!("1.1.0"))
    );

    world.deploy("prod", "prod", "1.1.0").await;
    world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(jenkins.calls().len(), 1);
}

/// A namespace and a release in it, without a marker.
fn shop(version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n---\n\
         apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: app\n  namespace: shop\n\
         spec:\n  chart:\n    spec:\n      chart: shop\n      version: {version}\n"
    )
}

/// RFC-0001, story 5: a new chart version goes from dev to prod through git. Nothing is marked: Flux's
/// labels on the clusters tell which file is prod's.
#[tokio::test]
async fn rfc_0001_story_5_progressive_update_by_chart_version() {
    let (dev, prod) = ("clusters/dev/shop.yaml", "clusters/prod/shop.yaml");
    let mut world = World::with(&[(dev, &shop("1.0.0")), (prod, &shop("1.0.0"))]).await;
    world.flux("dev", &["clusters/dev"]).await;
    world.flux("prod", &["clusters/prod"]).await;
    let spec = spec("dev=dev/shop > prod=prod/shop", &world.promotion());
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    let newer = shop("1.1.0");
    world
        .repository
        .commit("main", "1.1.0 for dev", &[(dev, &newer)])
        .await
        .unwrap();
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let branch = "promotion-default-app-prod";
    assert_eq!(world.version(branch, prod).await, "1.1.0");
    assert_eq!(world.version("main", prod).await, "1.0.0");
    world.repository.merge(1).await.unwrap();
    world.expect("prod 1.1.0 Succeeded").await;
}

fn web(tag: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: flux-system\n\
         spec:\n  selector:\n    matchLabels: {{app: web}}\n  template:\n    metadata:\n      \
         labels: {{app: web}}\n    spec:\n      containers:\n      - name: web\n        \
         image: registry.example/web:{tag}\n      - name: proxy\n        \
         image: registry.example/proxy:{tag}\n"
    )
}

/// RFC-0001, story 5: the same with the tag of an image.
#[tokio::test]
async fn rfc_0001_story_5_progressive_update_by_image_tag() {
    let (dev, prod) = ("dev/web/web.yaml", "prod/web/web.yaml");
    let mut world = World::with(&[(dev, &web("1.0.0")), (prod, &web("1.0.0"))]).await;
    world.flux("dev", &["dev/web"]).await;
    world.flux("prod", &["prod/web"]).await;
    let mut spec = spec(
        "dev=dev/flux-system > prod=prod/flux-system",
        &world.commit(),
    );
    spec["appRef"] = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "web",
    });
    spec["track"] = json!({"image": "registry.example/web"});
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    let newer = web("1.1.0");
    world
        .repository
        .commit("main", "1.1.0 for dev", &[(dev, &newer)])
        .await
        .unwrap();
    world.expect("prod 1.1.0 Succeeded").await;
    let changed = world.repository.read("main", prod).await.unwrap();
    let expected = web("1.0.0").replace("registry.example/web:1.0.0", "registry.example/web:1.1.0");
    assert_eq!(String::from_utf8(changed).unwrap(), expected);
}

/// RFC-0001, story 6: the rollout into test is automatic, the one into prod is controlled by a pull
/// request.
#[tokio::test]
async fn rfc_0001_story_6_automatic_or_controlled_by_pull_request() {
    let world = World::with(&[
        (TEST, &manifest("1.0.0", "default:app:test")),
        (PROD, &manifest("1.0.0", "default:app:prod")),
    ])
    .await;
    for cluster in ["dev", "test", "prod"] {
        world.leaf(cluster, cluster, "1.0.0").await;
    }
    let mut spec = spec(
        "dev=dev/dev > test=test/test > prod=prod/prod",
        &world.promotion(),
    );
    spec["environments"][1]["promotion"] = world.commit();
    world.pipeline("app", spec).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("test 1.1.0 Deploying").await;
    assert_eq!(world.version("main", TEST).await, "1.1.0");
    let status = promotions[0].status.clone().unwrap();
    assert_eq!(status.commit, world.repository.tip("main").await);
    assert_eq!(status.branch.as_deref(), Some("main"));
    assert_eq!(world.repository.pull_requests().await.len(), 0);

    world.sync(TEST, "test", "test").await;
    world
        .expect("test 1.1.0 Succeeded, prod 1.1.0 WaitingForMerge")
        .await;
    assert_eq!(world.version("main", PROD).await, "1.0.0");
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
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

/// A source on the hub proposes revisions for the first environment.
#[tokio::test]
async fn a_flux_source_feeds_the_first_environment() {
    let dev = "dev/app.yaml";
    let world = World::with(&[(dev, &manifest("1.0.0", "default:app:dev"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    let mut spec = spec("dev=dev/dev", &world.promotion());
    spec["source"] = json!({"kind": "HelmChart", "name": "app"});
    world.pipeline("app", spec).await;
    world.expect_hold("app", "dev", "SourceUnreadable").await;
    define(
        &world.hub,
        &definition("source.toolkit.fluxcd.io", "HelmChart", "v1"),
    )
    .await;
    let chart = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
        "metadata": {"name": "app", "namespace": "default"}, "spec": {"chart": "app"},
    });
    apply(&world.hub, &chart).await;
    let status = json!({
        "observedGeneration": 1, "artifact": {"revision": "1.1.0"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    set_status(&world.hub, &chart, &status).await;
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

    world.forge.set_available(false);
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/ForgeUnavailable").await;
    world.forge.set_available(true);
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
