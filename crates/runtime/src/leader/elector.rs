//! Competes for a Lease: acquires, renews, notices the loss and releases it.

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

use super::{HeldLease, LeaderElection, LeaderGuard, WallClock, lease};

/// How long releasing may take, because the shutdown of the process waits for it.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct LeaderElector {
    leases: Api<Lease>,
    election: LeaderElection,
    wall_clock: WallClock,
    held: watch::Sender<Option<HeldLease>>,
    /// The Lease as it was last observed.
    observed: Option<ObservedLease>,
    /// When leading ends unless a renewal succeeds; none while not leading.
    renew_by: Option<Instant>,
    /// Yields, while another process leads, when the Lease is released.
    released: Option<BoxStream<'static, ()>>,
}

struct ObservedLease {
    lease: Lease,
    /// Since when it has been in this state.
    since: Instant,
    /// Whether a write may be based on it; otherwise it must be read again first.
    is_current: bool,
}

/// Who holds the Lease after an attempt.
enum LeaseState {
    /// The Lease is ours, by a request sent at that moment.
    Held { sent: Instant },
    /// Someone else holds it for so long at least.
    HeldByOther { wait: Duration },
}

impl LeaderElector {
    pub(super) fn new(
        client: Client,
        election: LeaderElection,
        wall_clock: WallClock,
    ) -> (Self, watch::Receiver<Option<HeldLease>>) {
        let (held, receiver) = watch::channel(None);
        let elector = Self {
            leases: Api::namespaced(client, &election.namespace),
            election,
            wall_clock,
            held,
            observed: None,
            renew_by: None,
            released: None,
        };
        (elector, receiver)
    }

    /// Competes for the Lease whenever the guard above leads, until told to release it.
    pub(super) async fn run(mut self, above: LeaderGuard, release: CancellationToken) {
        while !release.is_cancelled() {
            tokio::select! {
                biased;
                () = release.cancelled() => {}
                () = above.acquired() => self.run_until(&above, &release).await,
            }
        }
        // Also without having led: a write of ours may have been stored although it seemed to fail.
        self.release().await;
    }

    async fn run_until(&mut self, above: &LeaderGuard, release: &CancellationToken) {
        loop {
            let attempt = async {
                let pause = self.attempt_in_time().await;
                self.wait(pause).await;
            };
            tokio::select! {
                biased;
                () = release.cancelled() => return,
                () = above.lost() => break,
                () = attempt => {}
            }
        }
        self.step_down("the lock above the lease is lost");
        self.release().await;
        self.require_fresh_read();
    }

