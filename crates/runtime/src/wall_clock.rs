//! The time of day: that of the system, or on a thread that simulates, one that follows tokio's clock.

use std::cell::Cell;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

thread_local! {
    /// A time of day, and when on tokio's clock it was.
    static SIMULATED: Cell<Option<(Timestamp, Instant)>> = const { Cell::new(None) };
}

/// The time of day.
pub fn now() -> Timestamp {
    match SIMULATED.get() {
        Some((at, since)) => after(at, since),
        None => Timestamp::now(),
    }
}

/// Sets the time of day on this thread; from now on it follows tokio's clock there. For simulations: what
/// runs on other threads is not affected.
pub fn simulate(now: Timestamp) {
    SIMULATED.set(Some((now, Instant::now())));
}

/// A time of day that was then, plus what has passed on tokio's clock since.
pub(crate) fn after(at: Timestamp, since: Instant) -> Timestamp {
    let elapsed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
    at.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_simulated_time_of_day_follows_the_clock_of_tokio() {
        simulate(Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(now().as_second(), 90);
        let elsewhere = std::thread::spawn(now).join().expect("the time of day");
        assert!(elsewhere.as_second() > 1_000_000_000);
    }
}
