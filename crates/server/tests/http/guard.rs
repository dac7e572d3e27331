//! What nobody should get away with, and what must not happen twice.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use apiserver::FaultRates;
use http::{Method, Request};
use serde_json::json;
use server::Settings;

use crate::{
    loops::Strategy,
    world::{KEY, World, ask, event, sign, unlimited},
};

const DEV: &str = "/promotion/default/app/dev";

fn writes(calls: &[(Method, String)]) -> usize {
    calls
        .iter()
        .filter(|(method, _)| method != Method::GET)
        .count()
}

fn secret_reads(calls: &[(Method, String)]) -> usize {
    calls
        .iter()
        .filter(|(_, path)| path.contains("/secrets/"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_hook_delivered_five_times_is_stored_once() {
    let world = World::new().await;
    world.demand_signatures().await;
    world.promotes(Strategy::Opens);
    let body = event("app-dev", "5.0.0").to_string();
    let signature = sign(KEY, &body);
    world.calls();
    for _ in 0..5 {
        let answer = world.post_signed(DEV, &body, &signature).await;
        assert_eq!(answer.code, 201);
    }
    assert_eq!(writes(&world.calls()), 1);
    assert_eq!(world.promotions().await.len(), 1);
    let replica = world.replica();
    let request = Request::post(DEV)
        .header("X-Signature", &signature)
        .body(body);
    assert_eq!(ask(&replica, request).await.code, 201, "any replica");
    assert_eq!(world.promotions().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn wrong_signatures_cost_one_read_in_ten_seconds_and_no_write() {
    let world = World::new().await;
    world.demand_signatures().await;
    let body = event("app-dev", "5.0.0").to_string();
    world.calls();
    let wrong = sign("another key", &body);
    for _ in 0..100 {
        let calls = (0..10).map(|_| world.post_signed(DEV, &body, &wrong));
        for answer in futures::future::join_all(calls).await {
            assert_eq!(answer.code, 401);
        }
    }
    let calls = world.calls();
    assert_eq!((secret_reads(&calls), writes(&calls)), (1, 0));
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(world.post_signed(DEV, &body, &wrong).await.code, 401);
    assert_eq!(secret_reads(&world.calls()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_is_remembered_too() {
    let world = World::new().await;
    let secret = json!({"strategy": {"secretRef": {"name": "keys"}}});
    world.edit(json!({"spec": {"promotion": secret}})).await;
    world.calls();
    let body = event("app-dev", "5.0.0").to_string();
    for _ in 0..20 {
        assert_eq!(
            world.post_signed(DEV, &body, &sign(KEY, &body)).await.code,
            401
        );
    }
    assert_eq!(secret_reads(&world.calls()), 1);
    world.create_key("keys", KEY).await;
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(
        world.post_signed(DEV, &body, &sign(KEY, &body)).await.code,
        202
    );
}

#[tokio::test(start_paused = true)]
async fn an_older_event_changes_nothing() {
    let world = World::new().await;
    for (at, revision) in [
        ("12:00:05", "2.0.0"),
        ("12:00:01", "1.0.0"),
        ("12:00:09", "3.0.0"),
    ] {
        let mut event = event("app-dev", revision);
        event["timestamp"] = json!(format!("2026-02-08T{at}Z"));
        assert_eq!(world.post(DEV, &event.to_string()).await.code, 202);
        let report = &world.pipeline().await.status.unwrap().reports["dev/-/app-dev"];
        assert_ne!(report.revision, "1.0.0");
    }
    let report = &world.pipeline().await.status.unwrap().reports["dev/-/app-dev"];
    assert_eq!(report.revision, "3.0.0");
}

#[tokio::test(start_paused = true)]
async fn an_event_from_the_far_future_does_not_outlast_later_ones() {
    let clock = runtime::Clock::start();
    let world = World::new().await;
    for (at, revision) in [
        ("2999-01-01T00:00:00Z", "1.0.0"),
        ("2999-01-02T00:00:00Z", "2.0.0"),
    ] {
        let mut event = event("app-dev", revision);
        event["timestamp"] = json!(at);
        world.post(DEV, &event.to_string()).await;
    }
    let report = &world.pipeline().await.status.unwrap().reports["dev/-/app-dev"];
    assert_eq!(report.revision, "2.0.0");
    // The server's clock is another one.
    let soon = clock.now() + std::time::Duration::from_secs(3600);
    assert!(report.at.as_ref().unwrap().0 <= soon);
}

#[tokio::test(start_paused = true)]
async fn one_object_does_not_speak_for_two_environments() {
    let world = World::new().await;
    assert_eq!(
        world
            .post(DEV, &event("app-dev", "5.0.0").to_string())
            .await
            .code,
        202
    );
    let mut copied = event("app-prod", "5.0.0");
    copied["involvedObject"]["uid"] = json!("uid-of-app-dev");
    let answer = world
        .post("/promotion/default/app/prod", &copied.to_string())
        .await;
    assert_eq!(answer.code, 422);
    let reports = world.pipeline().await.status.unwrap().reports;
    assert_eq!(reports.keys().collect::<Vec<_>>(), ["dev/-/app-dev"]);
}

#[tokio::test(start_paused = true)]
async fn a_report_goes_to_its_target_or_else_to_the_environment() {
    let on = |name: &str| json!({"kind": "GitopsCluster", "name": name});
    let two = json!([
        {"namespace": "shared", "clusterRef": on("east")},
        {"namespace": "shared", "clusterRef": {
            "kind": "GitopsCluster", "name": "west", "namespace": "clusters",
        }},
        {"namespace": "alone", "clusterRef": on("east")},
        {"namespace": "hub"},
    ]);
    let environments = json!([
        {"name": "dev", "targets": two},
        {"name": "prod", "targets": [{"namespace": "app-prod"}]},
    ]);
    for (namespace, cluster, key) in [
        ("shared", Some("east"), "dev/east/shared"),
        ("shared", Some("west"), "dev/clusters.west/shared"),
        ("shared", Some("clusters/west"), "dev/clusters.west/shared"),
        ("shared", Some("north"), "dev"),
        ("shared", None, "dev"),
        ("alone", None, "dev/east/alone"),
        ("alone", Some("west"), "dev"),
        ("hub", None, "dev/-/hub"),
        ("hub", Some("management"), "dev/-/hub"),
    ] {
        let world = World::new().await;
        world
            .edit(json!({"spec": {"environments": environments}}))
            .await;
        let mut event = event(namespace, "5.0.0");
        if let Some(cluster) = cluster {
            event["metadata"]["cluster"] = json!(cluster);
        }
        assert_eq!(world.post(DEV, &event.to_string()).await.code, 202);
        let reports = world.pipeline().await.status.unwrap().reports;
        let keys: Vec<_> = reports.keys().collect();
        assert_eq!(keys, [key], "{namespace} on {cluster:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_is_bounded() {
    let world = World::new().await;
    let mut long = event("app-dev", "5.0.0");
    for field in ["message", "reason", "severity"] {
        long[field] = json!("ü".repeat(5000));
    }
    long["involvedObject"]["uid"] = json!("u".repeat(5000));
    assert_eq!(world.post(DEV, &long.to_string()).await.code, 202);
    let report = &world.pipeline().await.status.unwrap().reports["dev/-/app-dev"];
    assert!(serde_json::to_vec(report).unwrap().len() < 2048);
    for revision in ["v".repeat(257), "a\u{7}b".to_owned()] {
        let answer = world
            .post(DEV, &event("app-dev", &revision).to_string())
            .await;
        assert_eq!(answer.code, 422);
    }
    let body = " ".repeat(1 << 20) + &event("app-dev", "5.0.0").to_string();
    assert_eq!(world.post(DEV, &body).await.code, 413);
}

#[tokio::test(start_paused = true)]
async fn what_an_old_report_said_more_does_not_stay() {
    let world = World::new().await;
    world
        .post(DEV, &event("app-dev", "5.0.0").to_string())
        .await;
    let mut plain = event("app-dev", "5.0.1");
    plain.as_object_mut().unwrap().remove("reason");
    world.post(DEV, &plain.to_string()).await;
    let report = world.pipeline().await.status.unwrap().reports["dev/-/app-dev"].clone();
    assert_eq!((report.revision.as_str(), report.reason), ("5.0.1", None));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_targets_at_once_are_all_stored() {
    let world = World::new().await;
    let targets: Vec<_> = (0..100)
        .map(|it| json!({"namespace": format!("ns-{it}")}))
        .collect();
    let environments = json!([
        {"name": "dev", "targets": targets},
        {"name": "prod", "targets": [{"namespace": "app-prod"}]},
    ]);
    world
        .edit(json!({"spec": {"environments": environments}}))
        .await;
    // Somebody else writes to the status all the time.
    world.promotes(Strategy::Opens);
    let calls = (0..100).map(|it| {
        let body = event(&format!("ns-{it}"), "5.0.0").to_string();
        let world = &world;
        async move { world.post(DEV, &body).await.code }
    });
    for code in futures::future::join_all(calls).await {
        assert!(code.is_success(), "{code}");
    }
    assert_eq!(world.pipeline().await.status.unwrap().reports.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_with_success_is_stored_whatever_the_api_does() {
    let settings = Settings {
        wait: Duration::ZERO,
        ..unlimited()
    };
    let world = World::with(settings).await;
    for seed in 0..100 {
        let revision = format!("1.{seed}.0");
        let mut event = event("app-dev", &revision);
        let at = jiff::Timestamp::from_second(1_700_000_000 + seed).unwrap();
        event["timestamp"] = json!(at);
        world.server.inject_faults(FaultRates {
            seed: seed.unsigned_abs(),
            conflict: 0.4,
            server_error: 0.2,
            timeout: 0.2,
            dropped_watch: 0.2,
            stale_list: 0.2,
        });
        let code = world.post(DEV, &event.to_string()).await.code;
        world.server.inject_faults(FaultRates::default());
        assert!(code == 202 || code == 500, "seed {seed}: {code}");
        let status = world.pipeline().await.status.unwrap_or_default();
        let stored = status.reports.get("dev/-/app-dev");
        let is_stored = stored.is_some_and(|report| report.revision == revision);
        assert!(
            is_stored || code == 500,
            "seed {seed}: answered {code}, not stored"
        );
    }
}

fn limited() -> Settings {
    Settings {
        rate_limit: 3,
        wait: Duration::ZERO,
        ..unlimited()
    }
}

#[tokio::test(start_paused = true)]
async fn unauthenticated_requests_are_limited_by_address_and_signed_ones_by_pipeline() {
    let world = World::with(limited()).await;
    world.demand_signatures().await;
    let body = event("app-dev", "5.0.0").to_string();
    for code in [401, 401, 401, 429] {
        let answer = world.post_signed(DEV, &body, "sha256=00").await;
        assert_eq!(answer.code.as_u16(), code);
        if code == 429 {
            let date = answer.headers["retry-after"].to_str().unwrap();
            assert!(date.ends_with(" GMT"), "{date}");
            assert_eq!(answer.body, "");
        }
    }
    assert_eq!(world.post(DEV, &body).await.code, 429, "unsigned");
    let nowhere = world
        .post_signed("/promotion/default/other/dev", &body, "sha256=00")
        .await;
    assert_eq!(nowhere.code, 429);
    // The pipeline has two targets: twice the limit, whatever the address did.
    for code in [202, 202, 202, 202, 202, 202, 429] {
        let answer = world.post_signed(DEV, &body, &sign(KEY, &body)).await;
        assert_eq!(answer.code.as_u16(), code);
    }
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(world.post(DEV, &body).await.code, 401);
}

#[tokio::test(start_paused = true)]
async fn the_limit_comes_before_everything_else() {
    let world = World::with(limited()).await;
    for _ in 0..3 {
        world.post("/promotion/", "").await;
    }
    let get = ask(&world.hooks, Request::get(DEV).body(String::new())).await;
    assert_eq!(get.code, 429);
    assert_eq!(
        world.post("/healthz", "").await.code,
        200,
        "probes are not limited"
    );
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn keys_and_signatures_are_neither_answered_nor_logged() {
    let log = Log::default();
    let writer = log.clone();
    // With only one subscriber, whichever test comes by first decides whether a line is of interest.
    let _other = tracing::Dispatch::new(tracing_subscriber::fmt().finish());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // For all threads: what is only for this one can be lost while other tests log without it.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let world = World::new().await;
    world.create_key("keys", "a-very-secret-key").await;
    let secret = json!({"strategy": {"secretRef": {"name": "keys"}}});
    world.edit(json!({"spec": {"promotion": secret}})).await;
    let body = event("app-dev", "5.0.0").to_string();
    let valid = sign("a-very-secret-key", &body);
    for signature in ["sha256=00", &valid] {
        let answer = world.post_signed(DEV, &body, signature).await;
        assert!(!answer.body.contains("secret"));
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("hook"), "something was logged");
    assert!(!log.contains("a-very-secret-key"));
    assert!(!log.contains(valid.split_once('=').unwrap().1));
}
