//! Running for a Lease: take, renew, notice the loss, give back.

use std::time::Duration;

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Election, Leadership, Tenure, WallClock, record};

/// How long giving back may take. Whoever waits for us to end does not wait longer.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Campaign {
    leases: Api<Lease>,
    election: Election,
    wall: WallClock,
    tenure: watch::Sender<Option<Tenure>>,
    /// The Lease as it was last seen, and since when it has looked like that.
    seen: Option<Seen>,
    /// When leading ends unless a renewal succeeds.
    stops: Option<Instant>,
    /// Tells, while someone else leads, when the Lease is free.
    freed: Option<BoxStream<'static, ()>>,
}

struct Seen {
    lease: Lease,
    since: Instant,
    /// Whether a write may be based on it, or it must be read again first.
    is_current: bool,
}

/// How an attempt ended.
enum Standing {
    /// The Lease is ours, by a request sent at that moment.
    Held { sent: Instant },
    /// Someone else holds it for so long at least.
    HeldByOther { wait: Duration },
}

impl Campaign {
    pub(super) fn new(
        client: Client,
        election: Election,
        wall: WallClock,
    ) -> (Self, watch::Receiver<Option<Tenure>>) {
        let (tenure, receiver) = watch::channel(None);
        let campaign = Self {
            leases: Api::namespaced(client, &election.namespace),
            election,
            wall,
            tenure,
            seen: None,
            stops: None,
            freed: None,
        };
        (campaign, receiver)
    }

    /// Runs for the Lease whenever there is a leadership above, until told to release it.
    pub(super) async fn run(mut self, above: Leadership, release: CancellationToken) {
        while !release.is_cancelled() {
            tokio::select! {
                () = release.cancelled() => {}
                () = above.acquired() => self.run_until(&above, &release).await,
            }
        }
        // Also asked without having led: a write of ours may have arrived unknown to us.
        self.give_back().await;
    }

    async fn run_until(&mut self, above: &Leadership, release: &CancellationToken) {
        loop {
            let turn = async {
                let pause = self.attempt_in_time().await;
                self.rest(pause).await;
            };
            tokio::select! {
                biased;
                () = release.cancelled() => return,
                () = above.lost() => break,
                () = turn => {}
            }
        }
        self.step_down("what is above the lease is lost");
        self.give_back().await;
        self.distrust();
    }

