//! Elections under a paused clock: by hand, and under seeded weather.

mod weather;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use apiserver::Server;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    FencingToken, HeldLease, InvalidLeaseTiming, LeaderElection, LeaderGuard, LeaseTiming,
};

const SECOND: Duration = Duration::from_secs(1);

fn election(identity: &str) -> LeaderElection {
    LeaderElection {
        namespace: "default".to_owned(),
        name: "shard".to_owned(),
        identity: identity.to_owned(),
        // Long ones, so that what the tests time is told apart.
        timing: LeaseTiming::new(SECOND * 35, SECOND * 30, SECOND * 5).unwrap(),
    }
}

/// One process that runs for the Lease; cancelling the token is its orderly end.
struct Candidate {
    leader: LeaderGuard,
    release: CancellationToken,
    elector: JoinHandle<()>,
}

impl Candidate {
    fn start(client: Client, identity: &str) -> Self {
        let release = CancellationToken::new();
        let (leader, elector) = LeaderGuard::elect(client, election(identity), release.clone());
        Self {
            leader,
            release,
            elector,
        }
    }

    fn leads(&self) -> bool {
        self.leader.permit(Duration::ZERO).is_ok()
    }
}

async fn stored(server: &Server) -> Lease {
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    leases.get("shard").await.unwrap()
}

async fn holder(server: &Server) -> String {
    let spec = stored(server).await.spec.unwrap();
    spec.holder_identity.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_at_once_and_stays() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    timeout(SECOND, first.leader.acquired()).await.unwrap();
    let second = Candidate::start(server.client(), "second");
    for _ in 0..600 {
        sleep(SECOND).await;
        assert!(first.leads() && !second.leads());
        assert!(first.leader.remaining() > Duration::from_secs(25));
        assert_eq!(second.leader.remaining(), Duration::ZERO);
    }
    assert_eq!(holder(&server).await, "first");
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_hands_over_at_once() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leader.acquired().await;
    let second = Candidate::start(server.client(), "second");
    // Not when the second would look anyway.
    sleep(Duration::from_millis(12_345)).await;
    let before = Instant::now();
    first.release.cancel();
    second.leader.acquired().await;
    assert!(before.elapsed() < Duration::from_millis(100));
    assert_eq!(first.leader.remaining(), Duration::ZERO);
    first.elector.await.unwrap();
    assert_eq!(holder(&server).await, "second");
}

#[tokio::test(start_paused = true)]
async fn a_crash_is_followed_by_the_next_after_the_lease_has_run_out() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leader.acquired().await;
    let fence = first.leader.permit(SECOND).unwrap().fencing_token.unwrap();
    let second = Candidate::start(server.client(), "second");
    sleep(Duration::from_secs(7)).await;
    first.elector.abort();
    let crashed = Instant::now();
    second.leader.acquired().await;
    let waited = crashed.elapsed();
    assert!(waited > Duration::from_secs(30) && waited < Duration::from_secs(46));
    let next = second.leader.permit(SECOND).unwrap().fencing_token.unwrap();
    assert_eq!(next.lease, fence.lease);
    assert_eq!(next.transitions, fence.transitions + 1);
}

/// Also one that would itself hold the Lease for a shorter time, such as after a change of the flags.
#[tokio::test(start_paused = true)]
async fn a_candidate_waits_as_long_as_the_holder_asked_for() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leader.acquired().await;
    first.elector.abort();
    let crashed = Instant::now();
    let mut hasty = election("hasty");
    hasty.timing = LeaseTiming::new(SECOND * 5, SECOND * 4, SECOND).unwrap();
    let (second, _elector) = LeaderGuard::elect(server.client(), hasty, CancellationToken::new());
    second.acquired().await;
    let waited = crashed.elapsed();
    assert!(
        waited > Duration::from_secs(30) && waited < Duration::from_secs(40),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn leading_ends_with_the_time_even_if_the_elector_is_dead() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leader.acquired().await;
    first.elector.abort();
    let ended = timeout(Duration::from_secs(35), first.leader.lost()).await;
    assert!(ended.is_ok() && !first.leads());
}

