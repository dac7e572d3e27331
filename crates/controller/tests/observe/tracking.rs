//! The revision of an app whose image is tracked.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{World, api_of, create, deploy, namespace, spec};

fn deployment(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "x", "labels": {
            "kustomize.toolkit.fluxcd.io/name": "app",
            "kustomize.toolkit.fluxcd.io/namespace": "x",
        }},
        "spec": {
            "selector": {"matchLabels": {"a": name}},
            "template": {
                "metadata": {"labels": {"a": name}},
                "spec": {"containers": [{"name": "app", "image": image}]},
            },
        },
    })
}

#[tokio::test(start_paused = true)]
async fn workloads_at_two_versions_are_no_revision_until_they_agree() {
    let world = World::new().await;
    let hub = world.hub.client();
    namespace(&hub, "x").await;
    create(&hub, &deployment("web", "acme/shop:1.9.0")).await;
    create(&hub, &deployment("worker", "acme/shop:1.10.0")).await;
    deploy(
        &hub,
        &json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "app", "namespace": "x"},
            "status": {
                "observedGeneration": 1, "lastAppliedRevision": "main@sha1:a",
                "conditions": [{"type": "Ready", "status": "True", "reason": "Done",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }),
    )
    .await;
    let mut spec = spec("dev=x > prod=x");
    spec["appRef"] = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
    });
    spec["track"] = json!({"image": "acme/shop"});
    spec["promotion"] = json!({"strategy": {"notification": {}}});
    world.pipeline("p", spec).await;
    let mixed = "- its workloads run the image acme/shop at 1.10.0 and 1.9.0";
    let drawn = format!("dev[{mixed}] > prod[{mixed}]");
    world.expect("p", &drawn).await;
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    let hold = status.environments["prod"].hold.clone().unwrap();
    assert_eq!(hold.reason, "SourceNotDeployed");
    assert!(
        hold.message.contains("at 1.10.0 and 1.9.0"),
        "{}",
        hold.message
    );

    // The app itself does not change when its second workload arrives.
    let newer = deployment("web", "acme/shop:1.10.0");
    let (api, patch) = (api_of(&hub, &newer), Patch::Merge(&newer));
    let patched = api.patch("web", &PatchParams::default(), &patch).await;
    patched.unwrap();
    world.expect("p", "dev[1.10.0 ok] > prod[1.10.0 ok]").await;
}
