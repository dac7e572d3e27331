//! Who may act, and for which triggers.

use std::time::Duration;

use kube::api::DeleteParams;
use runtime::{
    LeaderGuard,
    leader::{LeaderElection, LeaseTiming},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, NAMESPACE, name};

fn election(name: &str, identity: &str) -> LeaderElection {
    let timing = LeaseTiming::new(
        Duration::from_secs(15),
        Duration::from_secs(10),
        Duration::from_secs(2),
    );
    LeaderElection {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        identity: identity.to_owned(),
        timing: timing.unwrap(),
    }
}

fn source(kind: &str, status: Value) -> Value {
    let group = match kind {
        "ImagePolicy" => "image.toolkit.fluxcd.io",
        _ => "source.toolkit.fluxcd.io",
    };
    json!({
        "apiVersion": format!("{group}/v1"), "kind": kind,
        "metadata": { "name": "shop", "namespace": NAMESPACE }, "spec": {}, "status": status
    })
}

fn git() -> Value {
    let artifact = json!({ "revision": "main@sha1:a0", "path": "gitrepository/x/shop/x.tar.gz" });
    source("GitRepository", json!({ "artifact": artifact }))
}

fn trigger(name: &str, kind: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels },
        "spec": { "source": { "kind": kind, "name": "shop" }, "pipelineRunSpec": { "pipelineSpec": {} } }
    })
}

#[tokio::test(start_paused = true)]
async fn a_replica_of_the_operator_and_ours_exclude_each_other() {
    let mut cluster = Cluster::bare(1).await;
    cluster.install_all().await;
    let release = CancellationToken::new();
    let old = election("bb9e0b30.jquad.rocks", "operator");
    let (operator, _election) =
        LeaderGuard::elect(cluster.client.clone(), old.clone(), release.clone());
    operator.acquired().await;
    cluster.settings.election = Some(election("ours", "sluice"));
    cluster.start();
    cluster.apply(&git()).await;
    let manifest = trigger("shop", "GitRepository", json!({}));
    cluster.apply(&manifest).await;
    cluster.settle().await;
    assert!(cluster.runs().await.is_empty());
    assert_eq!(cluster.status("shop").await, Value::Null);
    release.cancel();
    cluster.wait_for_runs(1).await;
    let again = LeaderElection {
        identity: "operator again".to_owned(),
        ..old
    };
    let (operator, _election) =
        LeaderGuard::elect(cluster.client.clone(), again, CancellationToken::new());
    cluster.settle().await;
    assert_eq!(operator.remaining(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn each_shard_reconciles_its_own_triggers() {
    let mut cluster = Cluster::bare(1).await;
    cluster.install_all().await;
    cluster.settings.label_selector = Some("team=a".to_owned());
    // A shard asks nobody but its own Lease.
    cluster.settings.election = Some(election("shard", "sluice"));
    cluster.start();
    cluster.apply(&git()).await;
    for team in ["a", "b"] {
        let manifest = trigger(team, "GitRepository", json!({ "team": team }));
        cluster.apply(&manifest).await;
    }
    let runs = cluster.wait_for_runs(1).await;
    assert_eq!(runs[0]["metadata"]["ownerReferences"][0]["name"], "a");
    cluster.settle().await;
    assert_eq!(cluster.runs().await.len(), 1);
    // Whoever changes the label changes whose it is.
    let moved = json!({ "metadata": { "labels": { "team": "a" } } });
    cluster.change("PipelineTrigger", "b", moved).await;
    cluster.wait_for_runs(2).await;
    let moved = json!({ "metadata": { "labels": { "team": "b" } } });
    cluster.change("PipelineTrigger", "b", moved).await;
    cluster.push("shop", "main@sha1:b0").await;
    cluster.wait_for_runs(3).await;
    cluster.settle().await;
    assert_eq!(cluster.runs().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn only_the_namespace_that_is_watched() {
    for (namespace, runs) in [(NAMESPACE, 1), ("other", 0)] {
        let mut cluster = Cluster::bare(1).await;
        cluster.install_all().await;
        cluster.settings.namespace = Some(namespace.to_owned());
        cluster.start();
        cluster.apply(&git()).await;
        let manifest = trigger("shop", "GitRepository", json!({}));
        cluster.apply(&manifest).await;
        cluster.settle().await;
        assert_eq!(cluster.runs().await.len(), runs, "{namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn b18_r6_nothing_is_listed_or_polled_for_an_event() {
    let cluster = Cluster::whole().await;
    cluster.apply(&git()).await;
    let manifest = trigger("shop", "GitRepository", json!({}));
    cluster.apply(&manifest).await;
    let runs = cluster.wait_for_runs(1).await;
    cluster.settle().await;
    // What remains is finding out, every ten seconds, what is served.
    let per_settling = |before: u64| cluster.requests(&["GET"]) - before;
    let before = cluster.requests(&["GET"]);
    cluster.settle().await;
    let idle = per_settling(before);
    let (before, writes) = (cluster.requests(&["GET"]), cluster.writes());
    cluster.finish(&name(&runs[0]), "True", "Succeeded").await;
    cluster.push("shop", "main@sha1:b0").await;
    cluster.settle().await;
    assert_eq!(cluster.runs().await.len(), 2);
    assert!(per_settling(before) <= idle, "{idle} when nothing happens");
    // The run, two statuses (the end of one, the start of the other) and at most two events.
    let writes = cluster.writes() - writes;
    assert!(writes <= 5, "{writes} writes");
}

#[tokio::test(start_paused = true)]
async fn b21_sources_of_the_same_name_and_another_kind_enqueue_nothing() {
    let cluster = Cluster::whole().await;
    cluster.apply(&git()).await;
    let image = |tag: &str| json!({ "latestRef": { "name": "r.example/shop", "tag": tag } });
    cluster.apply(&source("ImagePolicy", image("1"))).await;
    let manifest = trigger("git", "GitRepository", json!({}));
    cluster.apply(&manifest).await;
    cluster.wait_for_runs(1).await;
    cluster.settle().await;
    let passes = |cluster: &Cluster| {
        let page = cluster.metrics.page();
        let line = page
            .lines()
            .find(|line| line.starts_with("workqueue_adds_total{name=\"pipelinetrigger\""))
            .unwrap()
            .to_owned();
        line.rsplit_once(' ').unwrap().1.to_owned()
    };
    let before = passes(&cluster);
    cluster.set_status("ImagePolicy", "shop", image("2")).await;
    cluster.settle().await;
    assert_eq!(passes(&cluster), before);
    cluster
        .objects("ImagePolicy")
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    cluster.settle().await;
    assert_eq!(passes(&cluster), before);
}
