//! Wall-clock time that follows tokio's clock, so that it also moves while that is paused in a test.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::wall_clock;

/// Wall-clock time at the start plus the time that has passed on tokio's clock since.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started_at: Timestamp,
    started: Instant,
}

impl Clock {
    /// A clock that agrees with the wall clock now.
    pub fn start() -> Self {
        Self {
            started_at: wall_clock::now(),
            started: Instant::now(),
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        wall_clock::after(self.started_at, self.started)
    }

    /// How long it is until then; zero if that has passed.
    pub fn until(&self, then: Timestamp) -> std::time::Duration {
        then.duration_since(self.now())
            .try_into()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_follows_the_clock_of_tokio() {
        wall_clock::simulate(Timestamp::UNIX_EPOCH);
        let clock = Clock::start();
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().as_second(), 90);
        let then = Timestamp::from_second(100).unwrap();
        assert_eq!(clock.until(then), Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.until(then), Duration::ZERO);
    }
}
