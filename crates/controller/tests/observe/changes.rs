//! What changes is noticed without a restart, and what nobody needs is let go.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{World, deploy, kubeconfig, namespace, release, spec};

#[tokio::test(start_paused = true)]
async fn targets_on_the_hub_itself() {
    let world = World::new().await;
    namespace(&world.hub.client(), "here").await;
    deploy(&world.hub.client(), &release("here", "app", "1.0.0")).await;
    world.pipeline("local", spec("dev=here")).await;
    world.expect("local", "dev[1.0.0 ok]").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_named_on_its_own_target() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "here").await;
    namespace(&leaf, "empty").await;
    deploy(&leaf, &release("here", "app", "1.0.0")).await;
    world
        .pipeline("p", spec("a=dev/here,dev/empty > b=dev/nowhere,gone/here"))
        .await;
    world
        .expect(
            "p",
            "a[1.0.0 ok, - HelmRelease \"app\" not found in namespace empty] > \
             b[- namespace \"nowhere\" not found, - Target cluster 'GitopsCluster/gone' not found]",
        )
        .await;
    deploy(&leaf, &release("empty", "app", "1.0.0")).await;
    let gone = world.leaf("gone").await.client();
    namespace(&gone, "here").await;
    deploy(&gone, &release("here", "app", "2.0.0")).await;
    world
        .expect(
            "p",
            "a[1.0.0 ok, 1.0.0 ok] > b[- namespace \"nowhere\" not found, 2.0.0 ok]",
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_installed_later_is_picked_up() {
    let world = World::new().await;
    let leaf = apiserver::Server::in_memory();
    world.serve("dev", leaf.client());
    world.register("dev", json!({})).await;
    world.pipeline("p", spec("dev=dev/here")).await;
    world
        .expect(
            "p",
            "dev[- the cluster has no kind HelmRelease in helm.toolkit.fluxcd.io/v2]",
        )
        .await;
    crate::world::define_flux(&leaf.client()).await;
    namespace(&leaf.client(), "here").await;
    deploy(&leaf.client(), &release("here", "app", "1.0.0")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
}

#[tokio::test(start_paused = true)]
async fn clusters_are_chosen_by_label() {
    let mut world = World::new().await;
    for name in ["a", "b"] {
        let leaf = world.leaf(name).await.client();
        namespace(&leaf, "x").await;
        deploy(&leaf, &release("x", "app", "1.0.0")).await;
    }
    let mut spec = spec("fleet=");
    spec["environments"][0]["targets"] =
        json!([{"namespace": "x", "clusterSelector": {"matchLabels": {"fleet": "yes"}}}]);
    world.pipeline("p", spec).await;
    world.expect("p", "fleet[]").await;
    let clusters: kube::Api<api::GitopsCluster> =
        kube::Api::namespaced(world.hub.client(), "default");
    let label = Patch::Merge(json!({"metadata": {"labels": {"fleet": "yes"}}}));
    clusters
        .patch("b", &PatchParams::default(), &label)
        .await
        .unwrap();
    world.expect("p", "fleet[1.0.0 ok]").await;
    clusters
        .patch("a", &PatchParams::default(), &label)
        .await
        .unwrap();
    world.expect("p", "fleet[1.0.0 ok, 1.0.0 ok]").await;
    clusters
        .delete("b", &DeleteParams::default())
        .await
        .unwrap();
    world.expect("p", "fleet[1.0.0 ok]").await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_goes_away_and_comes_back() {
    let mut world = World::new().await;
    let dying = crate::bad_worlds::Mortal::new(world.leaf("dev").await);
    world.serve("dev", dying.client());
    let leaf = dying.server().client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "1.0.0")).await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    let since = ready_since(&world).await;
    dying.kill();
    world.cut_off("dev");
    world
        .expect("p", "dev[1.0.0 not reachable: connection to dev refused]")
        .await;
    dying.revive();
    world.serve("dev", dying.client());
    world.expect("p", "dev[1.0.0 ok]").await;
    assert_eq!(
        ready_since(&world).await,
        since,
        "being out of sight is no break"
    );
}

async fn ready_since(world: &World) -> Option<api::Time> {
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    status.environments["dev"].targets[0].ready_since.clone()
}

#[tokio::test(start_paused = true)]
async fn a_rotated_secret_takes_effect() {
    let mut world = World::new().await;
    let old = world.leaf("old").await.client();
    let new = world.leaf("new").await.client();
    for (leaf, version) in [(&old, "1.0.0"), (&new, "2.0.0")] {
        namespace(leaf, "x").await;
        deploy(leaf, &release("x", "app", version)).await;
    }
    world.pipeline("p", spec("dev=old/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(world.hub.client(), "default");
    let patch = Patch::Merge(json!({"stringData": {"value": kubeconfig("new")}}));
    secrets
        .patch("old-kubeconfig", &PatchParams::default(), &patch)
        .await
        .unwrap();
    world.expect("p", "dev[2.0.0 ok]").await;
}

#[tokio::test(start_paused = true)]
async fn clusters_are_let_go_when_nobody_needs_them() {
    let mut world = World::new().await;
    for name in ["used", "unused"] {
        let leaf = world.leaf(name).await.client();
        namespace(&leaf, "x").await;
        deploy(&leaf, &release("x", "app", "1.0.0")).await;
    }
    world.pipeline("p", spec("dev=used/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    assert_eq!(world.shared.supervised(), 1);
    world
        .pipelines()
        .delete("p", &DeleteParams::default())
        .await
        .unwrap();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(world.shared.supervised(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_nothing_changes() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "1.0.0")).await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let version = || async {
        world
            .pipelines()
            .get("p")
            .await
            .unwrap()
            .metadata
            .resource_version
    };
    let before = version().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(version().await, before);
    let clusters: kube::Api<api::GitopsCluster> =
        kube::Api::namespaced(world.hub.client(), "default");
    assert!(clusters.get("dev").await.unwrap().is_ready());
}
