//! The operator's gauge, and what its dashboard reads besides.

use std::collections::BTreeSet;

use kube::api::DeleteParams;
use serde_json::json;

use crate::cluster::{Cluster, NAMESPACE, name};

fn gauge(cluster: &Cluster) -> Vec<String> {
    let page = cluster.metrics.page();
    let gauge = page.lines().filter(|line| {
        line.starts_with("pipelinetrigger_reconcile_condition{") && line.ends_with(" 1")
    });
    let mut lines: Vec<String> = gauge.map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Every family once, and those that the dashboard asks for with something in them.
fn check_dashboard(cluster: &Cluster) {
    let page = cluster.metrics.page();
    for needed in [
        "workqueue_work_duration_seconds_count{name=\"pipelinetrigger\",",
        "workqueue_longest_running_processor_seconds{name=\"pipelinetrigger\",",
        "controller_runtime_reconcile_total{controller=\"pipelinetrigger\",result=\"success\"}",
        "rest_client_requests_total{code=\"201\",method=\"POST\"",
        "process_cpu_seconds_total",
        "go_info 1",
        "go_memstats_alloc_bytes",
    ] {
        assert!(page.contains(needed), "{needed} in {page}");
    }
    let mut families = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("# TYPE")) {
        assert!(families.insert(line), "{line} comes twice");
    }
}

#[tokio::test(start_paused = true)]
async fn b14_the_gauge_has_series_of_existing_triggers_only() {
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
    check_dashboard(&cluster);
    cluster
        .objects("PipelineTrigger")
        .delete("shop", &DeleteParams::background())
        .await
        .unwrap();
    cluster.settle().await;
    assert!(gauge(&cluster).is_empty());
}
