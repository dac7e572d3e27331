//! Apps that are found by the pipeline's label, workloads among them.

use std::sync::{Arc, Mutex};

use apiserver::Server;
use http::StatusCode;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{
    failing_clusters::client,
    rights::guarded,
    world::{World, api_of, create, define_flux, deploy, namespace, release, spec},
};

const LABEL: &str = "pipelines.weave.works/pipeline";
const EARLY_LABEL: &str = "pipelines.wego.weave.works/pipeline";

/// A workload that is rolled out.
fn workload(kind: &str, name: &str, labels: Value, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {
            "replicas": 1, "serviceName": name, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
                {"name": "app", "image": image},
            ]}},
        },
        "status": {
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
            "availableReplicas": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
            "numberMisscheduled": 0, "numberReady": 1,
            "updatedNumberScheduled": 1, "numberAvailable": 1,
        },
    })
}

fn by_label(drawing: &str) -> Value {
    let mut spec = spec(drawing);
    spec.as_object_mut().unwrap().remove("appRef");
    spec
}

/// `Kind/name revision image,…` of each app, where it is ready.
async fn apps(world: &World) -> Vec<String> {
    let status = world.pipelines().get("shop").await.unwrap().status;
    let status = status.unwrap_or_default();
    let target = status.environments.get("dev").map(|it| it.targets.clone());
    let apps = target.into_iter().flatten().flat_map(|target| target.apps);
    let drawn = apps.filter(|app| app.ready).map(|app| {
        let revision = app.revision.unwrap_or_default();
        format!(
            "{}/{} {revision} {}",
            app.kind,
            app.name,
            app.images.join(",")
        )
    });
    drawn.collect()
}

async fn expect(world: &World, expected: &[&str]) {
    for _ in 0..600 {
        if apps(world).await == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    assert_eq!(apps(world).await, expected);
}

#[tokio::test(start_paused = true)]
async fn labelled_workloads_are_shown_with_their_images() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "shop").await;
    let mut app = release("shop", "app", "5.0.0");
    app["metadata"]["labels"] = json!({LABEL: "shop"});
    deploy(&leaf, &app).await;
    let web = workload(
        "Deployment",
        "web",
        json!({LABEL: "shop"}),
        "example.com/web:1.2.3",
    );
    for app in [
        web.clone(),
        workload(
            "StatefulSet",
            "db",
            json!({EARLY_LABEL: "shop"}),
            "example.com/db:9",
        ),
        workload(
            "DaemonSet",
            "agent",
            json!({LABEL: "shop", EARLY_LABEL: "shop"}),
            "example.com/agent:2",
        ),
        workload(
            "Deployment",
            "other",
            json!({LABEL: "other"}),
            "example.com/other:1",
        ),
        workload("Deployment", "plain", json!({}), "example.com/plain:1"),
    ] {
        deploy(&leaf, &app).await;
    }
    world.pipeline("shop", by_label("dev=dev/shop")).await;
    expect(
        &world,
        &[
            "HelmRelease/app 5.0.0 ",
            "Deployment/web 1.2.3 example.com/web:1.2.3",
            "StatefulSet/db 9 example.com/db:9",
            "DaemonSet/agent 2 example.com/agent:2",
        ],
    )
    .await;
    // A change, a label that comes, and an app that goes.
    let set_image = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "app", "image": "example.com/web:1.3.0"},
    ]}}}});
    patch(&leaf, &web, &set_image).await;
    let rolled_out = json!({"status": {"observedGeneration": 2}});
    let name = PatchParams::default();
    let deployments = api_of(&leaf, &web);
    deployments
        .patch_status("web", &name, &Patch::Merge(rolled_out))
        .await
        .unwrap();
    let plain = workload("Deployment", "plain", json!({}), "");
    let labelled = json!({"metadata": {"labels": {LABEL: "shop"}}});
    patch(&leaf, &plain, &labelled).await;
    let database = workload("StatefulSet", "db", json!({}), "");
    let databases = api_of(&leaf, &database);
    databases
        .delete("db", &DeleteParams::default())
        .await
        .unwrap();
    expect(
        &world,
        &[
            "HelmRelease/app 5.0.0 ",
            "Deployment/plain 1 example.com/plain:1",
            "Deployment/web 1.3.0 example.com/web:1.3.0",
            "DaemonSet/agent 2 example.com/agent:2",
        ],
    )
    .await;
}

