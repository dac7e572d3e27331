//! Commands that read a pipeline and take an environment after it.

use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::{cluster::TestCluster, read_only::check};

/// The three ways to name prod.
const PROD: [&[&str]; 3] = [&["prod"], &["-e", "prod"], &["--environment=prod"]];

#[tokio::test]
async fn the_forecast_of_one_environment() {
    let cluster = TestCluster::new().await;
    for named in PROD {
        let command = [&["forecast", "web"], named].concat();
        let forecast = cluster.prints(&command).await;
        check(&forecast, "prod: 2.0.0 after an approval of 2.0.0");
    }
    let document = cluster
        .prints(&["forecast", "web", "dev", "-o", "json"])
        .await;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["items"].as_array().unwrap().len(), 1);
    let unknown = cluster.run(&["forecast", "web", "prdo"]).await;
    assert!(unknown.err.contains("prdo"), "{}", unknown.err);
    assert_eq!(unknown.code, 1);
}

#[tokio::test]
async fn the_status_of_one_environment() {
    let cluster = TestCluster::new().await;
    for named in PROD {
        let command = [&["status", "web"], named].concat();
        check(
            &cluster.prints(&command).await,
            "
        default/web  HelmRelease web

        prod
          1.0.0
          ◇ awaiting approval
          ● eu/web

        ◇ prod
            waits: 2.0.0 waits for approval to enter prod [AwaitingApproval]
            resolved by an approval of 2.0.0
            promotion of 2.0.0: AwaitingApproval
            try: sluice approve web prod -n default",
        );
    }
    let document = cluster
        .prints(&["status", "web", "dev", "-o", "json"])
        .await;
    let document: Value = serde_json::from_str(&document).unwrap();
    let environments = document["environments"].as_array().unwrap();
    assert_eq!(environments.len(), 1);
    assert_eq!(environments[0]["name"], "dev");
}

#[tokio::test]
async fn the_events_of_one_environment() {
    let cluster = TestCluster::new().await;
    let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
    for (name, kind, about, environment) in [
        ("a", "Pipeline", "web", "dev"),
        ("b", "Pipeline", "web", "prod"),
        ("c", "Promotion", "web-prod-1", "prod"),
    ] {
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": name, "namespace": "default",
                "annotations": {"pipelines.weave.works/environment": environment},
            },
            "involvedObject": {
                "apiVersion": "pipelines.weave.works/v1alpha1", "kind": kind, "name": about,
                "namespace": "default",
            },
            "type": "Normal", "reason": "Promoted", "message": name,
            "lastTimestamp": "2026-01-01T00:00:00Z",
        });
        let event = serde_json::from_value(event).unwrap();
        events.create(&PostParams::default(), &event).await.unwrap();
    }
    for named in PROD {
        let command = [&["events", "web", "--no-headers"], named].concat();
        let listed = cluster.prints(&command).await;
        let about: Vec<_> = listed
            .lines()
            .map(|it| it.split_whitespace().nth(3).unwrap())
            .collect();
        assert_eq!(about, ["pipeline/web", "promotion/web-prod-1"], "{listed}");
    }
    let all = cluster.prints(&["events", "web", "--no-headers"]).await;
    assert_eq!(all.lines().count(), 3, "{all}");
}
