//! What Flux verified: an artifact is signed when the source of the app says so about what the app runs.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::world::{World, app_definition, create, deploy, namespace, set_status, spec};

const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io/v1";

fn ready() -> Value {
    json!({"type": "Ready", "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn applied(revision: &str) -> Value {
    json!({
        "apiVersion": KUSTOMIZE, "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "here"},
        "spec": {"sourceRef": {"kind": "OCIRepository", "name": "app"}},
        "status": {
            "observedGeneration": 1, "lastAppliedRevision": revision, "conditions": [ready()],
        },
    })
}

/// An OCIRepository with this artifact; `verified` is the status of its condition.
fn source(environment: &str, revision: &str, verified: Option<&str>) -> Value {
    let mut conditions = vec![ready()];
    conditions.extend(verified.map(|status| {
        json!({"type": "SourceVerified", "status": status, "reason": "Succeeded", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }));
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
        "metadata": {"name": "app", "namespace": "here"},
        "spec": {"url": "oci://registry.example/app", "ref": {"tag": environment}},
        "status": {
            "observedGeneration": 1, "artifact": {"revision": revision}, "conditions": conditions,
        },
    })
}

/// Dev has an artifact that is not verified yet, and prod demands that it is.
async fn world() -> (World, Client) {
    let mut world = World::new().await;
    let mut dev = None;
    for (name, revision) in [("dev", "dev@sha256:b"), ("prod", "prod@sha256:a")] {
        let leaf = world.leaf(name).await.client();
        let kind = app_definition("source.toolkit.fluxcd.io", "OCIRepository", &["v1"]);
        create(&leaf, &kind).await;
        namespace(&leaf, "here").await;
        deploy(&leaf, &source(name, revision, None)).await;
        deploy(&leaf, &applied(revision)).await;
        dev.get_or_insert(leaf);
    }
    let mut spec = spec("dev=dev/here > prod=prod/here");
    spec["appRef"] = json!({"apiVersion": KUSTOMIZE, "kind": "Kustomization", "name": "app"});
    spec["promotion"] = json!({"strategy": {"notification": {}}, "requireVerifiedSource": true});
    world.pipeline("p", spec).await;
    (world, dev.unwrap())
}

/// Waits until prod is held for a reason, or for none.
async fn expect_hold(world: &World, expected: &str) {
    let mut last = String::new();
    for _ in 0..60 {
        let status = world.pipelines().get("p").await.unwrap().status;
        let status = status.unwrap_or_default();
        let prod = status.environments.get("prod").cloned().unwrap_or_default();
        last = prod.hold.map(|hold| hold.reason).unwrap_or_default();
        if last == expected && !prod.targets.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("prod is held for {last:?} and not for {expected:?}");
}

/// The app stays as it is: nothing but the source tells.
#[tokio::test(start_paused = true)]
async fn a_revision_goes_on_when_its_source_is_verified() {
    let (world, dev) = world().await;
    expect_hold(&world, "SourceNotVerified").await;
    for (revision, verified, hold) in [
        ("dev@sha256:b", Some("False"), "SourceNotVerified"),
        ("dev@sha256:c", Some("True"), "SourceNotVerified"),
        ("dev@sha256:b", Some("True"), ""),
    ] {
        let source = source("dev", revision, verified);
        set_status(&dev, &source, &source["status"]).await;
        expect_hold(&world, hold).await;
    }
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    let dev = &status.environments["dev"];
    assert_eq!(dev.targets[0].signed, Some(true));
    assert!(dev.ran[0].signed);
    let promotion = status.environments["prod"].promotion.clone().unwrap();
    assert_eq!(promotion.revision, "sha256:b");
}
