//! Leader election by a `coordination.k8s.io` Lease, one Lease per shard.
//!
//! Guarantees that no two processes lead at the same time, whatever their wall clocks say, however
//! slow the API server is and whichever responses get lost:
//!
//! - every write of the Lease carries the resourceVersion it is based on;
//! - a candidate takes a Lease over only after it has not seen it change for the duration that its
//!   holder asked for, counted on the candidate's own monotonic clock;
//! - a holder counts from the moment before it *sent* its last successful renewal, so that its time
//!   is over before any other candidate's count is.
//!
//! A holder stops leading some time before that, so that reconcilers can stop. Code that is about to
//! have a side effect outside the cluster calls [`LeaderGuard::permit`] immediately before. Where more
//! than one Lease is required (the lock between data centres above the Lease of the shard), leading
//! means holding all of them. Deleting a Lease by hand removes the protection from a candidate that has
//! never seen it. A machine that is suspended may stop its monotonic clock; side effects must stay
//! safe to repeat.

mod elector;
mod lease;
mod outer_lock;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use elector::LeaderElector;

pub use outer_lock::OuterLock;

/// How long one write on the hub may take.
const HUB_WRITE_TIME: Duration = Duration::from_secs(2);

/// Which Lease to hold, as whom, and its timing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease: one per shard.
    pub name: String,
    /// The identity of this process. No two processes may have the same, not even one after the other.
    pub identity: String,
    /// How long the Lease lasts and how often it is renewed.
    pub timing: LeaseTiming,
}

/// How long a Lease lasts and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// A timing with which no leader could keep its Lease, or two could hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLeaseTiming {
    /// The Lease stores whole seconds.
    #[error("the lease duration must be a whole number of seconds, at least one")]
    NotWholeSeconds,
    /// There would be no time to stop.
    #[error("the renew deadline must be shorter than the lease duration")]
    NoTimeToStop,
    /// One failed attempt would end the leadership.
    #[error("the retry period must be at most half the renew deadline and not zero")]
    NoTimeToRetry,
}

impl LeaseTiming {
    /// Checks that the three fit together.
    pub fn new(
        duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, InvalidLeaseTiming> {
        let is_whole = duration.subsec_nanos() == 0 && i32::try_from(duration.as_secs()).is_ok();
        if !is_whole || duration.is_zero() {
            return Err(InvalidLeaseTiming::NotWholeSeconds);
        }
        let timing = Self {
            duration,
            renew_deadline,
            retry_period,
        };
        if renew_deadline >= timing.usable_duration() {
            return Err(InvalidLeaseTiming::NoTimeToStop);
        }
        if retry_period.is_zero() || retry_period > renew_deadline / 2 {
            return Err(InvalidLeaseTiming::NoTimeToRetry);
        }
        Ok(timing)
    }

    /// How long a side effect may take that a leader begins at any time between two renewals.
    pub fn longest_side_effect(self) -> Duration {
        let between = self.retry_period.saturating_mul(2);
        self.usable_duration().saturating_sub(between)
    }

    /// How long candidates wait for a holder that does not renew.
    pub fn duration(self) -> Duration {
        self.duration
    }

    /// How much of the duration the holder relies on. The rest is for clocks that do not tick
    /// equally fast.
    fn usable_duration(self) -> Duration {
        self.duration - self.duration / 50
    }
}

impl Default for LeaseTiming {
    /// The defaults of controller-runtime. A longer duration allows longer side effects
    /// ([`LeaseTiming::longest_side_effect`]), a shorter one replaces a crashed leader sooner.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Identifies one term of leadership: a later term has another Lease or more transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencingToken {
    /// The uid of the Lease.
    pub lease: String,
    /// How often the Lease has changed hands.
    pub transitions: u64,
}

/// Permission for one side effect, now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The term of leadership it belongs to; none where there is no election.
    pub fencing_token: Option<FencingToken>,
}

