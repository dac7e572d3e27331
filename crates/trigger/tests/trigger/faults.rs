//! Whatever goes wrong, each event gets one run: seeded faults, and a controller that is killed again and again.

use std::{collections::BTreeMap, time::Duration};

use apiserver::FaultRates;
use serde_json::json;

use crate::cluster::{Cluster, NAMESPACE};

const TRIGGERS: usize = 5;
const REVISIONS: usize = 6;

async fn prepare(seed: u64) -> Cluster {
    let cluster = Cluster::bare(seed).await;
    cluster.install_all().await;
    for number in 0..TRIGGERS {
        let name = format!("t{number}");
        cluster
            .apply(&json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                "metadata": { "name": name, "namespace": NAMESPACE }, "spec": {},
            }))
            .await;
        cluster
            .apply(&json!({
                "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
                "metadata": { "name": name, "namespace": NAMESPACE },
                "spec": { "source": { "kind": "GitRepository", "name": name }, "pipelineRun": { "spec": { "params": [{ "name": "c", "value": "$(commit)" }] } } }
            }))
            .await;
    }
    cluster
}

/// Pushes every revision to every repository, waiting until each is noted.
async fn push_everything(cluster: &Cluster) {
    for revision in 0..REVISIONS {
        // The first and the last are the same commit.
        let commit = format!("main@sha1:c{}", revision % (REVISIONS - 1));
        for number in 0..TRIGGERS {
            cluster.push(&format!("t{number}"), &commit).await;
        }
        for number in 0..TRIGGERS {
            cluster
                .wait_for("the event to be noted", async || {
                    let status = cluster.status(&format!("t{number}")).await;
                    (status["latestEvent"] == json!(commit)).then_some(())
                })
                .await;
        }
    }
}

async fn assert_one_run_per_event(cluster: &Cluster, seed: u64) {
    cluster.inject(FaultRates::default());
    cluster.settle().await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for run in cluster.runs().await {
        let owner = run["metadata"]["ownerReferences"][0]["name"]
            .as_str()
            .unwrap();
        let commit = run["spec"]["params"][0]["value"].as_str().unwrap();
        *counts.entry(format!("{owner} {commit}")).or_default() += 1;
    }
    for number in 0..TRIGGERS {
        for commit in 0..REVISIONS - 1 {
            let expected = if commit == 0 { 2 } else { 1 };
            let key = format!("t{number} c{commit}");
            assert_eq!(
                counts.get(&key),
                Some(&expected),
                "seed {seed}: {key} in {counts:#?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_event_gets_one_run_in_spite_of_faults() {
    for seed in 1..=4 {
        let cluster = prepare(seed).await;
        cluster.inject(FaultRates {
            seed,
            conflict: 0.1,
            server_error: 0.1,
            timeout: 0.15,
            dropped_watch: 0.5,
            stale_list: 0.2,
        });
        cluster.start();
        push_everything(&cluster).await;
        assert_one_run_per_event(&cluster, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_event_gets_one_run_although_the_controller_is_killed() {
    for seed in 1..=3 {
        let cluster = prepare(seed).await;
        cluster.inject(FaultRates {
            seed,
            timeout: 0.3,
            server_error: 0.1,
            ..FaultRates::default()
        });
        let killed = cluster.clone();
        let (end, ends) = tokio::sync::watch::channel(false);
        let killer = tokio::spawn(async move {
            for life in 1_u64.. {
                let running = killed.start();
                tokio::time::sleep(Duration::from_millis(1500 + 237 * (life * seed % 17))).await;
                running.abort();
                if *ends.borrow() {
                    break;
                }
            }
        });
        push_everything(&cluster).await;
        end.send_replace(true);
        killer.await.expect("it only starts and kills");
        cluster.start();
        assert_one_run_per_event(&cluster, seed).await;
    }
}
