//! Reports by webhook, through the real server.

use axum::{Router, body::Body};
use controller::{Detect, Settings};
use http::Request;
use ring::hmac;
use serde_json::json;
use server::{AppState, Metrics};
use testbed::forge::PullState;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::{journeys::Stage, world::apply};

/// What signs reports.
const REPORT_KEY: &str = "the key of the reports";

/// A replica's door.
fn door(stage: &Stage, stop: &CancellationToken) -> Router {
    let settings = server::Settings {
        allow_unsigned_reports: true,
        ..server::Settings::default()
    };
    let hub = stage.world.hub.clone();
    server::hooks::router(AppState::new(hub, settings, Metrics::default(), stop))
}

/// Flux's event that an environment runs a revision.
fn event(environment: &str, revision: &str, at: &str) -> String {
    let event = json!({
        "involvedObject": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "name": "app", "namespace": environment, "uid": format!("uid-{environment}"),
        },
        "severity": "info", "timestamp": at, "reason": "UpgradeSucceeded",
        "message": "Helm upgrade succeeded", "metadata": {"revision": revision},
        "reportingController": "helm-controller",
    });
    event.to_string()
}

/// Flux tells that an environment runs a revision; answers the code.
async fn tell(door: &Router, environment: &str, revision: &str) -> u16 {
    let path = format!("/promotion/default/app/{environment}");
    let body = event(environment, revision, "2026-11-15T08:00:00Z");
    let request = Request::post(path).body(Body::from(body));
    let answer = door.clone().oneshot(request.unwrap()).await.unwrap();
    answer.status().as_u16()
}

/// The same, just now and signed.
async fn tell_signed(door: &Router, environment: &str, revision: &str) -> u16 {
    let path = format!("/promotion/default/app/{environment}");
    let body = event(environment, revision, &jiff::Timestamp::now().to_string());
    let key = hmac::Key::new(hmac::HMAC_SHA256, REPORT_KEY.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let hex: String = tag.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    let request = Request::post(path).header("X-Signature", format!("sha256={hex}"));
    let request = request.body(Body::from(body)).unwrap();
    let answer = door.clone().oneshot(request).await.unwrap();
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
    tell(&doors[0], "prod", "1.0.0").await;
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

/// Makes the targets of the stage's pipeline ones on clusters that nobody can connect to, and gives
/// reports a key.
async fn move_out_of_reach(stage: &Stage) {
    let hub = &stage.world.hub;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "reports", "namespace": "default"},
        "stringData": {"hmac-key": REPORT_KEY},
    });
    apply(hub, &secret).await;
    let environments = ["dev", "prod"].map(|name| {
        let cluster = json!({"kind": "GitopsCluster", "name": name});
        json!({"name": name, "targets": [{"namespace": name, "clusterRef": cluster}]})
    });
    for name in ["dev", "prod"] {
        let cluster = json!({
            "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"secretRef": {"name": "there-is-none"}},
        });
        apply(hub, &cluster).await;
    }
    let strategy = json!({"secretRef": {"name": "reports"}});
    let spec = json!({"environments": environments, "promotion": {"strategy": strategy}});
    stage
        .world
        .patch_pipeline("app", json!({"spec": spec}))
        .await;
}

#[tokio::test]
async fn clusters_that_cannot_be_reached_report() {
    for detect in [Detect::Watch, Detect::Webhook] {
        let stage = Stage::new().await;
        stage.begin(&json!({})).await;
        move_out_of_reach(&stage).await;
        let settings = Settings {
            detect,
            ..stage.settings()
        };
        stage.start_with(settings).await;
        let stop = CancellationToken::new();
        let door = door(&stage, &stop);
        tell_signed(&door, "prod", "1.0.0").await;
        let code = tell_signed(&door, "dev", "1.1.0").await;
        assert!(matches!(code, 201 | 202), "{code}");
        stage.world.expect("prod 1.1.0 WaitingForMerge").await;
        stage.world.repository.merge(1).await.unwrap();
        stage.world.expect("prod 1.1.0 Deploying").await;
        tell_signed(&door, "prod", "1.1.0").await;
        stage.world.expect("prod 1.1.0 Succeeded/Deployed").await;
        stage.check(PullState::Merged, "1.1.0", "1.1.0").await;
        stage.kill().await;
        stop.cancel();
    }
}

/// The Weave project's own end-to-end test has an Alert in dev only.
#[tokio::test]
async fn only_dev_reports() {
    let stage = Stage::new().await;
    stage.begin(&json!({})).await;
    move_out_of_reach(&stage).await;
    let settings = Settings {
        detect: Detect::Webhook,
        ..stage.settings()
    };
    stage.start_with(settings).await;
    let stop = CancellationToken::new();
    let door = door(&stage, &stop);
    tell_signed(&door, "dev", "1.1.0").await;
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    stage.world.repository.merge(1).await.unwrap();
    let ended = stage
        .world
        .expect("prod 1.1.0 Succeeded/NothingReports")
        .await;
    let status = ended[0].status.clone().unwrap();
    assert!(
        status
            .message
            .unwrap()
            .contains("nothing reports from prod")
    );
    assert_eq!(
        tell_signed(&door, "dev", "1.1.0").await,
        201,
        "the same event again"
    );
    let pipeline = stage.world.pipelines().get("app").await.unwrap();
    let prod = pipeline.status.unwrap().environments["prod"].clone();
    assert_eq!((prod.hold, prod.targets[0].ready), (None, false));
    stage.kill().await;
    stop.cancel();
}
