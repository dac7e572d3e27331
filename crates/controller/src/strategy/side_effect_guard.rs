//! Checks, immediately before a side effect outside the cluster, that this replica still holds the
//! Lease for as long as the side effect may take.

use std::time::Duration;

use planner::Failure;
use tokio::time::timeout;

use super::failure::transient;
use runtime::LeaderGuard;

use crate::Settings;

/// Runs side effects while this replica leads.
#[derive(Clone)]
pub(super) struct SideEffectGuard {
    leader: LeaderGuard,
    timeout: Duration,
}

impl SideEffectGuard {
    pub(super) fn new(settings: &Settings, leader: LeaderGuard) -> Self {
        Self {
            leader,
            timeout: settings.act_time(),
        }
    }

    /// How long one side effect may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether a side effect may start that takes up to this time.
    pub(super) fn permits(&self, time: Duration) -> bool {
        self.leader.permit(time).is_ok()
    }

    /// Runs a side effect if this replica leads for long enough. `too_late` are reason and message if
    /// it does not end in time.
    pub(super) async fn run<T>(
        &self,
        side_effect: impl Future<Output = Result<T, Failure>>,
        too_late: (&str, &str),
    ) -> Result<T, Failure> {
        let permit = self.leader.permit(self.timeout);
        permit.map_err(|error| transient("NotPermitted", format!("nothing is done: {error}")))?;
        let done = timeout(self.timeout, side_effect).await;
        done.map_err(|_| transient(too_late.0, too_late.1))?
    }
}
