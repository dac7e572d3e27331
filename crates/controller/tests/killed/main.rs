//! The leader of two processes is killed again and again while it rolls out to 200 clusters.
//!
//! Whoever receives the calls keeps a ledger: no target is started twice, never are more changing than
//! `maxConcurrent`, and none is started after a stop, whether too many failed or a person stopped it. A call
//! may come again after a death, but only with the same key and the same targets.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod fleet;
mod ledger;
#[path = "../../benches/fleet/objects.rs"]
mod objects;
mod replica;

use std::time::{Duration, Instant};

use fleet::Fleet;
use ledger::Random;
use replica::Replicas;

/// How many clusters there are.
const TARGETS: usize = 200;
/// How many of them may be changing at the same time.
const MAX_CONCURRENT: usize = 10;
/// With this batch a target fails, and with that one a person stops the rollout.
const FAILING_BATCH: usize = 4;
const STOPPED_BATCH: usize = 9;
/// How often the leader dies while the rollout is stopped.
const DEATHS_WHILE_STOPPED: usize = 2;
/// How often it must have died in all.
const LEAST_DEATHS: usize = 10;
/// How long everything may take, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(1200);

/// The process that is killed. Does nothing as a test.
#[test]
fn replica() {
    replica::run_if_asked();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute: cargo test --release -p sluice-controller --test killed -- --ignored"]
async fn nothing_is_started_twice_or_too_soon_whenever_the_leader_dies() {
    let fleet = Fleet::start().await;
    let mut replicas = Replicas::start(&fleet).await;
    fleet.until_observed().await;
    fleet.release().await;
    let mut random = Random::from_environment();
    let (began, mut stops) = (Instant::now(), 0);
    while !fleet.has_ended().await {
        assert!(began.elapsed() < PATIENCE, "{}", fleet.describe().await);
        fleet.ledger.assert_sound();
        replicas.kill_leader(&fleet, &mut random).await;
        if stops < 2 && fleet.is_to_stop(stops).await {
            stops += 1;
            stop_and_resume(&fleet, &mut replicas, &mut random, stops).await;
        }
    }
    fleet.ledger.assert_sound();
    let started = fleet.ledger.started();
    let deaths = replicas.deaths();
    eprintln!(
        "{deaths} deaths of the leader, {stops} stops, {} targets in {} batches, {} calls",
        started.len(),
        fleet.ledger.batches(),
        fleet.ledger.calls()
    );
    assert_eq!(started, fleet.stored_targets().await);
    // A rollout ends without clusters that cannot be reached, as on a machine that is too busy.
    let count = started.len();
    assert!(count > TARGETS / 2, "only {count} targets were started");
    assert_eq!(stops, 2);
    assert!(deaths >= LEAST_DEATHS, "{deaths}");
}

/// While it is stopped, nothing is started, whoever leads; then a person resumes it.
async fn stop_and_resume(
    fleet: &Fleet,
    replicas: &mut Replicas,
    random: &mut Random,
    number: usize,
) {
    if number == 2 {
        fleet.order("stop", "StopRollout").await;
    }
    fleet.until_stopped().await;
    fleet.ledger.set_stopped(true);
    for _ in 0..DEATHS_WHILE_STOPPED {
        replicas.kill_leader(fleet, random).await;
    }
    fleet.ledger.assert_sound();
    fleet.ledger.set_stopped(false);
    fleet
        .order(&format!("resume-{number}"), "ResumeRollout")
        .await;
    fleet.until_resumed().await;
}
