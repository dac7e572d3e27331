//! Freezes: nothing is pushed, opened, merged or sent while one is closed.

use api::Freeze;
use apiserver::{Server, User};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use serde_json::json;

use crate::world::{World, apply, manifest, settings, spec, wait_for};

const PROD: &str = "prod/app.yaml";

/// dev and prod at 1.0.0.
async fn dev_and_prod(change: impl FnOnce(&mut serde_json::Value)) -> World {
    dev_and_prod_on(&testbed::hub::server(), change).await
}

async fn dev_and_prod_on(hub: &Server, change: impl FnOnce(&mut serde_json::Value)) -> World {
    let files = [(PROD, &*manifest("1.0.0", "default:app:prod"))];
    let world = World::on_hub(hub.client(), &files).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let mut promotion = world.promotion();
    change(&mut promotion);
    let spec = spec("dev=dev/dev > prod=prod/prod", &promotion);
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    world
}

fn freezes(world: &World) -> Api<Freeze> {
    Api::namespaced(world.hub.clone(), "default")
}

async fn freeze(world: &World, spec: serde_json::Value) {
    let freeze = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Freeze",
        "metadata": {"name": "stop", "namespace": "default"}, "spec": spec,
    });
    apply(&world.hub, &freeze).await;
}

async fn thaw(world: &World) {
    let parameters = DeleteParams::default();
    freezes(world).delete("stop", &parameters).await.unwrap();
}

/// Nothing reached the forge.
async fn assert_untouched(world: &World) {
    assert_eq!(world.repository.pull_requests().await.len(), 0);
    assert_eq!(
        world.repository.tip("promotion-default-app-prod").await,
        None
    );
    assert_eq!(world.version("main", PROD).await, "1.0.0");
}

#[tokio::test]
async fn a_freeze_holds_the_promotion_and_thawing_lets_it_go_on() {
    let world = dev_and_prod(|_| {}).await;
    let prod_only = json!({"reason": "no releases", "environments": ["prod"]});
    freeze(&world, prod_only).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Running/Frozen").await;
    let status = promotions[0].status.clone().unwrap();
    let message = "prod is frozen by stop (no releases), 1.1.0 waits; resolved by deleting or \
                   editing the Freeze stop";
    assert_eq!(status.message.as_deref(), Some(message));
    let pipeline = world.pipelines().get("app").await.unwrap();
    let known = &pipeline.status.as_ref().unwrap().freezes;
    assert_eq!(known[0].environments, ["prod"]);
    let model = pipeline.status.clone().unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let plan = planner::plan(&pipeline, &model, &promotions, now);
    let explained = planner::explain(&pipeline, &model, &plan);
    assert!(explained.contains("frozen by stop"), "{explained}");
    assert_untouched(&world).await;
    thaw(&world).await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
}

#[tokio::test]
async fn what_can_merge_by_itself_waits_for_the_thaw() {
    let world = dev_and_prod(|promotion| {
        promotion["strategy"]["pull-request"]["autoMerge"] = json!(true);
    })
    .await;
    freeze(&world, json!({"reason": "no releases"})).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/Frozen").await;
    assert_untouched(&world).await;
    thaw(&world).await;
    world.expect("prod 1.1.0 Deploying").await;
    assert_eq!(world.version("main", PROD).await, "1.1.0");
}

/// The loop of pipelines does not run, so that the status of the pipeline knows nothing of the Freeze.
#[tokio::test]
async fn a_freeze_that_was_created_after_the_plan_is_seen_before_the_push() {
    let mut world = dev_and_prod(|promotion| promotion["manual"] = json!(true)).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 AwaitingApproval").await;
    world.stop();
    freeze(&world, json!({"reason": "incident"})).await;
    world.approve(&promotions[0]).await;
    let promoter = tokio::spawn(controller::promotion::run(world.promoter.clone()));
    world.expect("prod 1.1.0 Running/Frozen").await;
    assert_untouched(&world).await;
    let pipeline = world.pipelines().get("app").await.unwrap();
    assert_eq!(pipeline.status.unwrap().freezes, []);
    thaw(&world).await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    promoter.abort();
}

