use std::{convert::Infallible, time::Duration};

use http::{Request, Response};
use tokio::time::{Instant, sleep};
use tower::{Layer, ServiceExt, service_fn};

use runtime::worker_metrics::ReconcileResult;

use super::Metrics;

fn assert_has(page: &str, line: &str) {
    assert!(
        page.lines().any(|found| found == line),
        "no {line} in\n{page}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_loop_is_counted_under_the_names_dashboards_know() {
    let metrics = Metrics::new();
    let pipelines = metrics.of_controller("pipeline", 10);
    pipelines.queued();
    pipelines.set_depth(1);
    let pass = pipelines.begin(Duration::from_millis(20));
    sleep(Duration::from_secs(3)).await;
    let during = metrics.page();
    pass.finish(ReconcileResult::Error);
    pipelines.retried();
    drop(pipelines.begin(Duration::ZERO));
    let after = metrics.page();

    let queue = r#"{name="pipeline",controller="pipeline"}"#;
    assert_has(
        &during,
        r#"controller_runtime_active_workers{controller="pipeline"} 1"#,
    );
    assert_has(
        &during,
        &format!("workqueue_longest_running_processor_seconds{queue} 3.0"),
    );
    assert_has(&during, &format!("workqueue_depth{queue} 1"));
    assert_has(&during, &format!("workqueue_adds_total{queue} 1"));
    for line in [
        r#"controller_runtime_reconcile_total{controller="pipeline",result="error"} 1"#,
        r#"controller_runtime_reconcile_total{controller="pipeline",result="success"} 0"#,
        r#"controller_runtime_reconcile_errors_total{controller="pipeline"} 1"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="pipeline"} 1"#,
        r#"controller_runtime_reconcile_time_seconds_sum{controller="pipeline"} 3.0"#,
        r#"controller_runtime_active_workers{controller="pipeline"} 0"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="pipeline"} 10"#,
        &format!("workqueue_retries_total{queue} 1"),
        &format!("workqueue_queue_duration_seconds_count{queue} 2"),
        &format!("workqueue_work_duration_seconds_count{queue} 1"),
        &format!("workqueue_longest_running_processor_seconds{queue} 0.0"),
    ] {
        assert_has(&after, line);
    }
}

#[tokio::test(start_paused = true)]
async fn our_own_are_there() {
    let metrics = Metrics::new();
    metrics.set_targets("ready", 7);
    metrics.set_leading("shard", true);
    metrics.observe_leaf_event_to_status(Duration::from_millis(30));
    metrics.set_oldest_observation(Some(Instant::now()));
    metrics.events().count_lost("flux");
    sleep(Duration::from_secs(90)).await;
    let page = metrics.page();
    for line in [
        r#"sluice_targets{state="ready"} 7"#,
        r#"leader_election_master_status{name="shard"} 1"#,
        r#"sluice_leaf_event_to_status_seconds_bucket{le="0.05"} 1"#,
        "sluice_observation_age_seconds 90.0",
        r#"sluice_events_lost_total{sink="flux"} 1"#,
    ] {
        assert_has(&page, line);
    }
    for name in [
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
    ] {
        let is_there = page.lines().any(|line| line.starts_with(name));
        assert!(
            is_there || !cfg!(target_os = "linux"),
            "no {name}in\n{page}"
        );
    }
    assert!(page.ends_with("# EOF\n"));
    assert!(!page.contains("_total_total"));
}

#[tokio::test]
async fn requests_are_counted_by_answer() {
    let metrics = Metrics::new();
    let service =
        metrics
            .count_requests("leaf:6443")
            .layer(service_fn(async |request: Request<()>| {
                match request.uri().path() {
                    "/missing" => {
                        Ok::<_, Infallible>(Response::builder().status(404).body(()).unwrap())
                    }
                    _ => Ok(Response::new(())),
                }
            }));
    for path in ["/", "/missing", "/missing"] {
        let request = Request::get(path).body(()).unwrap();
        service.clone().oneshot(request).await.unwrap();
    }
    let page = metrics.page();
    for line in [
        r#"rest_client_requests_total{code="200",method="GET",host="leaf:6443"} 1"#,
        r#"rest_client_requests_total{code="404",method="GET",host="leaf:6443"} 2"#,
    ] {
        assert_has(&page, line);
    }
}
