//! Changes take effect without a restart, and connections that nobody needs are closed.

use std::{sync::Arc, time::Duration};

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{World, app_definition, create, deploy, kubeconfig, namespace, release, spec};

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
    let dying = crate::failing_clusters::Mortal::new(world.leaf("dev").await);
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

/// Nobody probes a cluster that no pipeline uses, so that nothing is known about it.
#[tokio::test(start_paused = true)]
async fn a_cluster_without_pipelines_is_not_called_ready() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "1.0.0")).await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    expect_cluster(&world, "dev", "True ClusterReachable").await;
    remove(&world, "p").await;
    expect_cluster(&world, "dev", "Unknown NotProbed").await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    expect_cluster(&world, "dev", "True ClusterReachable").await;
    // Also where the last pipeline went while nothing ran.
    world.stop();
    remove(&world, "p").await;
    world.restart(controller::Settings::default()).await;
    expect_cluster(&world, "dev", "Unknown NotProbed").await;
}

async fn remove(world: &World, pipeline: &str) {
    let removed = world.pipelines();
    let removed = removed.delete(pipeline, &DeleteParams::default()).await;
    removed.map(|_| ()).unwrap();
}

/// Waits until a GitopsCluster's `Ready` has this status and reason.
async fn expect_cluster(world: &World, name: &str, expected: &str) {
    let clusters: kube::Api<api::GitopsCluster> =
        kube::Api::namespaced(world.hub.client(), "default");
    let mut found = String::new();
    for _ in 0..600 {
        let status = clusters.get(name).await.unwrap().status.unwrap_or_default();
        let ready = api::conditions::find(&status.conditions, "Ready").cloned();
        found = ready.map_or(String::new(), |it| format!("{} {}", it.status, it.reason));
        if found == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("{name} is {found}, not {expected}");
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
    let pipelines = world.pipelines();
    let version = || async { pipelines.get("p").await.unwrap().metadata.resource_version };
    let before = version().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(version().await, before);
    let clusters: kube::Api<api::GitopsCluster> =
        kube::Api::namespaced(world.hub.client(), "default");
    assert!(clusters.get("dev").await.unwrap().is_ready());
    let changes = clusters.get("dev").await.unwrap().metadata.resource_version;
    world.restart(controller::Settings::default()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(version().await, before, "a restart is no news");
    assert_eq!(
        clusters.get("dev").await.unwrap().metadata.resource_version,
        changes
    );
}

/// The whole process, on a hub alone: what happened is told once, in words.
#[tokio::test(start_paused = true)]
async fn events_tell_what_happened() {
    use k8s_openapi::api::events::v1::Event;
    let mut world = World::new().await;
    world.stop();
    let hub = world.hub.client();
    namespace(&hub, "x").await;
    deploy(&hub, &release("x", "app", "1.0.0")).await;
    world.pipeline("p", spec("dev=x")).await;
    let shutdown = tokio_util::sync::CancellationToken::new();
    let settings = controller::Settings::default();
    let process = controller::run(
        hub.clone(),
        settings,
        controller::Metrics::new(),
        shutdown.clone(),
    );
    let process = tokio::spawn(process);
    world.expect("p", "dev[1.0.0 ok]").await;
    let app = release("x", "app", "");
    crate::world::set_status(&hub, &app, &crate::world::released("1.1.0", true)).await;
    world.expect("p", "dev[1.1.0 ok]").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    shutdown.cancel();
    process.await.unwrap().unwrap();
    let events: kube::Api<Event> = kube::Api::namespaced(hub, "default");
    let events = events.list(&Default::default()).await.unwrap().items;
    let mut notes: Vec<_> = events
        .into_iter()
        .map(|event| event.note.unwrap_or_default())
        .collect();
    notes.sort();
    assert_eq!(
        notes,
        [
            "All clusters checked",
            "dev: x runs 1.0.0",
            "dev: x runs 1.1.0"
        ]
    );
}

/// What a Kustomization's revision follows is told, so that nobody promotes a commit between two
/// environments that both follow the same branch.
#[tokio::test(start_paused = true)]
async fn two_environments_that_follow_one_branch_say_so() {
    let mut world = World::new().await;
    for name in ["dev", "prod"] {
        let leaf = world.leaf(name).await.client();
        let source = app_definition("source.toolkit.fluxcd.io", "GitRepository", &["v1"]);
        create(&leaf, &source).await;
        namespace(&leaf, "here").await;
        let url = format!("https://{name}:secret@git.example/fleet");
        create(
            &leaf,
            &json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                "metadata": {"name": "fleet", "namespace": "here"},
                "spec": {"url": url, "ref": {"branch": "main"}},
            }),
        )
        .await;
        deploy(
            &leaf,
            &json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": {"name": "app", "namespace": "here"},
                "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}},
                "status": {
                    "observedGeneration": 1, "lastAppliedRevision": "main@sha1:abc",
                    "conditions": [{"type": "Ready", "status": "True", "reason": "Done",
                        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                },
            }),
        )
        .await;
    }
    let mut spec = spec("dev=dev/here > prod=prod/here");
    spec["appRef"] = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
    });
    world.pipeline("p", spec).await;
    world
        .expect("p", "dev[main@sha1:abc ok] > prod[main@sha1:abc ok]")
        .await;
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    for environment in status.environments.values() {
        assert_eq!(
            environment.targets[0].follows.as_deref(),
            Some("https://git.example/fleet (branch main)")
        );
    }
}

/// Who leads no more watches nothing more: all that was spawned for the loop ends with it.
#[tokio::test(start_paused = true)]
async fn a_loop_that_ends_leaves_nothing_running() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "here").await;
    deploy(&leaf, &release("here", "app", "1.0.0")).await;
    world.pipeline("p", spec("dev=dev/here")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    world.stop();
    for _ in 0..100 {
        if Arc::strong_count(&world.shared) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} tasks go on", Arc::strong_count(&world.shared) - 1);
}
