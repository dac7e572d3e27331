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
//! something outside the cluster asks [`Leadership::permit`] immediately before. Deleting a Lease by
//! hand takes the protection away from a candidate that has never seen it. A machine that is put to
//! sleep may stop its monotonic clock; what acts do must stay safe to repeat.

mod campaign;
mod record;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::watch,
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

    /// How much of the duration the holder relies on. The rest is for clocks that do not tick
    /// equally fast.
    fn trusted(self) -> Duration {
        self.duration - self.duration / 50
    }
}

impl Default for Terms {
    /// The same as Flux's controllers.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(35),
            renew_deadline: Duration::from_secs(30),
            retry_period: Duration::from_secs(5),
        }
    }
}

/// Tells one time of leading from every other: a later one has another Lease or a higher count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The uid of the Lease.
    pub lease: String,
    /// How often the Lease has changed hands.
    pub transitions: i32,
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

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tenure {
    fence: Option<Fence>,
    /// When others may take over; never, where there is no election.
    lapses: Option<Instant>,
}

/// Whether this process leads, and for how long that is certain. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Option<Tenure>>);

impl Leadership {
    /// Runs for the Lease in the background until `release` is cancelled. Then a held Lease is given
    /// back, so that the next can lead at once; the handle says when that is done.
    pub fn campaign(
        client: Client,
        election: Election,
        release: CancellationToken,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        Self::campaign_by(client, election, release, Arc::new(Timestamp::now))
    }

    fn campaign_by(
        client: Client,
        election: Election,
        release: CancellationToken,
        wall: WallClock,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (campaign, tenure) = Campaign::new(client, election, wall);
        (Self(tenure), tokio::spawn(campaign.run(release)))
    }

    /// Leads for ever: there is no election.
    pub fn unopposed() -> Self {
        Self(
            watch::channel(Some(Tenure {
                fence: None,
                lapses: None,
            }))
            .1,
        )
    }

    /// How long it is certain that nobody else leads. Zero if this process does not lead.
    pub fn remaining(&self) -> Duration {
        match &*self.0.borrow() {
            None => Duration::ZERO,
            Some(Tenure { lapses: None, .. }) => Duration::MAX,
            Some(Tenure {
                lapses: Some(lapses),
                ..
            }) => lapses.saturating_duration_since(Instant::now()),
        }
    }

    /// Asked immediately before something outside is done that takes at most `needed`.
    pub fn permit(&self, needed: Duration) -> Result<Permit, NotLeading> {
        let remaining = self.remaining();
        match &*self.0.borrow() {
            Some(tenure) if remaining >= needed && !remaining.is_zero() => Ok(Permit {
                fence: tenure.fence.clone(),
            }),
            _ => Err(NotLeading { remaining, needed }),
        }
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        let mut tenure = self.0.clone();
        if tenure.wait_for(Option::is_some).await.is_err() {
            // The campaign has ended; it will never lead.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this process no longer leads; at once if it does not.
    pub async fn lost(&self) {
        let mut tenure = self.0.clone();
        loop {
            let Some(Tenure { lapses, .. }) = tenure.borrow_and_update().clone() else {
                return;
            };
            // Also without a word from the campaign, time runs out.
            let out_of_time = async {
                match lapses {
                    Some(lapses) => sleep_until(lapses).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = out_of_time => return,
                Ok(()) = tenure.changed() => {}
            }
        }
    }
}

/// The time that is written on the Lease for people to read. Nothing is decided by it.
type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
