use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::{FaultRates, Server};
use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::Value;
use tokio::{net::TcpListener, sync::mpsc};

use super::*;

fn event(note: &str) -> ObjectEvent {
    ObjectEvent {
        regarding: ObjectReference {
            api_version: Some("pipelines.weave.works/v1alpha1".to_owned()),
            kind: Some("Pipeline".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some("podinfo".to_owned()),
            uid: Some("b1".to_owned()),
            ..ObjectReference::default()
        },
        severity: EventSeverity::Info,
        reason: "Promote".to_owned(),
        action: "Promote".to_owned(),
        note: note.to_owned(),
        metadata: BTreeMap::from([("revision".to_owned(), "6.1.6".to_owned())]),
    }
}

fn start(
    server: &Server,
    address: Option<&str>,
    metrics: &EventMetrics,
) -> (EventRecorder, Vec<JoinHandle<()>>) {
    start_with(server, address, &FluxEventFilter::All, metrics)
}

fn start_with(
    server: &Server,
    address: Option<&str>,
    filter: &FluxEventFilter,
    metrics: &EventMetrics,
) -> (EventRecorder, Vec<JoinHandle<()>>) {
    // Also for plain HTTP: the HTTP client sets TLS up in advance.
    testbed::tls::install_provider();
    let reporter = EventReporter {
        controller: "pipeline-controller".to_owned(),
        instance: "one".to_owned(),
    };
    let flux = address.map(|address| FluxReceiver { address, filter });
    EventRecorder::start(server.client(), reporter, flux, metrics.clone()).unwrap()
}

fn page(registry: &Registry) -> String {
    let mut page = String::new();
    text::encode(&mut page, registry).unwrap();
    page
}

/// Waits until everything queued is delivered.
async fn finish((recorder, tasks): (EventRecorder, Vec<JoinHandle<()>>)) {
    drop(recorder);
    for task in tasks {
        task.await.unwrap();
    }
}

async fn stored(server: &Server) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(server.client(), "default");
    let mut events = events.list(&ListParams::default()).await.unwrap().items;
    events.sort_by_key(|event| event.event_time.clone().map(|time| time.0));
    events
}

#[tokio::test(start_paused = true)]
async fn other_words_are_another_event_and_the_same_words_count() {
    let server = Server::in_memory();
    let started = start(&server, None, &EventMetrics::default());
    for note in ["to v2", "to v3", "to v2", "to v3", "to v3"] {
        started.0.record(event(note));
    }
    finish(started).await;
    let events = stored(&server).await;
    let seen: Vec<_> = events
        .iter()
        .map(|event| {
            let count = event.series.as_ref().map(|series| series.count);
            (event.note.as_deref().unwrap(), count)
        })
        .collect();
    // The third time within the minute is included in the next count.
    assert_eq!(seen, [("to v2", Some(2)), ("to v3", Some(2))]);
    let annotations = events[0].metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["pipelines.weave.works/revision"], "6.1.6");
    assert_eq!(events[0].type_.as_deref(), Some("Normal"));
    let written = &events[0];
    assert_eq!(written.reason.as_deref(), Some("Promote"));
    assert_eq!(written.action.as_deref(), Some("Promote"));
    assert_eq!(written.regarding, Some(event("").regarding));
    let controller = written.reporting_controller.as_deref();
    assert_eq!(controller, Some("pipeline-controller"));
    assert_eq!(written.reporting_instance.as_deref(), Some("one"));
}

