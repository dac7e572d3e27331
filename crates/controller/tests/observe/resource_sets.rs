//! Flux Operator's ResourceSets as apps: ready with what they apply, at the revision of the one app among it
//! or of a tracked image.

use kube::{
    Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::world::{
    World, api_of, app_definition, create, deploy, namespace, release, released, set_status, spec,
};

const GROUP: &str = "fluxcd.controlplane.io";

/// A ResourceSet `app` that has applied these objects.
fn resource_set(applied: &[&str], ready: bool) -> Value {
    let entries: Vec<Value> = applied
        .iter()
        .map(|id| json!({"id": id, "v": "v2"}))
        .collect();
    let (word, reason) = match ready {
        true => ("True", "ReconciliationSucceeded"),
        false => ("Unknown", "Progressing"),
    };
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ResourceSet",
        "metadata": {"name": "app", "namespace": "x"},
        "status": {
            "lastAppliedRevision": format!("sha256:{}", applied.len()),
            "inventory": {"entries": entries},
            "conditions": [{"type": "Ready", "status": word, "reason": reason, "observedGeneration": 1,
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

const RELEASE: &str = "x_shop_helm.toolkit.fluxcd.io_HelmRelease";

/// A leaf cluster with a ResourceSet that has applied these objects, and a pipeline that follows it.
async fn world(applied: &[&str], track: Option<&str>) -> (World, Client) {
    let mut world = World::new().await;
    let leaf = world.leaf("leaf").await.client();
    create(&leaf, &app_definition(GROUP, "ResourceSet", &["v1"])).await;
    namespace(&leaf, "x").await;
    deploy(&leaf, &resource_set(applied, true)).await;
    let mut spec = spec("dev=leaf/x");
    spec["appRef"] =
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ResourceSet", "name": "app"});
    spec["track"] = track.map_or(Value::Null, |image| json!({"image": image}));
    world.pipeline("p", spec).await;
    (world, leaf)
}

#[tokio::test(start_paused = true)]
async fn the_revision_is_that_of_its_one_release() {
    let (world, leaf) = world(&["x_shop__ConfigMap", RELEASE], None).await;
    deploy(&leaf, &release("x", "shop", "1.0.0")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    // Only the release changes.
    let newer = release("x", "shop", "1.1.0");
    set_status(&leaf, &newer, &released("1.1.0", true)).await;
    world.expect("p", "dev[1.1.0 ok]").await;
    // Only the ResourceSet changes.
    let set = resource_set(&[RELEASE], false);
    set_status(&leaf, &set, &set["status"]).await;
    world.expect("p", "dev[1.1.0 not ready]").await;
}

#[tokio::test(start_paused = true)]
async fn several_releases_have_no_common_revision() {
    let other = "x_other_helm.toolkit.fluxcd.io_HelmRelease";
    let (world, leaf) = world(&[RELEASE, other], None).await;
    for name in ["shop", "other"] {
        deploy(&leaf, &release("x", name, "1.0.0")).await;
    }
    let error = "it applies 2 HelmReleases and Kustomizations; name an image in `track`";
    world.expect("p", &format!("dev[- {error}]")).await;
}

#[tokio::test(start_paused = true)]
async fn the_tracked_image_is_looked_for_in_all_that_it_applied() {
    let (world, leaf) = world(&[RELEASE, "x_web_apps_Deployment"], Some("acme/shop")).await;
    let deployment = |name: &str, label: &str, image: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "x", "labels": {
                format!("{label}/name"): if label.contains("helm") { "shop" } else { "app" },
                format!("{label}/namespace"): "x",
            }},
            "spec": {
                "selector": {"matchLabels": {"a": name}},
                "template": {
                    "metadata": {"labels": {"a": name}},
                    "spec": {"containers": [{"name": "app", "image": image}]},
                },
            },
        })
    };
    let own = format!("resourceset.{GROUP}");
    create(&leaf, &deployment("web", &own, "acme/shop:1.10.0")).await;
    let label = "helm.toolkit.fluxcd.io";
    create(&leaf, &deployment("worker", label, "acme/shop:1.9.0")).await;
    deploy(&leaf, &release("x", "shop", "7.0.0")).await;
    let mixed = "- its workloads run the image acme/shop at 1.10.0 and 1.9.0";
    world.expect("p", &format!("dev[{mixed}]")).await;
    let newer = deployment("worker", label, "acme/shop:1.10.0");
    let patch = Patch::Merge(&newer);
    let api = api_of(&leaf, &newer);
    let patched = api.patch("worker", &PatchParams::default(), &patch).await;
    patched.unwrap();
    world.expect("p", "dev[1.10.0 ok]").await;
}

#[tokio::test(start_paused = true)]
async fn on_the_hub_no_other_namespace_is_looked_at() {
    let world = World::new().await;
    let hub = world.hub.client();
    create(&hub, &app_definition(GROUP, "ResourceSet", &["v1"])).await;
    for name in ["x", "secret"] {
        namespace(&hub, name).await;
    }
    deploy(&hub, &release("secret", "shop", "1.0.0")).await;
    let elsewhere = "secret_shop_helm.toolkit.fluxcd.io_HelmRelease";
    deploy(&hub, &resource_set(&[elsewhere], true)).await;
    let mut spec = spec("dev=x");
    spec["appRef"] =
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ResourceSet", "name": "app"});
    world.pipeline("p", spec).await;
    let error = "it applies no HelmRelease or Kustomization; name an image in `track`";
    world.expect("p", &format!("dev[- {error}]")).await;
}
