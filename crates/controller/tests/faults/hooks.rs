//! Reports by webhook, through the real door.

use axum::{Router, body::Body};
use controller::{Detect, Settings};
use http::Request;
use serde_json::json;
use server::{Door, Metrics};
use testbed::forge::PullState;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::journeys::Stage;

/// A replica's door.
fn door(stage: &Stage, stop: &CancellationToken) -> Router {
    let settings = server::Settings::default();
    let hub = stage.world.hub.clone();
    server::hooks::router(Door::new(hub, settings, Metrics::default(), stop))
}

/// Flux tells that an environment runs a revision; answers the code.
async fn tell(door: &Router, environment: &str, revision: &str) -> u16 {
    let event = json!({
        "involvedObject": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "name": "app", "namespace": environment, "uid": format!("uid-{environment}"),
        },
        "severity": "info", "timestamp": "2026-11-15T08:00:00Z", "reason": "UpgradeSucceeded",
        "message": "Helm upgrade succeeded", "metadata": {"revision": revision},
        "reportingController": "helm-controller",
    });
    let path = format!("/promotion/default/app/{environment}");
    let request = Request::post(path).body(Body::from(event.to_string()));
    let answer = door.clone().oneshot(request.unwrap()).await.unwrap();
    answer.status().as_u16()
}

#[tokio::test]
async fn a_hook_delivered_five_times() {
    let stage = Stage::new().await;
    stage.begin(&json!({})).await;
    let settings = || Settings {
        detect: Detect::Webhook,
        allow_unsigned_reports: true,
        ..stage.settings()
    };
    stage.start_with(settings()).await;
    let stop = CancellationToken::new();
    let doors = [door(&stage, &stop), door(&stage, &stop)];
    let first = futures::join!(
        tell(&doors[0], "dev", "1.1.0"),
        tell(&doors[1], "dev", "1.1.0"),
        tell(&doors[0], "dev", "1.1.0"),
    );
    for code in <[u16; 3]>::from(first) {
        assert!(matches!(code, 201 | 202), "{code}");
    }
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    stage.kill().await;
    stage.start_with(settings()).await;
    assert_eq!(tell(&doors[1], "dev", "1.1.0").await, 201);
    stage.world.repository.merge(1).await.unwrap();
    stage.world.expect("prod 1.1.0 Deploying").await;
    tell(&doors[0], "dev", "1.1.0").await;
    for door in doors.iter().cycle().take(5) {
        tell(door, "prod", "1.1.0").await;
    }
    stage.world.expect("prod 1.1.0 Succeeded").await;
    tell(&doors[0], "dev", "1.1.0").await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    stage.check(PullState::Merged, "1.1.0", "1.1.0").await;
    stop.cancel();
}
