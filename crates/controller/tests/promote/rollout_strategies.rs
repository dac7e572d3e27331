//! Promotions in waves by commit, webhook and the inputs of ResourceSets.

use serde_json::{Value, json};

use crate::{
    rollouts::{Fleet, three_waves},
    webhook_receiver::Receiver,
    world::{World, apply, settings, wait_for},
};

fn by_commit(world: &World) -> Value {
    let mut promotion = world.commit();
    promotion["strategy"]["commit"]["paths"] = json!(["clusters/${cluster}/*"]);
    promotion["rollout"] = three_waves();
    promotion
}

#[tokio::test]
async fn each_batch_is_one_commit() {
    let mut fleet = Fleet::new(4, by_commit).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    for (number, size) in [(1, 1), (2, 1), (3, 2)] {
        let clusters = fleet.expect_batch(number, true).await;
        assert_eq!(clusters.len(), size);
        // What was pushed is not pushed again.
        fleet.world.restart(settings());
        for cluster in &clusters {
            let path = format!("clusters/{cluster}/app.yaml");
            fleet.world.sync(&path, cluster, "app").await;
        }
    }
    fleet.world.expect("prod 1.1.0 Succeeded").await;
    let log = fleet.world.repository.log("main").await.unwrap();
    assert_eq!(log.len(), 4, "{log:?}");
    for number in 1..=3 {
        let title = format!("batch {number} (");
        let found = log.iter().filter(|it| it.contains(&title));
        assert_eq!(found.count(), 1, "{log:?}");
    }
}

/// An approval of all edits holds for each commit of a part of them, also after a crash.
#[tokio::test]
async fn an_approval_holds_for_all_commits() {
    let mut fleet = Fleet::new(3, |world| {
        let mut promotion = by_commit(world);
        promotion["manual"] = json!(true);
        promotion
    })
    .await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let is_read = async || {
        let status = fleet.promotion().await.and_then(|it| it.status);
        status.is_some_and(|it| it.change.is_some())
    };
    assert!(wait_for(is_read).await, "what it changes is not read");
    let waiting = fleet.world.expect("prod 1.1.0 AwaitingApproval").await;
    fleet.world.approve(&waiting[0]).await;
    for number in 1..=3 {
        let clusters = fleet.expect_batch(number, true).await;
        fleet.world.restart(settings());
        for cluster in &clusters {
            fleet.world.deploy(cluster, "app", "1.1.0").await;
        }
    }
    fleet.world.expect("prod 1.1.0 Succeeded").await;
    let log = fleet.world.repository.log("main").await.unwrap();
    assert_eq!(log.len(), 4, "{log:?}");
}

#[tokio::test]
async fn a_webhook_is_called_once_for_each_batch() {
    let receiver = Receiver::start().await;
    let url = receiver.url();
    let fleet = Fleet::new(4, |_| {
        json!({
            "strategy": {"webhook": {"url": url, "secretRef": {"name": "hook"}}},
            "rollout": three_waves(),
        })
    })
    .await;
    fleet.world.hook_secret("hook").await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let mut started = Vec::new();
    for number in 1..=3 {
        let clusters = fleet.expect_batch(number, true).await;
        for cluster in &clusters {
            fleet.world.deploy(cluster, "app", "1.1.0").await;
        }
        started.push(clusters);
    }
    let done = fleet.world.expect("prod 1.1.0 Succeeded").await;
    let uid = done[0].metadata.uid.as_deref().unwrap();
    let calls = receiver.calls();
    assert_eq!(calls.len(), 3);
    for (number, (call, clusters)) in (1..).zip(calls.iter().zip(&started)) {
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        let id = format!("{uid}/{number}");
        assert_eq!(call.header("idempotency-key"), id);
        assert_eq!((&body["id"], &body["batch"]), (&json!(id), &json!(number)));
        let targets: Vec<_> = clusters
            .iter()
            .map(|it| json!({"cluster": it, "namespace": "app"}))
            .collect();
        assert_eq!(body["targets"], json!(targets));
    }
}

#[tokio::test]
async fn clusters_that_ask_get_it_with_their_batch() {
    let fleet = Fleet::new(4, |_| {
        json!({
            "strategy": {"resourceSetInputs": {"secretRef": {"name": "inputs"}}},
            "rollout": three_waves(),
        })
    })
    .await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "inputs", "namespace": "default"},
        "stringData": {"inputs-token": "the token of the clusters"},
    });
    apply(&fleet.world.hub, &secret).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let mut published: Vec<String> = Vec::new();
    for number in 1..=3 {
        let clusters = fleet.expect_batch(number, true).await;
        published.extend(clusters.clone());
        published.sort();
        let mut desired = Vec::new();
        let is_so = async || {
            desired = targets_with_desired(&fleet.world, "1.1.0").await;
            desired == published || number == 3
        };
        assert!(wait_for(is_so).await, "{desired:?} and not {published:?}");
        for cluster in &clusters {
            fleet.world.deploy(cluster, "app", "1.1.0").await;
        }
    }
    fleet.world.expect("prod 1.1.0 Succeeded").await;
}

/// The clusters of prod that should run a version, where that is said of them alone.
async fn targets_with_desired(world: &World, version: &str) -> Vec<String> {
    let status = world.pipelines().get("app").await.unwrap().status;
    let environments = status.unwrap_or_default().environments;
    let targets = environments.get("prod").map(|it| it.targets.clone());
    let targets = targets.unwrap_or_default();
    let has = |it: &&api::pipeline::TargetStatus| {
        it.desired.as_ref().is_some_and(|it| it.version == version)
    };
    let names = targets.iter().filter(has).filter_map(|it| {
        let cluster = it.cluster_app_ref.as_ref()?.cluster_ref.as_ref()?;
        Some(cluster.name.clone())
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}
