//! Leader election by a `coordination.k8s.io` Lease, one Lease per shard.
//!
//! Promises that no two processes lead at once, whatever their wall clocks say, however slow the
//! API is and whichever answers get lost:
//!
//! - every write of the Lease carries the resourceVersion it is based on;
//! - a candidate takes a Lease over only after it has not seen it change for as long as its holder
//!   asked for, counted on the candidate's own monotonic clock;
//! - a holder counts from the moment before it *sent* its last successful renewal, so its time is
//!   up before anyone else's count is.
//!
//! It gives up leading some time before that, so that loops can stop. Whoever is about to do
//! something outside the cluster asks [`Leadership::permit`] immediately before. Where more than one
//! thing must be held (the lock between data centres above the Lease), leading is holding all. Deleting a Lease by
//! hand takes the protection away from a candidate that has never seen it. A machine that is put to
//! sleep may stop its monotonic clock; what acts do must stay safe to repeat.

mod campaign;
mod record;
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

use campaign::Campaign;

/// Which Lease is held, by whom, on what terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease: one per shard.
    pub name: String,
    /// This process. No two processes may have the same, not even one after the other.
    pub identity: String,
    /// How long is long.
    pub terms: Terms,
}

/// How long a Lease lasts and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Terms under which no leader could keep its Lease, or two could have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTerms {
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

impl Terms {
    /// Checks that the three fit together.
    pub fn new(
        duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, BadTerms> {
        let is_whole = duration.subsec_nanos() == 0 && i32::try_from(duration.as_secs()).is_ok();
        if !is_whole || duration.is_zero() {
            return Err(BadTerms::NotWholeSeconds);
        }
        let terms = Self {
            duration,
            renew_deadline,
            retry_period,
        };
        if renew_deadline >= terms.trusted() {
            return Err(BadTerms::NoTimeToStop);
        }
        if retry_period.is_zero() || retry_period > renew_deadline / 2 {
            return Err(BadTerms::NoTimeToRetry);
        }
        Ok(terms)
    }

    /// How long something may take that a leader begins at any time between two renewals.
    pub fn longest_act(self) -> Duration {
        let between = self.retry_period.saturating_mul(2);
        self.trusted().saturating_sub(between)
    }

    /// How long others wait for a holder that is silent.
    pub(crate) fn duration(self) -> Duration {
        self.duration
    }

    /// How much of the duration the holder relies on. The rest is for clocks that do not tick
    /// equally fast.
    fn trusted(self) -> Duration {
        self.duration - self.duration / 50
    }
}

impl Default for Terms {
    /// What controller-runtime uses unless told otherwise. Longer terms allow longer acts outside
    /// ([`Terms::longest_act`]), shorter ones have a leader that crashed replaced sooner.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Tells one time of leading from every other: a later one has another Lease or a higher count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The uid of the Lease.
    pub lease: String,
    /// How often the Lease has changed hands.
    pub transitions: u64,
}

/// Leave to do one thing now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The time of leading in which it was given; none where there is no election.
    pub fence: Option<Fence>,
}

/// There is not enough time left on the Lease for what was to be done, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{remaining:?} are left on the lease, {needed:?} are needed")]
pub struct NotLeading {
    /// What is left on the Lease.
    pub remaining: Duration,
    /// What was asked for.
    pub needed: Duration,
}

/// A time of holding a Lease or a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    pub(crate) fence: Fence,
    /// When others may take over.
    pub(crate) lapses: Instant,
}

/// Something that must be held in order to lead.
pub(crate) type Claim = watch::Receiver<Option<Tenure>>;

/// Whether this process leads, and for how long that is certain. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// All must be held, the later ones below the earlier ones.
    claims: Vec<Claim>,
}

impl Leadership {
    /// Runs for the Lease in the background until `release` is cancelled. Then a held Lease is given
    /// back, so that the next can lead at once; the handle says when that is done.
    pub fn campaign(
        client: Client,
        election: Election,
        release: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        Self::unopposed().campaign_below(client, election, release)
    }

    /// The same, but only while this leadership lasts: leading is then both.
    pub fn campaign_below(
        &self,
        client: Client,
        election: Election,
        release: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        self.campaign_by(client, election, release, Arc::new(Timestamp::now))
    }

    fn campaign_by(
        &self,
        client: Client,
        election: Election,
        release: CancellationToken,
        wall: WallClock,
    ) -> (Self, JoinHandle<()>) {
        let (campaign, tenure) = Campaign::new(client, election, wall);
        let running = tokio::spawn(campaign.run(self.clone(), release));
        (self.clone().and(tenure), running)
    }

    /// Leads for ever: there is no election.
    pub fn unopposed() -> Self {
        Self { claims: Vec::new() }
    }

    /// Leads while this and the claim are held.
    pub(crate) fn and(mut self, claim: Claim) -> Self {
        self.claims.push(claim);
        self
    }

    /// How long it is certain that nobody else leads. Zero if this process does not lead.
    pub fn remaining(&self) -> Duration {
        let now = Instant::now();
        let left = self.claims.iter().map(|claim| {
            let tenure = claim.borrow();
            let lapses = tenure.as_ref().map_or(now, |tenure| tenure.lapses);
            lapses.saturating_duration_since(now)
        });
        left.min().unwrap_or(Duration::MAX)
    }

    /// Asked immediately before something outside is done that takes at most `needed`.
    pub fn permit(&self, needed: Duration) -> Result<Permit, NotLeading> {
        let remaining = self.remaining();
        if remaining < needed || remaining.is_zero() {
            return Err(NotLeading { remaining, needed });
        }
        let lowest = self.claims.last();
        let fence = lowest.and_then(|claim| Some(claim.borrow().as_ref()?.fence.clone()));
        Ok(Permit { fence })
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        while !self.claims.iter().all(|claim| claim.borrow().is_some()) {
            for claim in &self.claims {
                if claim.clone().wait_for(Option::is_some).await.is_err() {
                    // The campaign has ended; it will never lead.
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Waits until this process no longer leads; at once if it does not.
    pub async fn lost(&self) {
        let mut losses: FuturesUnordered<_> = self.claims.iter().cloned().map(loss).collect();
        if losses.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

async fn loss(mut claim: Claim) {
    loop {
        let Some(Tenure { lapses, .. }) = claim.borrow_and_update().clone() else {
            return;
        };
        tokio::select! {
            // Also without a word from the campaign, time runs out.
            () = sleep_until(lapses) => return,
            Ok(()) = claim.changed() => {}
        }
    }
}

/// The time that is written on the Lease for people to read. Nothing is decided by it.
type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