    /// One attempt to take or renew, cut off before it could outlast the leadership. Returns how
    /// long to rest.
    async fn attempt_in_time(&mut self) -> Duration {
        let terms = self.election.terms;
        let mut limit = terms.renew_deadline / 2;
        if let Some(stops) = self.stops {
            limit = limit.min(stops.saturating_duration_since(Instant::now()));
        }
        let outcome = timeout(limit, self.attempt()).await;
        let mut pause = terms.retry_period;
        match outcome {
            Ok(Ok(Standing::Held { sent })) => self.hold(sent),
            Ok(Ok(Standing::HeldByOther { wait })) => {
                self.step_down("another process holds the lease");
                pause = pause.min(wait);
            }
            Ok(Err(error)) => self.note_failure(&error.to_string()),
            Err(_) => self.note_failure("the API did not answer in time"),
        }
        if let Some(stops) = self.stops {
            let left = stops.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.step_down("the lease could not be renewed in time");
            } else {
                pause = pause.min(left);
            }
        }
        pause
    }

    async fn attempt(&mut self) -> Result<Standing, kube::Error> {
        if !self.seen.as_ref().is_some_and(|seen| seen.is_current) {
            let found = self.leases.get_opt(&self.election.name).await?;
            self.observe(found);
        }
        if let Some(wait) = self.must_wait() {
            // It is read again next time: only its holder may rely on what it wrote itself.
            self.distrust();
            return Ok(Standing::HeldByOther { wait });
        }
        let now = (self.wall)();
        let sent = Instant::now();
        let parameters = PostParams::default();
        let stored = match self.seen.as_ref().filter(|seen| seen.is_current) {
            None => {
                let lease = record::first(&self.election, now);
                self.leases.create(&parameters, &lease).await
            }
            Some(seen) => {
                let lease = if self.stops.is_some() {
                    record::renewed(&seen.lease, &self.election, now)
                } else {
                    record::taken(&seen.lease, &self.election, now)
                };
                let name = &self.election.name;
                self.leases.replace(name, &parameters, &lease).await
            }
        };
        self.observe(Some(stored?));
        Ok(Standing::Held { sent })
    }

    /// Starts the count anew if the Lease differs from what was seen before.
    fn observe(&mut self, found: Option<Lease>) {
        let Some(lease) = found else {
            // What is gone was held a moment ago: its holder may not know yet, so the count goes on.
            return self.distrust();
        };
        match &mut self.seen {
            Some(seen) if record::is_same(&seen.lease, &lease) => seen.is_current = true,
            _ => {
                self.seen = Some(Seen {
                    lease,
                    since: Instant::now(),
                    is_current: true,
                });
            }
        }
    }

    fn distrust(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.is_current = false;
        }
    }

    /// How long another holder's time still runs by our count.
    fn must_wait(&self) -> Option<Duration> {
        let seen = self.seen.as_ref()?;
        let holder = record::holder(&seen.lease)?;
        if holder == self.election.identity {
            return None;
        }
        let asked = record::duration(&seen.lease).unwrap_or(self.election.terms.duration);
        let wait = (seen.since + asked).saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    fn hold(&mut self, sent: Instant) {
        let terms = self.election.terms;
        let Some(seen) = &self.seen else { return };
        let fence = record::fence(&seen.lease);
        if self.stops.is_none() {
            info!(lease = %self.election.name, transitions = fence.transitions, "leading");
        }
        self.stops = Some(sent + terms.renew_deadline);
        self.tenure.send_replace(Some(Tenure {
            fence,
            lapses: sent + terms.trusted(),
        }));
    }

    fn step_down(&mut self, because: &str) {
        self.tenure
            .send_if_modified(|tenure| tenure.take().is_some());
        if self.stops.take().is_some() {
            warn!(lease = %self.election.name, because, "no longer leading");
        }
    }

    /// Nothing is known for sure after a failure: a write may have been carried out.
    fn note_failure(&mut self, because: &str) {
        self.distrust();
        if self.stops.is_some() {
            warn!(lease = %self.election.name, because, "the lease was not renewed");
        } else {
            debug!(lease = %self.election.name, because, "the lease could not be read or taken");
        }
    }

    /// Waits for the next turn. Who does not lead also looks when the Lease changes, so that a
    /// Lease given back is taken at once.
    async fn rest(&mut self, pause: Duration) {
        if self.stops.is_some() {
            self.freed = None;
            return sleep(pause).await;
        }
        let (leases, name) = (&self.leases, &self.election.name);
        let freed = self.freed.get_or_insert_with(|| watch_freed(leases, name));
        tokio::select! {
            () = sleep(pause) => {}
            Some(()) = freed.next() => {}
        }
    }

    /// Stops leading first, then says so on the Lease.
    async fn give_back(&mut self) {
        self.tenure.send_replace(None);
        match timeout(RELEASE_TIMEOUT, self.write_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(lease = %self.election.name, %error, "the lease could not be given back");
            }
            Err(_) => warn!(lease = %self.election.name, "the lease was not given back in time"),
        }
    }

    async fn write_release(&mut self) -> Result<(), kube::Error> {
        let name = &self.election.name;
        loop {
            let Some(lease) = self.leases.get_opt(name).await? else {
                return Ok(());
            };
            if record::holder(&lease) != Some(self.election.identity.as_str()) {
                return Ok(());
            }
            let free = record::released(&lease, (self.wall)());
            match self
                .leases
                .replace(name, &PostParams::default(), &free)
                .await
            {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                outcome => {
                    outcome?;
                    info!(lease = %name, "the lease is given back");
                    return Ok(());
                }
            }
        }
    }
}

/// Yields whenever the Lease is seen without a holder, or goes away. It is a hint only: who cannot
/// watch asks from time to time anyway.
fn watch_freed(leases: &Api<Lease>, name: &str) -> BoxStream<'static, ()> {
    use watcher::Event::{Apply, Delete, InitApply};
    let only_ours = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(leases.clone(), only_ours)
        .default_backoff()
        .filter_map(async |event| match event {
            Ok(Apply(lease) | InitApply(lease)) => record::holder(&lease).is_none().then_some(()),
            Ok(Delete(_)) => Some(()),
            _ => None,
        })
        .boxed()
}
