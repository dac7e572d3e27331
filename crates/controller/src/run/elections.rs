//! What must be held in order to lead: the lock between data centres, and below it the Lease.
//!
//! They are taken in that order, as the trigger operator did, so that its replicas and ours never
//! wait for each other; and given back in the other.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::Notify,
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::Settings;
use runtime::{LeaderGuard, leader::LeaderElection};

/// Everything this process runs for.
pub(super) struct Elections {
    /// Whether it has all of it.
    pub(super) leader: LeaderGuard,
    /// The lowest first.
    candidacies: Vec<Candidacy>,
    watchers: JoinSet<()>,
}

struct Candidacy {
    release: CancellationToken,
    campaign: JoinHandle<()>,
}

impl Elections {
    /// Runs in the background from now on.
    pub(super) fn start(client: &Client, settings: &Settings) -> Self {
        let mut elections = Self {
            leader: LeaderGuard::without_election(),
            candidacies: Vec::new(),
            watchers: JoinSet::new(),
        };
        let pass_on = Arc::new(Notify::new());
        if let Some(lock) = &settings.outer_lock {
            elections.enter(|above, release| {
                let (lease, elector) = lock.elect(pass_on.clone(), release);
                (above.clone().and_lease(lease), elector)
            });
        }
        if let Some(election) = &settings.election {
            let lock = elections.leader.clone();
            elections.run_for_lease(client, election);
            if settings.outer_lock.is_some() {
                let both = elections.leader.clone();
                let patience = election.timing.duration() * 2;
                let watching = pass_on_without_lease(lock, both, patience, pass_on);
                elections.watchers.spawn(watching);
            }
        }
        elections
    }

    fn run_for_lease(&mut self, client: &Client, election: &LeaderElection) {
        info!(lease = %election.name, namespace = %election.namespace, identity = %election.identity, "standing by");
        let (client, election) = (client.clone(), election.clone());
        self.enter(|above, release| above.elect_below(client, election, release));
    }

    fn enter(
        &mut self,
        campaign: impl FnOnce(&LeaderGuard, CancellationToken) -> (LeaderGuard, JoinHandle<()>),
    ) {
        let release = CancellationToken::new();
        let (leader, campaign) = campaign(&self.leader, release.clone());
        self.leader = leader;
        self.candidacies.insert(0, Candidacy { release, campaign });
    }

    /// Gives everything back, the lowest first, so that the next can lead at once.
    pub(super) async fn release(mut self) {
        self.watchers.shutdown().await;
        for Candidacy { release, campaign } in self.candidacies {
            release.cancel();
            if let Err(error) = campaign.await {
                error!(%error, "an election ended badly");
            }
        }
    }
}

/// What metrics call this process's leader, if there is an election.
pub(super) fn name(settings: &Settings) -> Option<&str> {
    let lease = settings
        .election
        .as_ref()
        .map(|election| election.name.as_str());
    lease.or(settings.outer_lock.as_ref().map(|lock| lock.name))
}

/// The lock is of no use without the Lease: an API server that is down here must not keep the other
/// data centre from acting.
async fn pass_on_without_lease(
    lock: LeaderGuard,
    both: LeaderGuard,
    patience: Duration,
    pass_on: Arc<Notify>,
) {
    loop {
        lock.acquired().await;
        tokio::select! {
            biased;
            () = lock.lost() => continue,
            () = sleep(patience) => {}
            () = both.acquired() => both.lost().await,
        }
        if lock.permit(Duration::ZERO).is_ok() {
            warn!("the lease is not held here: the lock between data centres is passed on");
            pass_on.notify_waiters();
            lock.lost().await;
        }
    }
}
