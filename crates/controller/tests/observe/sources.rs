//! What Kustomizations follow: environments that move together are held, those that do not are not,
//! and an edit of a source counts at once.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{World, api_of, app_definition, create, deploy, namespace, set_status, spec};

fn git_source(reference: &Value) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "fleet", "namespace": "here"},
        "spec": {"url": "https://git.example/fleet", "ref": reference},
    })
}

fn applied(revision: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "here"},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}},
        "status": {
            "observedGeneration": 1, "lastAppliedRevision": revision,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Done",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

/// Dev and prod on a cluster each; both apps follow a source with this reference.
async fn both_follow(reference: Value, revision: &str) -> (World, kube::Client) {
    let mut world = World::new().await;
    let mut dev = None;
    for name in ["dev", "prod"] {
        let leaf = world.leaf(name).await.client();
        let kind = app_definition("source.toolkit.fluxcd.io", "GitRepository", &["v1"]);
        create(&leaf, &kind).await;
        namespace(&leaf, "here").await;
        create(&leaf, &git_source(&reference)).await;
        deploy(&leaf, &applied(revision)).await;
        dev.get_or_insert(leaf);
    }
    let mut spec = spec("dev=dev/here > prod=prod/here");
    spec["appRef"] = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
    });
    spec["promotion"] = json!({"strategy": {"notification": {}}});
    world.pipeline("p", spec).await;
    let drawn = format!("dev[{revision} ok] > prod[{revision} ok]");
    world.expect("p", &drawn).await;
    (world, dev.unwrap())
}

async fn held(world: &World) -> Option<String> {
    let status = world.pipelines().get("p").await.unwrap().status?;
    Some(status.environments.get("prod")?.hold.clone()?.reason)
}

/// Waits for the hold, but not for as long as anything is remembered.
async fn expect_hold(world: &World, expected: Option<&str>) {
    for _ in 0..40 {
        if held(world).await.as_deref() == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let hold = held(world).await;
    panic!("prod is held for {hold:?} and not for {expected:?}");
}

async fn edit(leaf: &kube::Client, reference: Value) {
    let source = git_source(&reference);
    let api = api_of(leaf, &source);
    let patch = Patch::Merge(&source);
    let edited = api.patch("fleet", &PatchParams::default(), &patch).await;
    edited.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fixed_tag_is_no_shared_source() {
    let (world, dev) = both_follow(json!({"tag": "v1.0.0"}), "v1.0.0@sha1:a").await;
    expect_hold(&world, None).await;
    edit(&dev, json!({"tag": "v1.1.0"})).await;
    let newer = applied("v1.1.0@sha1:b");
    set_status(&dev, &newer, &newer["status"]).await;
    world
        .expect("p", "dev[v1.1.0@sha1:b ok] > prod[v1.0.0@sha1:a ok]")
        .await;
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    let promotion = status.environments["prod"].promotion.clone().unwrap();
    assert_eq!(promotion.revision, "v1.1.0@sha1:b");
    assert_eq!(held(&world).await, None);
}

/// The app stays as it is: nothing but the source tells.
#[tokio::test(start_paused = true)]
async fn an_edit_of_a_source_lifts_the_hold_and_brings_it_back() {
    let (world, dev) = both_follow(json!({"branch": "main"}), "main@sha1:a").await;
    expect_hold(&world, Some("SharedSource")).await;
    edit(&dev, json!({"branch": "dev", "tag": null})).await;
    expect_hold(&world, None).await;
    // What the app follows next is known as soon as the app says so.
    edit(&dev, json!({"branch": "main"})).await;
    let newer = applied("main@sha1:b");
    set_status(&dev, &newer, &newer["status"]).await;
    expect_hold(&world, Some("SharedSource")).await;
}
