//! The hub's clock. It follows tokio's, so that it also moves when that is paused in a test.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall-clock time at the start plus what tokio says has passed since.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Timestamp,
    since: Instant,
}

impl Clock {
    /// A clock that agrees with the wall clock now.
    pub fn start() -> Self {
        Self {
            started: Timestamp::now(),
            since: Instant::now(),
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.since.elapsed()).unwrap_or(SignedDuration::MAX);
        self.started
            .saturating_add(passed)
            .unwrap_or(Timestamp::MAX)
    }
}
