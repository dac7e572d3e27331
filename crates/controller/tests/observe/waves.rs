//! Which waves of a rollout select a target, as the labels of its cluster change.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::{World, deploy, namespace, release, spec};

/// The waves whose selectors match the targets of an environment, once they are these.
async fn expect_waves(world: &World, expected: &[&[i64]]) {
    let mut waves: Vec<Vec<i64>> = Vec::new();
    for _ in 0..600 {
        let status = world.pipelines().get("p").await.unwrap().status;
        let status = status.unwrap_or_default();
        let environment = status.environments.get("fleet");
        let targets = environment.map(|it| it.targets.as_slice());
        let targets = targets.unwrap_or_default().iter();
        waves = targets.map(|it| it.matching_waves.clone()).collect();
        if waves == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{waves:?} and not {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn waves_follow_the_labels_of_clusters() {
    let mut world = World::new().await;
    for name in ["a", "b"] {
        let leaf = world.leaf(name).await.client();
        namespace(&leaf, "x").await;
        deploy(&leaf, &release("x", "app", "1.0.0")).await;
    }
    let mut spec = spec("dev=a/x > fleet=a/x,b/x");
    let canary = json!({"selector": {"matchLabels": {"ring": "canary"}}});
    let labelled =
        json!({"selector": {"matchExpressions": [{"key": "ring", "operator": "Exists"}]}});
    spec["environments"][1]["promotion"] = json!({
        "strategy": {"webhook": {"url": "https://ci.example"}},
        "rollout": {"waves": [canary, labelled]},
    });
    world.pipeline("p", spec).await;
    expect_waves(&world, &[&[], &[]]).await;
    let clusters: kube::Api<api::GitopsCluster> =
        kube::Api::namespaced(world.hub.client(), "default");
    for (name, ring, expected) in [
        ("b", json!("canary"), [&[][..], &[0, 1][..]]),
        ("a", json!("late"), [&[1][..], &[0, 1][..]]),
        ("b", json!("late"), [&[1][..], &[1][..]]),
        ("b", json!(null), [&[1][..], &[][..]]),
    ] {
        let label = Patch::Merge(json!({"metadata": {"labels": {"ring": ring}}}));
        let labelled = clusters.patch(name, &PatchParams::default(), &label).await;
        labelled.unwrap();
        expect_waves(&world, &expected).await;
    }
}