#[tokio::test(start_paused = true)]
async fn no_permit_without_time_for_the_act() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leader.acquired().await;
    first.elector.abort();
    assert!(first.leader.permit(Duration::from_secs(30)).is_ok());
    sleep(Duration::from_secs(20)).await;
    assert!(first.leader.permit(Duration::from_secs(14)).is_ok());
    let refused = first.leader.permit(Duration::from_secs(15)).unwrap_err();
    assert!(refused.remaining < Duration::from_secs(15));
    sleep(Duration::from_secs(15)).await;
    assert!(first.leader.permit(Duration::ZERO).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_hand_ends_the_leader() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leader.acquired().await;
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    let by_hand = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    leases
        .patch("shard", &PatchParams::default(), &by_hand)
        .await
        .unwrap();
    timeout(Duration::from_secs(11), first.leader.lost())
        .await
        .unwrap();
    assert_eq!(holder(&server).await, "somebody");
    // And it comes back when that one is silent.
    timeout(Duration::from_secs(60), first.leader.acquired())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_not_taken_from_a_holder_that_does_not_know() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leader.acquired().await;
    let second = Candidate::start(server.client(), "second");
    sleep(Duration::from_secs(12)).await;
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    leases
        .delete("shard", &DeleteParams::default())
        .await
        .unwrap();
    for _ in 0..100 {
        sleep(SECOND).await;
        assert!(first.leads() && !second.leads());
    }
    assert_eq!(holder(&server).await, "first");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_still_or_goes_back_does_not_lose_the_lease() {
    let server = Server::in_memory();
    let is_back = Arc::new(AtomicBool::new(false));
    let wall = {
        let is_back = is_back.clone();
        move || match is_back.load(Ordering::Relaxed) {
            false => "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap(),
            true => "1999-01-01T00:00:00Z".parse().unwrap(),
        }
    };
    let (first, _elector) = LeaderGuard::without_election().elect_with_wall_clock(
        server.client(),
        election("first"),
        CancellationToken::new(),
        Arc::new(wall),
    );
    first.acquired().await;
    let second = Candidate::start(server.client(), "second");
    for round in 0..200 {
        is_back.store(round > 100, Ordering::Relaxed);
        sleep(SECOND).await;
        assert!(first.permit(SECOND).is_ok() && !second.leads());
    }
}

#[tokio::test(start_paused = true)]
async fn below_another_the_lease_is_held_only_while_that_is() {
    let server = Server::in_memory();
    let (held, lease) = watch::channel(None);
    let above = LeaderGuard::without_election().and_lease(lease);
    let release = CancellationToken::new();
    let (both, _elector) = above.elect_below(server.client(), election("first"), release.clone());
    sleep(SECOND * 60).await;
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    assert!(leases.get_opt("shard").await.unwrap().is_none());
    for _ in 0..2 {
        held.send_replace(Some(HeldLease {
            fencing_token: FencingToken {
                lease: "above".to_owned(),
                transitions: 7,
            },
            expires_at: Instant::now() + SECOND * 20,
        }));
        both.acquired().await;
        assert!(both.permit(SECOND * 21).is_err());
        assert_ne!(
            both.permit(SECOND * 10)
                .unwrap()
                .fencing_token
                .unwrap()
                .lease,
            "above"
        );
        assert_eq!(holder(&server).await, "first");
        held.send_replace(None);
        both.lost().await;
        assert!(both.permit(Duration::ZERO).is_err());
        timeout(SECOND, async {
            while !holder(&server).await.is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_election_there_is_always_time() {
    let leader = LeaderGuard::without_election();
    leader.acquired().await;
    assert!(leader.permit(Duration::from_secs(3600)).is_ok());
    let ended = timeout(Duration::from_secs(3600), leader.lost()).await;
    assert!(ended.is_err());
}

#[test]
fn a_side_effect_may_take_what_two_retries_leave_of_the_lease() {
    let usual = LeaseTiming::default();
    assert_eq!(usual.duration(), Duration::from_secs(15));
    assert_eq!(usual.longest_side_effect(), Duration::from_millis(10_700));
}

#[test]
fn terms_that_cannot_work_are_refused() {
    let terms = |duration, deadline, retry| {
        LeaseTiming::new(
            Duration::from_millis(duration),
            Duration::from_millis(deadline),
            Duration::from_millis(retry),
        )
        .map(drop)
    };
    assert_eq!(terms(15_000, 10_000, 2_000), Ok(()));
    assert_eq!(terms(0, 0, 0), Err(InvalidLeaseTiming::NotWholeSeconds));
    assert_eq!(
        terms(1_500, 1_000, 100),
        Err(InvalidLeaseTiming::NotWholeSeconds)
    );
    assert_eq!(
        terms(10_000, 10_000, 2_000),
        Err(InvalidLeaseTiming::NoTimeToStop)
    );
    assert_eq!(
        terms(10_000, 9_900, 2_000),
        Err(InvalidLeaseTiming::NoTimeToStop)
    );
    assert_eq!(
        terms(15_000, 10_000, 6_000),
        Err(InvalidLeaseTiming::NoTimeToRetry)
    );
    assert_eq!(
        terms(15_000, 10_000, 0),
        Err(InvalidLeaseTiming::NoTimeToRetry)
    );
}

/// A leader that was killed is replaced within the Lease and one retry.
#[tokio::test(start_paused = true)]
async fn by_the_usual_terms_a_standby_leads_within_seconds_of_a_crash() {
    let server = Server::in_memory();
    let usual = |identity| LeaderElection {
        timing: LeaseTiming::default(),
        ..election(identity)
    };
    let candidate = |identity| {
        let release = CancellationToken::new();
        LeaderGuard::elect(server.client(), usual(identity), release)
    };
    let (first, elector) = candidate("first");
    first.acquired().await;
    let (second, _elector) = candidate("second");
    sleep(SECOND * 60).await;
    assert!(second.remaining().is_zero());
    elector.abort();
    let crashed = Instant::now();
    second.acquired().await;
    let took = crashed.elapsed();
    assert!(took <= SECOND * 18, "{took:?}");
    assert!(first.remaining().is_zero(), "never two at once");
}
