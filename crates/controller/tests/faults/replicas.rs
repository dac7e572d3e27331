//! Several processes and one Lease: only the leader has side effects.

use std::{sync::Arc, time::Duration};

use controller::{Metrics, Settings, run::Error};
use runtime::leader::{LeaderElection, LeaseTiming};
use serde_json::json;
use testbed::forge::PullState;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    fault_injector::{FaultInjector, HeldPart, Log},
    journeys::Stage,
};

/// A process that leads or waits to.
struct Replica {
    injector: Arc<FaultInjector>,
    stop: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Replica {
    fn start(stage: &Stage, name: &'static str, log: &Log) -> Self {
        let injector = FaultInjector::telling(name, log);
        let terms = [6000, 4000, 500].map(Duration::from_millis);
        let election = LeaderElection {
            namespace: "default".to_owned(),
            name: "sluice".to_owned(),
            identity: name.to_owned(),
            timing: LeaseTiming::new(terms[0], terms[1], terms[2]).unwrap(),
        };
        let settings = Settings {
            election: Some(election),
            git_folder: None, // each has its own
            ..stage.settings()
        };
        let (hub, stop) = (
            injector.before_hub(&stage.world.hub),
            CancellationToken::new(),
        );
        let running = controller::run(hub, settings, Metrics::new(), stop.clone());
        Self {
            injector,
            stop,
            running: tokio::spawn(running),
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }
}

/// Who wrote to the hub, each once per time in a row. Leases are written by all, and events may be
/// late.
fn actors(log: &Log) -> Vec<&'static str> {
    let log = log.lock().unwrap();
    let is_act = |path: &str| path.contains("pipelines.weave.works");
    let acts = log.iter().filter(|(_, path)| is_act(path));
    let mut actors: Vec<_> = acts.map(|(name, _)| *name).collect();
    actors.dedup();
    actors
}

/// One hands over in order, amid a push; the next can no longer renew its Lease, amid a push, and
/// could do everything else.
#[tokio::test]
async fn two_replicas_during_a_hand_over() {
    let (stage, log) = (Stage::new().await, Log::default());
    stage.begin(&json!({})).await;
    let first = Replica::start(&stage, "first", &log);
    stage.world.expect_hold("app", "prod", "").await;
    let second = Replica::start(&stage, "second", &log);
    stage
        .injector
        .hold_next("/git-receive-pack", HeldPart::Effect);
    stage.deploy("dev", "1.1.0").await;
    stage.injector.holds().await;
    first.end().await;
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    stage.injector.release();
    stage.world.repository.merge(1).await.unwrap();
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    stage.check(PullState::Merged, "1.1.0", "1.1.0").await;
    assert_eq!(actors(&log), ["first", "second"]);

    let third = Replica::start(&stage, "third", &log);
    stage
        .injector
        .hold_next("/git-receive-pack", HeldPart::Effect);
    stage.deploy("dev", "1.2.0").await;
    stage.injector.holds().await;
    second.injector.lose("/leases/");
    let merged = "prod 1.1.0 Succeeded, prod 1.2.0";
    stage
        .world
        .expect(&format!("{merged} WaitingForMerge"))
        .await;
    stage.injector.release();
    stage.world.repository.merge(2).await.unwrap();
    stage.sync().await;
    stage.world.expect(&format!("{merged} Succeeded")).await;
    assert_eq!(stage.world.repository.pull_requests().await.len(), 2);
    let creations = stage.injector.effects();
    let creations = creations.iter().filter(|it| it.ends_with("/pulls")).count();
    assert_eq!(creations, 2, "one for each promotion");
    assert_eq!(actors(&log), ["first", "second", "third"]);
    second.running.abort();
    third.end().await;
}