#[tokio::test(start_paused = true)]
async fn counts_are_written_once_a_minute_and_silence_ends_a_series() {
    let server = Server::in_memory();
    let api: Api<Event> = Api::all(server.client());
    let list = api.list(&ListParams::default()).await.unwrap();
    let before: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
    let started = start(&server, None, &EventMetrics::default());
    for _ in 0..100 {
        started.0.record(event("cluster leaf does not answer"));
        sleep(Duration::from_secs(3)).await;
    }
    sleep(Duration::from_secs(11 * 60)).await;
    started.0.record(event("cluster leaf does not answer"));
    finish(started).await;
    let events = stored(&server).await;
    let counts: Vec<_> = events
        .iter()
        .map(|event| event.series.as_ref().map(|series| series.count))
        .collect();
    assert_eq!(counts, [Some(82), None]);
    // Written with the first, the second, and then once a minute: far fewer than a hundred changes.
    let version = events[0].metadata.resource_version.as_deref().unwrap();
    let writes = version.parse::<u64>().unwrap() - before;
    assert!(writes < 15, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn long_notes_and_names_are_cut_to_what_the_api_takes() {
    let server = Server::in_memory();
    let started = start(&server, None, &EventMetrics::default());
    let mut long = event(&"ü".repeat(2000));
    long.regarding.name = Some("p".repeat(253));
    started.0.record(long);
    finish(started).await;
    let events = stored(&server).await;
    let note = events[0].note.as_deref().unwrap();
    assert!(note.len() <= 1024 && note.ends_with("ü…"));
}

#[tokio::test(start_paused = true)]
async fn an_api_that_fails_now_and_then_still_gets_them_all() {
    let server = Server::in_memory();
    server.inject_faults(FaultRates {
        seed: 7,
        timeout: 0.2,
        ..FaultRates::default()
    });
    let mut registry = Registry::default();
    let metrics = EventMetrics::register(&mut registry);
    let started = start(&server, None, &metrics);
    for number in 0..50 {
        started.0.record(event(&format!("to v{number}")));
    }
    finish(started).await;
    server.inject_faults(FaultRates::default());
    assert_eq!(stored(&server).await.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_bounded_and_what_is_lost_is_counted() {
    let server = Server::in_memory();
    let mut registry = Registry::default();
    let metrics = EventMetrics::register(&mut registry);
    let started = start(&server, None, &metrics);
    // Nothing is delivered in between: this test never waits here.
    for number in 0..QUEUE + 500 {
        started.0.record(event(&format!("to v{number}")));
    }
    finish(started).await;
    assert_eq!(stored(&server).await.len(), QUEUE);
    let line = r#"sluice_events_lost_total{sink="kubernetes"} 500"#;
    let page = page(&registry);
    assert!(page.contains(line), "{page}");
}

#[derive(Clone)]
struct Notifications {
    received: mpsc::UnboundedSender<Value>,
    refuses: Arc<AtomicUsize>,
    with: StatusCode,
}

/// A stand-in for notification-controller that refuses the first few.
async fn notifications(
    refuses: usize,
    with: StatusCode,
) -> (String, mpsc::UnboundedReceiver<Value>) {
    let (received, events) = mpsc::unbounded_channel();
    let state = Notifications {
        received,
        refuses: Arc::new(AtomicUsize::new(refuses)),
        with,
    };
    let take = async |State(state): State<Notifications>, Json(event): Json<Value>| {
        let left = |left: usize| left.checked_sub(1);
        let is_refused = state
            .refuses
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
            .is_ok();
        if is_refused {
            return state.with;
        }
        state.received.send(event).unwrap();
        StatusCode::ACCEPTED
    };
    let router = Router::new().route("/", post(take)).with_state(state);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, events)
}

#[tokio::test]
async fn flux_hears_each_thing_once_with_keys_it_keeps() {
    let server = Server::in_memory();
    let (address, mut events) = notifications(0, StatusCode::OK).await;
    let started = start(&server, Some(&address), &EventMetrics::default());
    started.0.record(event("to v2"));
    started.0.record(event("to v2"));
    let mut bad = event("no cluster");
    bad.severity = EventSeverity::Error;
    started.0.record(bad);
    finish(started).await;
    let first = events.recv().await.unwrap();
    assert_eq!(first["severity"], "info");
    assert_eq!(first["message"], "to v2");
    assert_eq!(first["reason"], "Promote");
    assert_eq!(first["reportingController"], "pipeline-controller");
    assert_eq!(first["involvedObject"]["kind"], "Pipeline");
    assert_eq!(
        first["involvedObject"]["apiVersion"],
        "pipelines.weave.works/v1alpha1"
    );
    assert_eq!(first["metadata"]["pipelines.weave.works/revision"], "6.1.6");
    assert!(
        first["timestamp"]
            .as_str()
            .unwrap()
            .parse::<Timestamp>()
            .is_ok()
    );
    let second = events.recv().await.unwrap();
    assert_eq!(
        (&second["severity"], &second["message"]),
        (&"error".into(), &"no cluster".into())
    );
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn flux_is_told_again_after_a_failure_but_not_for_ever() {
    let server = Server::in_memory();
    let mut registry = Registry::default();
    let metrics = EventMetrics::register(&mut registry);
    let (address, mut events) = notifications(1, StatusCode::BAD_GATEWAY).await;
    let started = start(&server, Some(&address), &metrics);
    started.0.record(event("to v2"));
    finish(started).await;
    assert_eq!(events.recv().await.unwrap()["message"], "to v2");

    let (address, mut events) = notifications(1, StatusCode::BAD_REQUEST).await;
    let started = start(&server, Some(&address), &metrics);
    started.0.record(event("to v3"));
    started.0.record(event("to v4"));
    finish(started).await;
    assert_eq!(events.recv().await.unwrap()["message"], "to v4");
    let line = r#"sluice_events_lost_total{sink="flux"} 1"#;
    assert!(page(&registry).contains(line));
}

#[tokio::test]
async fn flux_hears_only_what_it_is_to_hear() {
    let server = Server::in_memory();
    let (address, mut events) = notifications(0, StatusCode::OK).await;
    let only = FluxEventFilter::Only(["Promote", "Closed"].map(str::to_owned).into());
    let started = start_with(&server, Some(&address), &only, &EventMetrics::default());
    for reason in ["Deployed", "Closed", "Updated", "Promote"] {
        let mut event = event(reason);
        event.reason = reason.to_owned();
        started.0.record(event);
    }
    finish(started).await;
    for expected in ["Closed", "Promote"] {
        assert_eq!(events.recv().await.unwrap()["reason"], expected);
    }
    assert!(events.try_recv().is_err());
    assert_eq!(stored(&server).await.len(), 4, "Kubernetes has them all");
}

/// Such as one that has expired on the hub.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_gone_is_written_anew_with_its_count() {
    let server = Server::in_memory();
    let started = start(&server, None, &EventMetrics::default());
    started.0.record(event("to v2"));
    sleep(Duration::from_secs(1)).await;
    let events: Api<Event> = Api::namespaced(server.client(), "default");
    let name = stored(&server).await[0].metadata.name.clone().unwrap();
    let parameters = kube::api::DeleteParams::default();
    events.delete(&name, &parameters).await.unwrap();
    started.0.record(event("to v2"));
    finish(started).await;
    let series = stored(&server).await[0].series.clone();
    assert_eq!(series.map(|it| it.count), Some(2));
}

/// Sends the same event; nothing, or why it was not sent.
async fn deliver_by(client: Client, flux: Option<&str>) -> Option<DeliveryError> {
    testbed::tls::install_provider();
    let sender = ReliableSender::new(client, "pipeline-controller", flux).unwrap();
    let at = Timestamp::UNIX_EPOCH;
    let sent = sender.deliver(event("to v2"), "podinfo.1".to_owned(), at);
    sent.await.err()
}

#[tokio::test]
async fn an_event_that_must_not_be_lost_is_sent_until_both_have_it() {
    let server = Server::in_memory();
    let (address, mut events) = notifications(1, StatusCode::BAD_GATEWAY).await;
    let deliver = || deliver_by(server.client(), Some(&address));
    let error = deliver().await.unwrap();
    let because =
        "cannot send the event to Flux's notification-controller: the response was 502 Bad Gateway";
    assert_eq!(
        (error.because.as_str(), error.is_retryable),
        (because, true)
    );
    assert!(deliver().await.is_none(), "Kubernetes has it already");
    assert_eq!(events.recv().await.unwrap()["message"], "to v2");
    assert_eq!(stored(&server).await.len(), 1);
}

#[tokio::test]
async fn an_event_that_kubernetes_refuses_is_not_sent_to_flux() {
    let server = Server::in_memory();
    let (address, mut events) = notifications(0, StatusCode::OK).await;
    let nobody = server.client_as(apiserver::User::new("nobody", &[]));
    let error = deliver_by(nobody, Some(&address)).await.unwrap();
    let begin = "cannot send the event to Kubernetes: ";
    assert!(error.because.starts_with(begin), "{}", error.because);
    assert!(!error.is_retryable);
    assert!(events.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_not_well_is_asked_three_times_and_longer_apart() {
    let server = Server::in_memory();
    server.inject_faults(FaultRates {
        server_error: 1.0,
        ..FaultRates::default()
    });
    let mut registry = Registry::default();
    let metrics = EventMetrics::register(&mut registry);
    let started = start(&server, None, &metrics);
    let began = tokio::time::Instant::now();
    started.0.record(event("to v2"));
    let finished = tokio::time::timeout(Duration::from_secs(600), finish(started)).await;
    finished.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    let line = r#"sluice_events_lost_total{sink="kubernetes"} 1"#;
    assert!(page(&registry).contains(line));
}