/// A user who may do everything in one namespace and nothing elsewhere.
async fn grant_in_one_namespace(world: &World, user: &str) {
    let (group, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let metadata = json!({"name": user, "namespace": "default"});
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({
        "apiVersion": version, "kind": "Role", "metadata": metadata, "rules": everything,
    });
    let binding = json!({
        "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    apply(&world.hub, &role).await;
    apply(&world.hub, &binding).await;
}

/// With `--watch-namespace` nothing may be listed in all namespaces.
#[tokio::test]
async fn in_one_namespace_a_freeze_of_clusters_is_seen_before_the_push() {
    let hub = testbed::hub::server();
    let mut world = dev_and_prod_on(&hub, |promotion| promotion["manual"] = json!(true)).await;
    let labels = json!({
        "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
        "metadata": {"name": "prod", "namespace": "default", "labels": {"stage": "prod"}},
        "spec": {"secretRef": {"name": "prod"}},
    });
    apply(&world.hub, &labels).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 AwaitingApproval").await;
    world.stop();
    let selector = json!({"matchLabels": {"stage": "prod"}});
    let of_clusters = json!({"reason": "incident", "clusterSelector": selector});
    freeze(&world, of_clusters).await;
    grant_in_one_namespace(&world, "sluice").await;
    world.approve(&promotions[0]).await;
    let settings = controller::Settings {
        namespace: Some("default".to_owned()),
        ..settings()
    };
    let client = hub.client_as(User::new("sluice", &[]));
    let leader = runtime::LeaderGuard::without_election();
    let promoter = controller::PromotionReconciler::new(client, settings, leader).unwrap();
    let running = tokio::spawn(controller::promotion::run(promoter));
    world.expect("prod 1.1.0 Running/Frozen").await;
    assert_untouched(&world).await;
    thaw(&world).await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    running.abort();
}

#[tokio::test]
async fn where_freezes_cannot_be_listed_nothing_goes_on() {
    let world = dev_and_prod(|_| {}).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.hub.clone());
    let name = "freezes.pipelines.weave.works";
    let parameters = DeleteParams::default();
    definitions.delete(name, &parameters).await.unwrap();
    let is_gone = async || definitions.get_opt(name).await.unwrap().is_none();
    assert!(wait_for(is_gone).await);
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/FreezesUnknown").await;
    assert_untouched(&world).await;
}

#[tokio::test]
async fn a_rollback_passes_a_freeze_that_allows_it() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("prod", "prod", "1.1.0").await;
    let ran = async || {
        let pipeline = world.pipelines().get("app").await.unwrap();
        let status = pipeline.status.unwrap();
        status.environments["prod"].ran.len() == 2
    };
    assert!(wait_for(ran).await);
    freeze(&world, json!({"reason": "no releases"})).await;
    let rollback = json!({"id": "r1", "revision": "1.0.0", "kind": "Rollback", "by": "ann"});
    world.request("app", "prod", rollback).await;
    // main still asks for 1.0.0: somebody deployed 1.1.0 by hand.
    world.expect("prod 1.0.0 Deploying").await;
}

#[tokio::test]
async fn an_override_lets_one_promotion_pass() {
    let world = dev_and_prod(|_| {}).await;
    freeze(&world, json!({"reason": "no releases", "allow": []})).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/Frozen").await;
    let request = json!({
        "id": "r1", "revision": "1.1.0", "kind": "Promote", "by": "ann",
        "override": {"reason": "incident 7", "passes": ["freeze/stop"]},
    });
    world.request("app", "prod", request).await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let pipeline = world.pipelines().get("app").await.unwrap();
    let stored = &pipeline.status.unwrap().environments["prod"].overrides[0];
    assert_eq!(
        (stored.by.as_deref(), stored.reason.as_str()),
        (Some("ann"), "incident 7")
    );
    let pulls = world.repository.pull_requests().await;
    assert!(pulls[0].body.contains("incident 7"), "{}", pulls[0].body);
}
