//! Two replicas on a Kubernetes API: one leads, says so in an Event, hands over at once, and the
//! other goes on.
//!
//! Runs on the embedded API, or with `SLUICE_TEST_API=real` and `KUBEBUILDER_ASSETS` on a real one.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use std::{collections::BTreeMap, time::Duration};

use controller::{Context, Metrics, Settings, controllers::Controller, run::run_controllers};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, ObjectReference},
        events::v1::Event,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, PostParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use runtime::{
    events::{EventSeverity, ObjectEvent},
    leader::{LeaderElection, LeaseTiming},
};
use testbed::real::{Assets, ControlPlane};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(30);

async fn api() -> (Client, Option<ControlPlane>) {
    let is_real = std::env::var("SLUICE_TEST_API").is_ok_and(|api| api == "real");
    let server = match is_real {
        true => Some(
            ControlPlane::start(&Assets::from_env().unwrap())
                .await
                .unwrap(),
        ),
        false => None,
    };
    let client = match &server {
        Some(server) => server.client(),
        None => apiserver::Server::in_memory().client(),
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crds() {
        let created = definitions
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
        let is_there = is_crd_established();
        await_condition(definitions.clone(), &created.name_any(), is_there)
            .await
            .unwrap();
    }
    (client, server)
}

fn settings(identity: &str) -> Settings {
    Settings {
        election: Some(LeaderElection {
            namespace: "default".to_owned(),
            name: "shard".to_owned(),
            identity: identity.to_owned(),
            timing: LeaseTiming::default(),
        }),
        probe_address: Some("127.0.0.1:0".parse().unwrap()),
        metrics_address: Some("127.0.0.1:0".parse().unwrap()),
        ..Settings::default()
    }
}

fn news(regarding: ObjectReference, note: &str) -> ObjectEvent {
    ObjectEvent {
        regarding,
        severity: EventSeverity::Info,
        reason: "Promote".to_owned(),
        action: "Promote".to_owned(),
        note: note.to_owned(),
        metadata: BTreeMap::from([("revision".to_owned(), "6.1.6".to_owned())]),
    }
}

/// A loop that tells who leads, and records three events, two of them the same.
fn announce(object: ConfigMap, leaders: mpsc::UnboundedSender<String>) -> Controller {
    Controller::new("announce", move |context: Context| {
        let about = object.object_ref(&());
        let leaders = leaders.clone();
        async move {
            let identity = context.settings.election.clone().unwrap().identity;
            let permit = context.leader.permit(Duration::from_secs(10))?;
            assert!(permit.fencing_token.is_some());
            for note in ["to v2", "to v2", "to v3"] {
                let note = format!("{identity} {note}");
                context.events.record(news(about.clone(), &note));
            }
            leaders.send(identity)?;
            context.stop.cancelled().await;
            Ok(())
        }
    })
}

#[tokio::test]
async fn one_leads_hands_over_at_once_and_the_other_goes_on() {
    let (client, _server) = api().await;
    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut object = ConfigMap::default();
    object.meta_mut().name = Some("podinfo".to_owned());
    let object = objects
        .create(&PostParams::default(), &object)
        .await
        .unwrap();

    let (leaders, mut led) = mpsc::unbounded_channel();
    let start = |identity: &str| {
        let shutdown = CancellationToken::new();
        let loops = vec![announce(object.clone(), leaders.clone())];
        let told = shutdown.clone();
        let process = run_controllers(
            client.clone(),
            settings(identity),
            Metrics::new(),
            told,
            loops,
        );
        (shutdown, tokio::spawn(process))
    };
    let (shutdown_first, first) = start("first");
    assert_eq!(timeout(SOON, led.recv()).await.unwrap().unwrap(), "first");
    let (shutdown_second, second) = start("second");
    shutdown_first.cancel();
    // A crash would take longer than that.
    assert_eq!(timeout(SOON, led.recv()).await.unwrap().unwrap(), "second");
    timeout(SOON, first).await.unwrap().unwrap().unwrap();
    shutdown_second.cancel();
    timeout(SOON, second).await.unwrap().unwrap().unwrap();

    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let lease = leases.get("shard").await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.unwrap_or_default(), "");
    assert_eq!(lease.lease_transitions, Some(1));

    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let mut seen: Vec<_> = events
        .iter()
        .filter(|event| event.reporting_controller.as_deref() == Some("pipeline-controller"))
        .map(|event| {
            let count = event.series.as_ref().map_or(1, |series| series.count);
            (event.note.clone().unwrap(), count)
        })
        .collect();
    seen.sort();
    let expected = [
        ("first to v2", 2),
        ("first to v3", 1),
        ("second to v2", 2),
        ("second to v3", 1),
    ];
    assert_eq!(seen, expected.map(|(note, count)| (note.to_owned(), count)));
}
