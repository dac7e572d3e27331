//! Hundreds of elections with slow, lossy and cut links, stepping clocks, crashes and orderly ends.
//! A witness records who acted when, and no two may have acted at once.

use std::{sync::Arc, time::Duration};

use apiserver::{FaultRates, Options, Server};
use axum::body::Body;
use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt, service_fn};

use super::{Candidate, LeaderGuard, election};
use crate::leader::FencingToken;

/// So many elections in each of the tests, which run side by side.
const SEEDS: u64 = 80;
const CANDIDATES: usize = 3;
const STORM: Duration = Duration::from_secs(300);

/// SplitMix64.
#[derive(Clone)]
struct Dice(Arc<Mutex<u64>>);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    fn roll(&self, below: u64) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn up_to(&self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_millis()).unwrap();
        Duration::from_millis(self.roll(most + 1))
    }
}

/// What one process sees of the network and of the wall clock.
#[derive(Clone, Default)]
struct Weather(Arc<Mutex<Conditions>>);

#[derive(Clone, Copy, Default)]
struct Conditions {
    is_cut: bool,
    delay: Duration,
    /// On top of the delay, on the way back only.
    answer_delay: Duration,
    clock_off_by: SignedDuration,
    clock_stands_still: bool,
}

impl Weather {
    fn now(&self) -> Timestamp {
        let conditions = *self.0.lock();
        if conditions.clock_stands_still {
            return Timestamp::UNIX_EPOCH;
        }
        Timestamp::now() + conditions.clock_off_by
    }

    fn change(&self, dice: &Dice) {
        *self.0.lock() = Conditions {
            is_cut: dice.roll(4) == 0,
            delay: [0, 0, 1, 8, 30].map(Duration::from_secs)[dice.roll(5) as usize],
            answer_delay: [0, 0, 0, 6].map(Duration::from_secs)[dice.roll(4) as usize],
            clock_off_by: SignedDuration::from_secs(dice.roll(20_000) as i64 - 10_000),
            clock_stands_still: dice.roll(5) == 0,
        };
    }

    /// A client whose requests take their time, or are carried out long after it gave up on them.
    fn client(&self, server: &Server, dice: &Dice) -> Client {
        let (weather, dice, router) = (
            self.clone(),
            dice.clone(),
            server.router(apiserver::User::in_process()),
        );
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (weather, dice, router) = (weather.clone(), dice.clone(), router.clone());
            let (answer, answered) = oneshot::channel::<Response<Body>>();
            tokio::spawn(async move {
                let conditions = *weather.0.lock();
                sleep(dice.up_to(conditions.delay)).await;
                // A request that meets a cut link is lost, or arrives when nobody expects it any more.
                if conditions.is_cut {
                    sleep(dice.up_to(Duration::from_secs(90))).await;
                    if dice.roll(2) == 0 {
                        return;
                    }
                }
                let response = router.oneshot(request.map(Body::new)).await.unwrap();
                sleep(dice.up_to(conditions.delay) + conditions.answer_delay).await;
                if !conditions.is_cut {
                    drop(answer.send(response));
                }
            });
            async move { answered.await.map_err(BoxError::from) }
        });
        Client::new(service, "default")
    }
}

/// Who did something outside, from when to when.
struct Act {
    who: String,
    start: Instant,
    end: Instant,
    fencing_token: FencingToken,
}

#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<Act>>>);

impl Witness {
    /// Acts whenever permitted, each time for as long as the permit allows or shorter.
    async fn act_for(self, who: String, leader: LeaderGuard, dice: Dice, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let length = match dice.roll(2) {
                0 => leader.remaining(),
                _ => dice.up_to(Duration::from_secs(35)),
            };
            if let Ok(permit) = leader.permit(length) {
                let start = Instant::now();
                self.0.lock().push(Act {
                    who: who.clone(),
                    start,
                    end: start + length,
                    fencing_token: permit.fencing_token.unwrap(),
                });
                sleep(length).await;
            }
            sleep(dice.up_to(Duration::from_secs(2))).await;
        }
    }

    /// Panics if two acted at once or a later one has an earlier fence. Returns how often another
    /// process took over.
    fn judge(&self, seed: u64) -> usize {
        let mut acts = self.0.lock();
        acts.sort_by_key(|act| act.start);
        let mut takeovers = 0;
        for (position, next) in acts.iter().enumerate() {
            let earlier = &acts[..position];
            for one in earlier.iter().filter(|one| one.who != next.who) {
                let (first, second) = (&one.who, &next.who);
                assert!(
                    one.end <= next.start,
                    "seed {seed}: {first} and {second} act at once"
                );
                let grows = one.fencing_token.transitions < next.fencing_token.transitions;
                let is_same_lease = one.fencing_token.lease == next.fencing_token.lease;
                assert!(
                    is_same_lease && grows,
                    "seed {seed}: the fence does not grow"
                );
            }
            takeovers += usize::from(earlier.last().is_some_and(|one| one.who != next.who));
        }
        takeovers
    }
}

