//! The manifests in RFC-0001 and RFC-0003 are applied unchanged and behave as these documents say.
//!
//! Runs on a real API server too.

mod adopted;

use api::Pipeline;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::{
    webhook_receiver::{Receiver, hmac_of},
    world::{World, apply, manifest, wait_for},
};

const PROMOTIONS: &str = include_str!("rfc_listings/promotions.yaml");

/// The listings, with the two places that only a test knows filled in.
fn listing(text: &str, name: &str, repository: &str, receiver: &str) -> Value {
    let text = text.replace("REPOSITORY", repository);
    let text = text.replace("RECEIVER", receiver);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let mut documents = documents.into_iter();
    documents.find(|it| it["metadata"]["name"] == name).unwrap()
}

/// As kubectl does it: unknown fields are an error.
async fn kubectl_apply(world: &World, object: &Value) {
    let (group, version) = object["apiVersion"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap();
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&kind);
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(world.hub.clone(), namespace, &resource);
    let parameters = PatchParams::apply("kubectl").validation_strict();
    let name = object["metadata"]["name"].as_str().unwrap();
    let applied = api.patch(name, &parameters, &Patch::Apply(object)).await;
    applied.unwrap_or_else(|error| panic!("{object}: {error}"));
}

/// A hub with the namespaces and Secrets that the listings expect, and these clusters at 1.0.0.
async fn world(files: &[(&str, &str)], clusters: &[&str]) -> World {
    let mut world = World::on_any_hub(files).await;
    (world.home, world.fleet) = ("shop", "fleet");
    for name in ["shop", "fleet"] {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        });
        apply(&world.hub, &namespace).await;
    }
    world.secret("git-credentials").await;
    for cluster in clusters {
        world.leaf(cluster, "shop", "1.0.0").await;
    }
    world
}

#[tokio::test]
async fn one_target_each_gets_a_pull_request() {
    let marker = "shop:basket:prod:fleet.live/shop";
    let world = world(
        &[("live.yaml", &manifest("1.0.0", marker))],
        &["early", "live"],
    )
    .await;
    let url = world.repository.url();
    kubectl_apply(&world, &listing(PROMOTIONS, "basket", &url, "")).await;
    world.deploy("early", "shop", "1.1.0").await;
    world.expect("prod/live/shop 1.1.0 WaitingForMerge").await;
    let pulls = world.repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].base, "main");
    assert_eq!(world.version(&pulls[0].head, "live.yaml").await, "1.1.0");
    world.repository.merge(1).await.unwrap();
    world.sync("live.yaml", "live", "shop").await;
    world.expect("prod/live/shop 1.1.0 Succeeded").await;
}

/// Rule 1 of the proposal: promotions are for targets.
#[tokio::test]
async fn each_target_gets_a_pull_request_of_its_own() {
    let [checks, load] = ["checks", "load"].map(|cluster| {
        let marker = format!("shop:basket-targets:test:fleet.{cluster}/shop");
        manifest("1.0.0", &marker)
    });
    let files = [("checks.yaml", checks.as_str()), ("load.yaml", &load)];
    let world = world(&files, &["early", "checks", "load"]).await;
    let url = world.repository.url();
    kubectl_apply(&world, &listing(PROMOTIONS, "basket-targets", &url, "")).await;
    world.deploy("early", "shop", "1.1.0").await;
    expect_open(&world, &["checks", "load"]).await;
    let pulls = world.repository.pull_requests().await;
    let mut heads: Vec<_> = pulls.iter().map(|pull| pull.head.as_str()).collect();
    heads.sort_unstable();
    assert_eq!(
        heads,
        [
            "promotion-shop-basket-targets-test-fleet.checks-shop",
            "promotion-shop-basket-targets-test-fleet.load-shop",
        ]
    );
}

/// Waits until exactly these targets have an open pull request.
async fn expect_open(world: &World, clusters: &[&str]) {
    let mut open = Vec::new();
    let are_open = async || {
        let promotions = world.all_promotions().await.into_iter();
        let waiting = promotions.filter(|it| {
            let phase = it.status.as_ref().and_then(|status| status.phase);
            phase == Some(api::promotion::Phase::WaitingForMerge)
        });
        open = waiting
            .filter_map(|it| it.spec.target?.cluster)
            .collect::<Vec<_>>();
        open.sort();
        open == clusters
    };
    assert!(wait_for(are_open).await, "open: {open:?}");
}

/// Rule 2 of the proposal: one target of the environment before is enough.
#[tokio::test]
async fn production_follows_the_first_of_the_tested_targets() {
    let files = [("checks", "test"), ("load", "test"), ("live", "prod")];
    let files = files.map(|(cluster, environment)| {
        let marker = format!("shop:basket-way:{environment}:fleet.{cluster}/shop");
        (format!("{cluster}.yaml"), manifest("1.0.0", &marker))
    });
    let files: Vec<_> = files
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let world = world(&files, &["early", "checks", "load", "live"]).await;
    let url = world.repository.url();
    kubectl_apply(&world, &listing(PROMOTIONS, "basket-way", &url, "")).await;
    world.deploy("early", "shop", "1.1.0").await;
    expect_open(&world, &["checks", "load"]).await;
    let pulls = world.repository.pull_requests().await;
    let checks = pulls.iter().find(|pull| pull.head.contains("fleet.checks"));
    world
        .repository
        .merge(checks.unwrap().number)
        .await
        .unwrap();
    world.sync("checks.yaml", "checks", "shop").await;
    expect_open(&world, &["live", "load"]).await;
}

#[tokio::test]
async fn a_call_names_its_secret_by_a_word() {
    let receiver = Receiver::start().await;
    let world = world(&[("a.yaml", "a: 1\n")], &["early", "live"]).await;
    world.hook_secret("builds").await;
    let mut called = listing(PROMOTIONS, "basket-called", "", &receiver.url());
    kubectl_apply(&world, &called).await;
    let pipelines = world.pipelines();
    let is_ready = async || {
        let pipeline = pipelines.get("basket-called").await.unwrap();
        is_true(&pipeline, "Ready")
    };
    assert!(wait_for(is_ready).await, "it is not ready");
    assert!(receiver.calls().is_empty(), "nothing comes after dev");

    // The listing has one environment; what it asks for shows with a second.
    let target = json!({"namespace": "shop", "clusterRef": {
        "kind": "GitopsCluster", "name": "live", "namespace": "fleet",
    }});
    let environments = called["spec"]["environments"].as_array_mut().unwrap();
    environments.push(json!({"name": "prod", "targets": [target]}));
    kubectl_apply(&world, &called).await;
    world.deploy("early", "shop", "1.1.0").await;
    world.expect("prod/live/shop 1.1.0 Deploying").await;
    let calls = receiver.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].header("x-signature"), hmac_of(&calls[0].body));
    world.deploy("live", "shop", "1.1.0").await;
    world.expect("prod/live/shop 1.1.0 Succeeded").await;
}

fn is_true(pipeline: &Pipeline, condition: &str) -> bool {
    let conditions = pipeline.status.iter().flat_map(|it| &it.conditions);
    let mut of_type = conditions.filter(|it| it.type_ == condition);
    of_type.any(|it| it.status == "True")
}
