//! The time on objects. It follows tokio's clock, so that tests can pause and advance it.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The time at the start plus the time that has passed on tokio's clock.
pub(crate) struct ServerClock {
    started: Timestamp,
    since: Instant,
}

impl ServerClock {
    /// A clock that starts at this time, or at the current wall-clock time.
    pub(crate) fn start(at: Option<Timestamp>) -> Self {
        Self {
            started: at.unwrap_or_else(Timestamp::now),
            since: Instant::now(),
        }
    }

    /// Now.
    pub(crate) fn timestamp(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.since.elapsed()).unwrap_or(SignedDuration::MAX);
        let now = self.started.saturating_add(passed);
        now.unwrap_or(Timestamp::MAX)
    }

    /// Now, to the second, as RFC 3339.
    pub(crate) fn now(&self) -> String {
        self.timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}