/// The Lease is not held, or not for as long as the side effect may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{remaining:?} are left on the lease, {needed:?} are needed")]
pub struct NotLeading {
    /// The time left on the Lease.
    pub remaining: Duration,
    /// The time the side effect may take.
    pub needed: Duration,
}

/// A Lease, or another lock, that this process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// The term of leadership.
    pub fencing_token: FencingToken,
    /// When others may take over.
    pub expires_at: Instant,
}

/// Follows whether this process holds a Lease.
pub type LeaseReceiver = watch::Receiver<Option<HeldLease>>;

/// Checks that this replica still holds the Lease for as long as a side effect may take. Cloning
/// shares it.
#[derive(Clone, Debug)]
pub struct LeaderGuard {
    /// All must be held; the later ones are competed for only while the earlier ones are held.
    leases: Vec<LeaseReceiver>,
}

impl LeaderGuard {
    /// Competes for the Lease in the background until `release` is cancelled. Then a held Lease is
    /// released, so that another replica can lead at once; the handle ends when that is done.
    pub fn elect(
        client: Client,
        election: LeaderElection,
        release: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        Self::without_election().elect_below(client, election, release)
    }

    /// The same, but only while this guard leads: the new guard leads while both are held.
    pub fn elect_below(
        &self,
        client: Client,
        election: LeaderElection,
        release: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        self.elect_with_wall_clock(client, election, release, Arc::new(crate::wall_clock::now))
    }

    fn elect_with_wall_clock(
        &self,
        client: Client,
        election: LeaderElection,
        release: CancellationToken,
        wall_clock: WallClock,
    ) -> (Self, JoinHandle<()>) {
        let (elector, lease) = LeaderElector::new(client, election, wall_clock);
        let running = crate::spawn(elector.run(self.clone(), release));
        (self.clone().and_lease(lease), running)
    }

    /// Always leads: there is no election.
    pub fn without_election() -> Self {
        Self { leases: Vec::new() }
    }

    /// Leads only while that Lease is held as well.
    #[must_use]
    pub fn and_lease(mut self, lease: LeaseReceiver) -> Self {
        self.leases.push(lease);
        self
    }

    /// How long it is certain that nobody else leads. Zero if this process does not lead.
    pub fn remaining(&self) -> Duration {
        let now = Instant::now();
        let remaining = self.leases.iter().map(|lease| {
            let held = lease.borrow();
            let expires_at = held.as_ref().map_or(now, |held| held.expires_at);
            expires_at.saturating_duration_since(now)
        });
        remaining.min().unwrap_or(Duration::MAX)
    }

    /// To be called immediately before a side effect that takes at most `needed`.
    pub fn permit(&self, needed: Duration) -> Result<Permit, NotLeading> {
        let remaining = self.remaining();
        if remaining < needed || remaining.is_zero() {
            return Err(NotLeading { remaining, needed });
        }
        let lowest = self.leases.last();
        let fencing_token =
            lowest.and_then(|lease| Some(lease.borrow().as_ref()?.fencing_token.clone()));
        Ok(Permit { fencing_token })
    }

    /// Whether this process leads for as long as one write on the hub may take.
    pub fn may_write(&self) -> bool {
        self.permit(HUB_WRITE_TIME).is_ok()
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        while !self.leases.iter().all(|lease| lease.borrow().is_some()) {
            for lease in &self.leases {
                if lease.clone().wait_for(Option::is_some).await.is_err() {
                    // The elector has ended; it will never lead.
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Waits until this process no longer leads; at once if it does not.
    pub async fn lost(&self) {
        let mut losses: FuturesUnordered<_> = self.leases.iter().cloned().map(loss).collect();
        if losses.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

async fn loss(mut lease: LeaseReceiver) {
    loop {
        let Some(HeldLease { expires_at, .. }) = lease.borrow_and_update().clone() else {
            return;
        };
        tokio::select! {
            biased;
            // The Lease also expires when the elector is stuck.
            () = sleep_until(expires_at) => return,
            Ok(()) = lease.changed() => {}
        }
    }
}

/// The time that is written to the Lease for people to read. Nothing is decided by it.
type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
