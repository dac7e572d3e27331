use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::Server;
use k8s_openapi::{
    api::coordination::v1::Lease,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use runtime::leader::{LeaderElection, LeaseTiming};

async fn install_definitions(server: &Server) {
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    for crd in api::crds() {
        definitions
            .create(&PostParams::default(), &crd)
            .await
            .unwrap();
    }
}

fn settings(identity: &str) -> Settings {
    Settings {
        election: Some(LeaderElection {
            namespace: "default".to_owned(),
            name: "shard".to_owned(),
            identity: identity.to_owned(),
            timing: LeaseTiming::default(),
        }),
        ..Settings::default()
    }
}

/// Who runs a loop right now, and how often loops were started.
#[derive(Clone, Default)]
struct Diary {
    running: Arc<Mutex<Vec<String>>>,
    starts: Arc<AtomicUsize>,
}

impl Diary {
    /// A loop that notes when it runs, and takes a while to end.
    fn a_loop(&self) -> Controller {
        let diary = self.clone();
        Controller::new("diary", move |context: Context| {
            let diary = diary.clone();
            async move {
                let identity = context.settings.election.clone().unwrap().identity;
                diary.starts.fetch_add(1, Ordering::SeqCst);
                diary.running.lock().push(identity.clone());
                context.stop.cancelled().await;
                sleep(Duration::from_millis(300)).await;
                diary.running.lock().retain(|running| *running != identity);
                Ok(())
            }
        })
    }

    async fn until_running(&self, identity: &str) {
        while *self.running.lock() != [identity] {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

struct Replica {
    shutdown: CancellationToken,
    metrics: Metrics,
    process: JoinHandle<Result<(), Error>>,
}

fn replica(server: &Server, identity: &str, loops: Vec<Controller>) -> Replica {
    let shutdown = CancellationToken::new();
    let metrics = Metrics::new();
    let process = tokio::spawn(run_controllers(
        server.client(),
        settings(identity),
        metrics.clone(),
        shutdown.clone(),
        loops,
    ));
    Replica {
        shutdown,
        metrics,
        process,
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_replica_takes_over_as_soon_as_the_loops_have_ended() {
    let server = Server::in_memory();
    install_definitions(&server).await;
    let diary = Diary::default();
    let first = replica(&server, "first", vec![diary.a_loop()]);
    diary.until_running("first").await;
    let second = replica(&server, "second", vec![diary.a_loop()]);
    sleep(Duration::from_secs(17)).await;
    let leads = r#"leader_election_master_status{name="shard"} 1"#;
    assert!(first.metrics.page().contains(leads));
    assert!(!second.metrics.page().contains(leads));

    let told = Instant::now();
    first.shutdown.cancel();
    diary.until_running("second").await;
    let took = told.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_secs(1),
        "{took:?}"
    );
    assert!(first.process.await.unwrap().is_ok());
    assert!(second.metrics.page().contains(leads));
    assert!(!first.metrics.page().contains(leads));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_loops_and_a_new_one_starts_them_anew() {
    let server = Server::in_memory();
    install_definitions(&server).await;
    let diary = Diary::default();
    let first = replica(&server, "first", vec![diary.a_loop()]);
    diary.until_running("first").await;
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    leases
        .patch("shard", &PatchParams::default(), &taken)
        .await
        .unwrap();
    while !diary.running.lock().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    diary.until_running("first").await;
    assert_eq!(diary.starts.load(Ordering::SeqCst), 2);
    assert!(!first.process.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_hangs_is_cut_off_and_the_lease_still_given_back() {
    let server = Server::in_memory();
    install_definitions(&server).await;
    let deaf = Controller::new("deaf", |_| std::future::pending());
    let first = replica(&server, "first", vec![deaf]);
    sleep(Duration::from_secs(1)).await;
    let told = Instant::now();
    first.shutdown.cancel();
    assert!(first.process.await.unwrap().is_ok());
    assert!(told.elapsed() < Duration::from_secs(10));
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    let lease = leases.get("shard").await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_fails_or_panics_ends_the_process_and_is_named() {
    let fails = || Controller::new("fails", async |_| Err("no more".into()));
    let panics = || Controller::new("panics", async |_| panic!("on purpose"));
    let steady = || Controller::new("steady", |_| std::future::pending());
    for (bad, name) in [(fails(), "fails"), (panics(), "panics")] {
        let server = Server::in_memory();
        install_definitions(&server).await;
        let only = replica(&server, "only", vec![steady(), bad]);
        match only.process.await.unwrap() {
            Err(Error::ControllerEnded {
                name: named,
                source: Some(_),
            }) => assert_eq!(named, name),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_does_not_lead_before_the_definitions_are_there() {
    let server = Server::in_memory();
    let diary = Diary::default();
    let first = replica(&server, "first", vec![diary.a_loop()]);
    sleep(Duration::from_secs(600)).await;
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    assert!(leases.get_opt("shard").await.unwrap().is_none());
    install_definitions(&server).await;
    diary.until_running("first").await;
    first.shutdown.cancel();
    assert!(first.process.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn without_an_election_the_loops_run_at_once() {
    let server = Server::in_memory();
    install_definitions(&server).await;
    let (ran, was_run) = tokio::sync::oneshot::channel();
    let ran = Mutex::new(Some(ran));
    let once = Controller::new("once", move |context: Context| {
        ran.lock().take().unwrap().send(()).unwrap();
        async move {
            context.stop.cancelled().await;
            Ok(())
        }
    });
    let shutdown = CancellationToken::new();
    let process = tokio::spawn(run_controllers(
        server.client(),
        Settings::default(),
        Metrics::new(),
        shutdown.clone(),
        vec![once],
    ));
    was_run.await.unwrap();
    shutdown.cancel();
    assert!(process.await.unwrap().is_ok());
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    assert!(leases.get_opt("shard").await.unwrap().is_none());
}
