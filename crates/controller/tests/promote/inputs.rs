//! The strategy resourceSetInputs: the status says what clusters that ask should run, and they bring it about.

use api::pipeline::DesiredRevision;
use serde_json::{Value, json};

use crate::world::{World, apply, release, settings, spec, wait_for};

fn promotion() -> Value {
    json!({"strategy": {"resourceSetInputs": {"secretRef": {"name": "inputs"}}}})
}

/// Dev and prod at 1.0.0, which nobody has published.
async fn world(change: impl FnOnce(&mut Value)) -> World {
    let world = World::with(&[]).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "inputs", "namespace": "default"},
        "stringData": {"inputs-token": "the token of the clusters"},
    });
    apply(&world.hub, &secret).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let mut pipeline = spec("dev=dev/dev > prod=prod/prod", &promotion());
    change(&mut pipeline);
    world.pipeline("app", pipeline).await;
    world.expect_hold("app", "prod", "").await;
    world
}

async fn desired(world: &World) -> Option<DesiredRevision> {
    let status = world.pipelines().get("app").await.unwrap().status?;
    status.environments.get("prod")?.desired.clone()
}

/// Waits until clusters of prod should run a version.
async fn expect_desired(world: &World, version: &str) {
    let mut last = None;
    let is_so = wait_for(async || {
        last = desired(world).await;
        last.as_ref().is_some_and(|it| it.version == version)
    });
    assert!(is_so.await, "{last:?} is not {version}");
}

#[tokio::test]
async fn what_dev_verified_is_published_and_followed() {
    let world = world(|_| {}).await;
    assert_eq!(desired(&world).await, None);
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Deploying").await;
    expect_desired(&world, "1.1.0").await;
    assert!(desired(&world).await.unwrap().since.is_some());
    world.deploy("prod", "prod", "1.1.0").await;
    world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(desired(&world).await.unwrap().revision, "1.1.0");
}

#[tokio::test]
async fn a_rollback_publishes_what_ran_before() {
    let world = world(|_| {}).await;
    let mut done = Vec::new();
    for version in ["1.1.0", "1.2.0"] {
        world.deploy("dev", "dev", version).await;
        expect_desired(&world, version).await;
        world.deploy("prod", "prod", version).await;
        done.push(format!("prod {version} Succeeded"));
        let done: Vec<&str> = done.iter().map(String::as_str).collect();
        world.expect_all(&done).await;
    }
    let request = json!({"id": "r1", "revision": "1.1.0", "kind": "Rollback"});
    world.request("app", "prod", request).await;
    expect_desired(&world, "1.1.0").await;
    world.deploy("prod", "prod", "1.1.0").await;
    world.expect_hold("app", "prod", "Rejected").await;
    assert_eq!(desired(&world).await.unwrap().version, "1.1.0");
}

#[tokio::test]
async fn a_rollback_before_clusters_have_asked_is_published_too() {
    let world = world(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    expect_desired(&world, "1.1.0").await;
    // Prod still runs 1.0.0.
    let request = json!({"id": "r1", "revision": "1.0.0", "kind": "Rollback"});
    world.request("app", "prod", request).await;
    expect_desired(&world, "1.0.0").await;
}

#[tokio::test]
async fn a_new_cluster_gets_the_app_from_the_first_promotion() {
    let world = world(|pipeline| {
        let target = json!({
            "namespace": "new", "clusterRef": {"kind": "GitopsCluster", "name": "prod"},
        });
        pipeline["environments"][1]["targets"] = json!([target]);
    })
    .await;
    world.expect("prod 1.0.0 Deploying").await;
    expect_desired(&world, "1.0.0").await;
    let client = world.cluster("prod");
    let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
    apply(&client, &named).await;
    apply(&client, &release("new")).await;
    world.deploy("prod", "new", "1.0.0").await;
    world.expect("prod 1.0.0 Succeeded").await;
}

#[tokio::test]
async fn nothing_is_published_before_somebody_approved_it() {
    let world = world(|pipeline| pipeline["promotion"]["manual"] = json!(true)).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 AwaitingApproval").await;
    let is_read = wait_for(async || {
        let promotion = &world.all_promotions().await[0];
        let status = promotion.status.clone().unwrap_or_default();
        status
            .change
            .is_some_and(|it| it.digest.starts_with("sha256:"))
    });
    assert!(is_read.await, "what it changes has no digest");
    assert_eq!(desired(&world).await, None);
    let promotion = &world.all_promotions().await[0];
    assert_eq!(promotion.metadata.name, promotions[0].metadata.name);
    world.approve(promotion).await;
    expect_desired(&world, "1.1.0").await;
}

#[tokio::test]
async fn a_freeze_keeps_it_from_being_published() {
    let world = world(|_| {}).await;
    let freeze = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Freeze",
        "metadata": {"name": "stop", "namespace": "default"}, "spec": {"reason": "an audit"},
    });
    apply(&world.hub, &freeze).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/Frozen").await;
    assert_eq!(desired(&world).await, None);
}

/// As after a crash between the promotion's status and the pipeline's.
#[tokio::test]
async fn a_landed_promotion_is_published_after_a_restart() {
    let mut world = world(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    expect_desired(&world, "1.1.0").await;
    world.stop();
    let nothing = json!({"environments": {"prod": {"desired": null}}});
    world.patch_status("app", nothing).await;
    assert_eq!(desired(&world).await, None);
    world.restart(settings());
    expect_desired(&world, "1.1.0").await;
}