/// One process after another under one name in the deployment: it crashes or ends, and a new one starts.
async fn lives(who: usize, server: Server, dice: Dice, witness: Witness, weather: Weather) {
    let until = Instant::now() + STORM;
    let mut life = 0;
    while Instant::now() < until {
        life += 1;
        let release = CancellationToken::new();
        let stop = CancellationToken::new();
        let clock = weather.clone();
        let identity = format!("{who}-{life}");
        let (leader, elector) = LeaderGuard::without_election().elect_with_wall_clock(
            weather.client(&server, &dice),
            election(&identity),
            release.clone(),
            Arc::new(move || clock.now()),
        );
        let worker = witness.clone();
        let worker = worker.act_for(identity, leader, dice.clone(), stop.clone());
        let worker = tokio::spawn(worker);
        for _ in 0..=dice.roll(6) {
            sleep(dice.up_to(Duration::from_secs(60))).await;
            weather.change(&dice);
        }
        if dice.roll(2) == 0 {
            // A crash: what had been started outside goes on, the process does not.
            elector.abort();
            worker.abort();
        } else {
            stop.cancel();
            worker.await.unwrap();
            release.cancel();
            elector.await.unwrap();
        }
    }
}

async fn one_election(seed: u64) -> usize {
    let server = Server::new(Options {
        seed: Some(seed),
        ..Options::default()
    });
    server.inject_faults(FaultRates {
        seed,
        conflict: 0.05,
        server_error: 0.05,
        timeout: 0.1,
        dropped_watch: 0.3,
        stale_list: 0.3,
    });
    let witness = Witness::default();
    let mut processes = tokio::task::JoinSet::new();
    for who in 0..CANDIDATES {
        let dice = Dice::new(seed * 1000 + who as u64);
        let weather = Weather::default();
        processes.spawn(lives(who, server.clone(), dice, witness.clone(), weather));
    }
    while let Some(outcome) = processes.join_next().await {
        outcome.unwrap();
    }
    let takeovers = witness.judge(seed);
    server.inject_faults(FaultRates::default());
    assert_someone_leads(&server, seed).await;
    takeovers
}

/// After the storm a new process leads once whatever was left has run out.
async fn assert_someone_leads(server: &Server, seed: u64) {
    let release = CancellationToken::new();
    let (leader, _elector) = LeaderGuard::elect(server.client(), election("calm"), release.clone());
    // Requests of the storm arrive up to two minutes late and look like signs of life.
    let leads = timeout(Duration::from_secs(240), leader.acquired()).await;
    assert!(leads.is_ok(), "seed {seed}: nobody leads after the storm");
    release.cancel();
}

#[tokio::test(start_paused = true)]
async fn time_is_counted_from_before_a_slow_answer() {
    let server = Server::in_memory();
    let (weather, dice) = (Weather::default(), Dice::new(1));
    weather.0.lock().answer_delay = Duration::from_secs(6);
    let slow = Candidate::start(weather.client(&server, &dice), "slow");
    let leads = timeout(Duration::from_secs(60), slow.leader.acquired()).await;
    assert!(leads.is_ok(), "slow answers keep it from leading");
    // It looks often, so that it takes over as early as it may.
    let mut eager = election("eager");
    eager.timing.retry_period = Duration::from_millis(500);
    let (second, _elector) = LeaderGuard::elect(server.client(), eager, CancellationToken::new());
    let mut claimed_until = Instant::now();
    let started = Instant::now();
    while second.remaining().is_zero() {
        claimed_until = claimed_until.max(Instant::now() + slow.leader.remaining());
        weather.0.lock().is_cut = started.elapsed() > Duration::from_secs(60);
        sleep(Duration::from_millis(50)).await;
    }
    assert!(
        started.elapsed() > Duration::from_secs(60),
        "replaced while it was well"
    );
    assert!(claimed_until <= Instant::now());
}

#[tokio::test(start_paused = true)]
async fn one_renewal_without_an_answer_does_not_end_the_leadership() {
    let server = Server::in_memory();
    let (weather, dice) = (Weather::default(), Dice::new(1));
    let first = Candidate::start(weather.client(&server, &dice), "first");
    first.leader.acquired().await;
    weather.0.lock().answer_delay = Duration::from_secs(600);
    // By then it waits for the answer to its next request, and all later ones are answered.
    sleep(Duration::from_secs(10)).await;
    weather.0.lock().answer_delay = Duration::ZERO;
    let lost = timeout(Duration::from_secs(120), first.leader.lost()).await;
    assert!(lost.is_err(), "the next attempt came too late");
}

async fn no_two_lead_at_once(part: u64) {
    let mut takeovers = 0;
    for seed in part * SEEDS..(part + 1) * SEEDS {
        takeovers += one_election(seed).await;
    }
    // Otherwise the weather was too calm, or too bad, to show anything.
    assert!(takeovers > SEEDS as usize, "{takeovers} takeovers");
}

#[tokio::test(start_paused = true)]
async fn no_two_lead_at_once_in_any_weather() {
    no_two_lead_at_once(0).await;
}

#[tokio::test(start_paused = true)]
async fn no_two_lead_at_once_in_other_weather() {
    no_two_lead_at_once(1).await;
}

#[tokio::test(start_paused = true)]
async fn no_two_lead_at_once_in_yet_other_weather() {
    no_two_lead_at_once(2).await;
}