    /// One attempt to acquire or renew, cut off before it could outlast the Lease. Returns how long to
    /// wait before the next.
    async fn attempt_in_time(&mut self) -> Duration {
        let timing = self.election.timing;
        let mut limit = timing.renew_deadline / 2;
        if let Some(renew_by) = self.renew_by {
            limit = limit.min(renew_by.saturating_duration_since(Instant::now()));
        }
        let outcome = timeout(limit, self.attempt()).await;
        let mut pause = timing.retry_period;
        match outcome {
            Ok(Ok(LeaseState::Held { sent })) => self.renew_succeeded(sent),
            Ok(Ok(LeaseState::HeldByOther { wait })) => {
                self.step_down("another process holds the lease");
                pause = pause.min(wait);
            }
            Ok(Err(error)) => self.note_failure(&error.to_string()),
            Err(_) => self.note_failure("the API server did not respond in time"),
        }
        if let Some(renew_by) = self.renew_by {
            let left = renew_by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.step_down("the lease could not be renewed in time");
            } else {
                pause = pause.min(left);
            }
        }
        pause
    }

    async fn attempt(&mut self) -> Result<LeaseState, kube::Error> {
        if !self
            .observed
            .as_ref()
            .is_some_and(|observed| observed.is_current)
        {
            let stored = self.leases.get_opt(&self.election.name).await?;
            self.store_observed(stored);
        }
        if let Some(wait) = self.must_wait() {
            // It is read again next time: only the holder may rely on what it wrote itself.
            self.require_fresh_read();
            return Ok(LeaseState::HeldByOther { wait });
        }
        let now = (self.wall_clock)();
        let sent = Instant::now();
        let parameters = PostParams::default();
        let stored = match self
            .observed
            .as_ref()
            .filter(|observed| observed.is_current)
        {
            None => {
                let lease = lease::first(&self.election, now);
                self.leases.create(&parameters, &lease).await
            }
            Some(observed) => {
                let lease = if self.renew_by.is_some() {
                    lease::renewed(&observed.lease, &self.election, now)
                } else {
                    lease::taken(&observed.lease, &self.election, now)
                };
                let name = &self.election.name;
                self.leases.replace(name, &parameters, &lease).await
            }
        };
        self.store_observed(Some(stored?));
        Ok(LeaseState::Held { sent })
    }

    /// Starts the count anew if the Lease differs from what was seen before.
    fn store_observed(&mut self, found: Option<Lease>) {
        let Some(lease) = found else {
            // What is gone was held a moment ago: its holder may not know yet, so the count goes on.
            return self.require_fresh_read();
        };
        match &mut self.observed {
            Some(observed) if lease::is_same(&observed.lease, &lease) => observed.is_current = true,
            _ => {
                self.observed = Some(ObservedLease {
                    lease,
                    since: Instant::now(),
                    is_current: true,
                });
            }
        }
    }

    fn require_fresh_read(&mut self) {
        if let Some(observed) = &mut self.observed {
            observed.is_current = false;
        }
    }

    /// How long the Lease of another holder still runs, counted on our clock.
    fn must_wait(&self) -> Option<Duration> {
        let observed = self.observed.as_ref()?;
        let holder = lease::holder(&observed.lease)?;
        if holder == self.election.identity {
            return None;
        }
        let asked = lease::duration(&observed.lease).unwrap_or(self.election.timing.duration);
        let wait = (observed.since + asked).saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    fn renew_succeeded(&mut self, sent: Instant) {
        let timing = self.election.timing;
        let Some(observed) = &self.observed else {
            return;
        };
        let fencing_token = lease::fencing_token(&observed.lease);
        if self.renew_by.is_none() {
            info!(lease = %self.election.name, transitions = fencing_token.transitions, "acquired the lease");
        }
        self.renew_by = Some(sent + timing.renew_deadline);
        self.held.send_replace(Some(HeldLease {
            fencing_token,
            expires_at: sent + timing.usable_duration(),
        }));
    }

    fn step_down(&mut self, because: &str) {
        self.held.send_if_modified(|held| held.take().is_some());
        if self.renew_by.take().is_some() {
            warn!(lease = %self.election.name, because, "lost the lease");
        }
    }

    /// After a failure the state is uncertain: the write may have been stored.
    fn note_failure(&mut self, because: &str) {
        self.require_fresh_read();
        if self.renew_by.is_some() {
            warn!(lease = %self.election.name, because, "could not renew the lease");
        } else {
            debug!(lease = %self.election.name, because, "could not read or acquire the lease");
        }
    }

    /// Waits for the next attempt. A candidate is also woken when the Lease is released, so that it can
    /// acquire it at once.
    async fn wait(&mut self, pause: Duration) {
        if self.renew_by.is_some() {
            self.released = None;
            return sleep(pause).await;
        }
        let (leases, name) = (&self.leases, &self.election.name);
        let released = self
            .released
            .get_or_insert_with(|| watch_released(leases, name));
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            Some(()) = released.next() => {}
        }
    }

    /// Stops leading first, then clears the holder of the Lease.
    async fn release(&mut self) {
        self.held.send_replace(None);
        match timeout(RELEASE_TIMEOUT, self.write_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(lease = %self.election.name, %error, "could not release the lease");
            }
            Err(_) => warn!(lease = %self.election.name, "could not release the lease in time"),
        }
    }

    async fn write_release(&mut self) -> Result<(), kube::Error> {
        let name = &self.election.name;
        loop {
            let Some(lease) = self.leases.get_opt(name).await? else {
                return Ok(());
            };
            if lease::holder(&lease) != Some(self.election.identity.as_str()) {
                return Ok(());
            }
            let free = lease::released(&lease, (self.wall_clock)());
            match self
                .leases
                .replace(name, &PostParams::default(), &free)
                .await
            {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                outcome => {
                    outcome?;
                    info!(lease = %name, "released the lease");
                    return Ok(());
                }
            }
        }
    }
}

/// Yields whenever the Lease has no holder or is deleted. Only a hint: a candidate that may not watch
/// reads the Lease periodically anyway.
fn watch_released(leases: &Api<Lease>, name: &str) -> BoxStream<'static, ()> {
    use watcher::Event::{Apply, Delete, InitApply};
    let only_ours = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(leases.clone(), only_ours)
        .default_backoff()
        .filter_map(async |event| match event {
            Ok(Apply(lease) | InitApply(lease)) => lease::holder(&lease).is_none().then_some(()),
            Ok(Delete(_)) => Some(()),
            _ => None,
        })
        .boxed()
}