async fn patch(client: &Client, object: &Value, patch: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let (api, patch) = (api_of(client, object), Patch::Merge(patch));
    let patched = api.patch(name, &PatchParams::default(), &patch).await;
    patched.unwrap();
}

/// A release passes its labels on to what it deploys.
#[tokio::test(start_paused = true)]
async fn a_workload_of_a_labelled_release_is_not_shown_twice() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "shop").await;
    let mut app = release("shop", "app", "5.0.0");
    app["metadata"]["labels"] = json!({LABEL: "shop"});
    deploy(&leaf, &app).await;
    let labels = json!({
        LABEL: "shop",
        "helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": "shop",
    });
    let web = workload("Deployment", "web", labels, "example.com/web:1.2.3");
    deploy(&leaf, &web).await;
    let alone = workload(
        "Deployment",
        "alone",
        json!({LABEL: "shop"}),
        "example.com/a:1",
    );
    deploy(&leaf, &alone).await;
    world.pipeline("shop", by_label("dev=dev/shop")).await;
    expect(
        &world,
        &[
            "HelmRelease/app 5.0.0 example.com/web:1.2.3",
            "Deployment/alone 1 example.com/a:1",
        ],
    )
    .await;
}

/// Workloads are many and change all the time.
#[tokio::test(start_paused = true)]
async fn only_labelled_workloads_are_watched_and_only_where_they_are_needed() {
    let world = World::new().await;
    let leaf = Server::in_memory();
    define_flux(&leaf.client()).await;
    namespace(&leaf.client(), "shop").await;
    deploy(&leaf.client(), &release("shop", "app", "5.0.0")).await;
    let watches: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, server) = (watches.clone(), leaf.clone());
    let counted = client(move |request| {
        let uri = request.uri().to_string();
        if uri.contains("/apis/apps/") && uri.contains("watch=true") {
            kept.lock().unwrap().push(uri);
        }
        let server = server.clone();
        async move {
            server
                .router(apiserver::User::in_process())
                .oneshot(request)
                .await
                .unwrap()
        }
    });
    world.serve("dev", counted);
    world.register("dev", json!({})).await;
    world.pipeline("named", spec("dev=dev/shop")).await;
    world.expect("named", "dev[5.0.0 ok]").await;
    assert!(watches.lock().unwrap().is_empty(), "{watches:?}");
    let web = workload(
        "Deployment",
        "web",
        json!({LABEL: "shop"}),
        "example.com/web:1",
    );
    deploy(&leaf.client(), &web).await;
    world.pipeline("shop", by_label("dev=dev/shop")).await;
    expect(&world, &["Deployment/web 1 example.com/web:1"]).await;
    let watches = watches.lock().unwrap().clone();
    assert!(!watches.is_empty());
    for watch in watches {
        assert!(watch.contains("labelSelector=pipelines."), "{watch}");
    }
}

#[tokio::test(start_paused = true)]
async fn workloads_that_may_not_be_watched_are_left_out_with_a_note() {
    let world = World::new().await;
    let leaf = Server::in_memory();
    define_flux(&leaf.client()).await;
    world.serve(
        "dev",
        guarded(&leaf, |request| {
            let is_watch = request
                .uri()
                .to_string()
                .contains("labelSelector=pipelines.");
            is_watch.then_some((StatusCode::FORBIDDEN, "no workloads"))
        }),
    );
    world.register("dev", json!({})).await;
    namespace(&leaf.client(), "shop").await;
    world.pipeline("shop", by_label("dev=dev/shop")).await;
    world
        .expect("shop", "dev[- not allowed: no workloads]")
        .await;
    let mut app = release("shop", "app", "5.0.0");
    app["metadata"]["labels"] = json!({LABEL: "shop"});
    create(&leaf.client(), &app).await;
    crate::world::set_status(&leaf.client(), &app, &app["status"]).await;
    world.expect("shop", "dev[5.0.0 ok]").await;
    let status = world.pipelines().get("shop").await.unwrap().status;
    let status = status.unwrap();
    let note = status.environments["dev"].targets[0].apps[0].note.clone();
    assert_eq!(
        note.as_deref(),
        Some("labelled workloads are left out: watching them is not allowed")
    );
}
