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

use super::{BadTerms, Election, Fence, Leadership, Tenure, Terms};

const SECOND: Duration = Duration::from_secs(1);

fn election(identity: &str) -> Election {
    Election {
        namespace: "default".to_owned(),
        name: "shard".to_owned(),
        identity: identity.to_owned(),
        // Long ones, so that what the tests time is told apart.
        terms: Terms::new(SECOND * 35, SECOND * 30, SECOND * 5).unwrap(),
    }
}

/// One process that runs for the Lease; cancelling the token is its orderly end.
struct Candidate {
    leadership: Leadership,
    release: CancellationToken,
    campaign: JoinHandle<()>,
}

impl Candidate {
    fn start(client: Client, identity: &str) -> Self {
        let release = CancellationToken::new();
        let (leadership, campaign) =
            Leadership::campaign(client, election(identity), release.clone());
        Self {
            leadership,
            release,
            campaign,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.permit(Duration::ZERO).is_ok()
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
    timeout(SECOND, first.leadership.acquired()).await.unwrap();
    let second = Candidate::start(server.client(), "second");
    for _ in 0..600 {
        sleep(SECOND).await;
        assert!(first.leads() && !second.leads());
        assert!(first.leadership.remaining() > Duration::from_secs(25));
        assert_eq!(second.leadership.remaining(), Duration::ZERO);
    }
    assert_eq!(holder(&server).await, "first");
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_hands_over_at_once() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leadership.acquired().await;
    let second = Candidate::start(server.client(), "second");
    // Not when the second would look anyway.
    sleep(Duration::from_millis(12_345)).await;
    let before = Instant::now();
    first.release.cancel();
    second.leadership.acquired().await;
    assert!(before.elapsed() < Duration::from_millis(100));
    assert_eq!(first.leadership.remaining(), Duration::ZERO);
    first.campaign.await.unwrap();
    assert_eq!(holder(&server).await, "second");
}

#[tokio::test(start_paused = true)]
async fn a_crash_is_followed_by_the_next_after_the_lease_has_run_out() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leadership.acquired().await;
    let fence = first.leadership.permit(SECOND).unwrap().fence.unwrap();
    let second = Candidate::start(server.client(), "second");
    sleep(Duration::from_secs(7)).await;
    first.campaign.abort();
    let crashed = Instant::now();
    second.leadership.acquired().await;
    let waited = crashed.elapsed();
    assert!(waited > Duration::from_secs(30) && waited < Duration::from_secs(46));
    let next = second.leadership.permit(SECOND).unwrap().fence.unwrap();
    assert_eq!(next.lease, fence.lease);
    assert_eq!(next.transitions, fence.transitions + 1);
}

#[tokio::test(start_paused = true)]
async fn leading_ends_with_the_time_even_if_the_campaign_is_dead() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leadership.acquired().await;
    first.campaign.abort();
    let ended = timeout(Duration::from_secs(35), first.leadership.lost()).await;
    assert!(ended.is_ok() && !first.leads());
}

#[tokio::test(start_paused = true)]
async fn no_permit_without_time_for_the_act() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leadership.acquired().await;
    first.campaign.abort();
    assert!(first.leadership.permit(Duration::from_secs(30)).is_ok());
    sleep(Duration::from_secs(20)).await;
    assert!(first.leadership.permit(Duration::from_secs(14)).is_ok());
    let refused = first
        .leadership
        .permit(Duration::from_secs(15))
        .unwrap_err();
    assert!(refused.remaining < Duration::from_secs(15));
    sleep(Duration::from_secs(15)).await;
    assert!(first.leadership.permit(Duration::ZERO).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_hand_ends_the_leadership() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leadership.acquired().await;
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    let by_hand = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    leases
        .patch("shard", &PatchParams::default(), &by_hand)
        .await
        .unwrap();
    timeout(Duration::from_secs(11), first.leadership.lost())
        .await
        .unwrap();
    assert_eq!(holder(&server).await, "somebody");
    // And it comes back when that one is silent.
    timeout(Duration::from_secs(60), first.leadership.acquired())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_not_taken_from_a_holder_that_does_not_know() {
    let server = Server::in_memory();
    let first = Candidate::start(server.client(), "first");
    first.leadership.acquired().await;
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
    let (first, _campaign) = Leadership::unopposed().campaign_by(
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
    let (tenure, claim) = watch::channel(None);
    let above = Leadership::unopposed().and(claim);
    let release = CancellationToken::new();
    let (both, _campaign) =
        above.campaign_below(server.client(), election("first"), release.clone());
    sleep(SECOND * 60).await;
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    assert!(leases.get_opt("shard").await.unwrap().is_none());
    for _ in 0..2 {
        tenure.send_replace(Some(Tenure {
            fence: Fence {
                lease: "above".to_owned(),
                transitions: 7,
            },
            lapses: Instant::now() + SECOND * 20,
        }));
        both.acquired().await;
        assert!(both.permit(SECOND * 21).is_err());
        assert_ne!(
            both.permit(SECOND * 10).unwrap().fence.unwrap().lease,
            "above"
        );
        assert_eq!(holder(&server).await, "first");
        tenure.send_replace(None);
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
    let leadership = Leadership::unopposed();
    leadership.acquired().await;
    assert!(leadership.permit(Duration::from_secs(3600)).is_ok());
    let ended = timeout(Duration::from_secs(3600), leadership.lost()).await;
    assert!(ended.is_err());
}

#[test]
fn terms_that_cannot_work_are_refused() {
    let terms = |duration, deadline, retry| {
        Terms::new(
            Duration::from_millis(duration),
            Duration::from_millis(deadline),
            Duration::from_millis(retry),
        )
        .map(drop)
    };
    assert_eq!(terms(15_000, 10_000, 2_000), Ok(()));
    assert_eq!(terms(0, 0, 0), Err(BadTerms::NotWholeSeconds));
    assert_eq!(terms(1_500, 1_000, 100), Err(BadTerms::NotWholeSeconds));
    assert_eq!(terms(10_000, 10_000, 2_000), Err(BadTerms::NoTimeToStop));
    assert_eq!(terms(10_000, 9_900, 2_000), Err(BadTerms::NoTimeToStop));
    assert_eq!(terms(15_000, 10_000, 6_000), Err(BadTerms::NoTimeToRetry));
    assert_eq!(terms(15_000, 10_000, 0), Err(BadTerms::NoTimeToRetry));
}

/// A leader that was killed is replaced within the Lease and one retry.
#[tokio::test(start_paused = true)]
async fn by_the_usual_terms_a_standby_leads_within_seconds_of_a_crash() {
    let server = Server::in_memory();
    let usual = |identity| Election {
        terms: Terms::default(),
        ..election(identity)
    };
    let candidate = |identity| {
        let release = CancellationToken::new();
        Leadership::campaign(server.client(), usual(identity), release)
    };
    let (first, campaign) = candidate("first");
    first.acquired().await;
    let (second, _campaign) = candidate("second");
    sleep(SECOND * 60).await;
    assert!(second.remaining().is_zero());
    campaign.abort();
    let crashed = Instant::now();
    second.acquired().await;
    let took = crashed.elapsed();
    assert!(took <= SECOND * 18, "{took:?}");
    assert!(first.remaining().is_zero(), "never two at once");
}
