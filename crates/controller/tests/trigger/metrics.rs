//! The operator's gauge.

use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::json;

use crate::cluster::{Cluster, NAMESPACE, name};
use kube::api::DeleteParams;

fn gauge(cluster: &Cluster) -> Vec<String> {
    let mut registry = Registry::default();
    cluster.metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for needed in [
        "workqueue_work_duration_seconds_count",
        "workqueue_longest_running_processor_seconds",
        "rest_client_requests_total",
        "process_cpu_seconds_total",
        "go_info 1",
        "go_memstats_alloc_bytes",
    ] {
        assert!(text.contains(needed), "{needed} in {text}");
    }
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| {
            line.starts_with("pipelinetrigger_reconcile_condition{") && line.ends_with(" 1")
        })
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn b14_the_gauge_shows_what_is_and_forgets_what_was() {
    let cluster = Cluster::whole().await;
    cluster
        .apply(&json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": { "name": "shop", "namespace": NAMESPACE }, "spec": {},
            "status": { "artifact": { "revision": "main@sha1:aa", "path": "a/b/shop/x" } }
        }))
        .await;
    cluster
        .apply(&json!({
            "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
            "metadata": { "name": "shop", "namespace": NAMESPACE },
            "spec": { "source": { "kind": "GitRepository", "name": "shop" }, "pipelineRun": { "spec": {} } }
        }))
        .await;
    let runs = cluster.wait_for_runs(1).await;
    let series = |type_: &str, status: &str| {
        format!(
            "pipelinetrigger_reconcile_condition{{kind=\"PipelineTrigger\",name=\"shop\",namespace=\"{NAMESPACE}\",sourcekind=\"GitRepository\",repo=\"main\",type=\"{type_}\",status=\"{status}\"}} 1"
        )
    };
    cluster.settle().await;
    assert_eq!(gauge(&cluster), [series("Unknown", "Unknown")]);
    cluster.finish(&name(&runs[0]), "True", "Succeeded").await;
    cluster.settle().await;
    assert_eq!(gauge(&cluster), [series("Success", "True")]);
    cluster
        .objects("PipelineTrigger")
        .delete("shop", &DeleteParams::background())
        .await
        .unwrap();
    cluster.settle().await;
    assert!(gauge(&cluster).is_empty());
}
