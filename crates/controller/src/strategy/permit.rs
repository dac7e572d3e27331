//! Leave to change something outside, asked for immediately before.

use std::time::Duration;

use planner::Failure;
use tokio::time::timeout;

use super::failure::passing;
use crate::{Settings, lease::Leadership};

/// Gives leave while this process leads for as long as an act may take.
#[derive(Clone)]
pub(super) struct Permits {
    leadership: Leadership,
    act_time: Duration,
}

impl Permits {
    pub(super) fn new(settings: &Settings, leadership: Leadership) -> Self {
        Self {
            leadership,
            act_time: settings.act_time(),
        }
    }

    /// How long one act may take.
    pub(super) fn act_time(&self) -> Duration {
        self.act_time
    }

    /// Whether something may begin that takes up to so long.
    pub(super) fn allow(&self, time: Duration) -> bool {
        self.leadership.permit(time).is_ok()
    }

    /// Does something, if this process leads for as long as that may take. `late` is what to say if
    /// it takes longer.
    pub(super) async fn act<T>(
        &self,
        act: impl Future<Output = Result<T, Failure>>,
        late: (&str, &str),
    ) -> Result<T, Failure> {
        let permit = self.leadership.permit(self.act_time);
        permit.map_err(|error| passing("NotPermitted", format!("nothing is done: {error}")))?;
        let done = timeout(self.act_time, act).await;
        done.map_err(|_| passing(late.0, late.1))?
    }
}
