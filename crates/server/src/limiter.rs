//! How many calls a caller may make: a number per interval, counted from the caller's first call.
//!
//! Calls that were turned away count too, as they did for the ancestor. What is remembered is
//! bounded.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many callers are remembered before those whose interval has passed are forgotten, and after
/// that all of them.
const REMEMBERED: usize = 50_000;

pub(crate) struct Limiter<K> {
    limit: u32,
    interval: Duration,
    windows: Mutex<HashMap<K, Window>>,
}

#[derive(Clone, Copy)]
struct Window {
    ends: Instant,
    calls: u32,
}

/// Too many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// How long until the next is let in.
    pub(crate) retry_after: Duration,
}

impl<K: Eq + Hash> Limiter<K> {
    /// A limit of 0 lets everything in.
    pub(crate) fn new(limit: u32, interval: Duration) -> Self {
        Self {
            limit,
            interval,
            windows: Mutex::default(),
        }
    }

    /// Counts a call. A caller who stands for several may make as many times more.
    pub(crate) fn count(&self, caller: K, stands_for: usize) -> Result<(), TooMany> {
        if self.limit == 0 {
            return Ok(());
        }
        let now = Instant::now();
        let mut windows = self.windows.lock();
        make_room(&mut windows, now);
        let fresh = Window {
            ends: now + self.interval,
            calls: 0,
        };
        let window = windows.entry(caller).or_insert(fresh);
        if window.ends <= now {
            *window = fresh;
        }
        window.calls = window.calls.saturating_add(1);
        self.judge(*window, stands_for.max(1), now)
    }

    /// Whether the caller has had all it may have, without counting a call.
    pub(crate) fn is_exhausted(&self, caller: &K) -> Result<(), TooMany> {
        let now = Instant::now();
        match self.windows.lock().get(caller) {
            Some(window) if window.ends > now && window.calls >= self.limit => Err(TooMany {
                retry_after: window.ends - now,
            }),
            _ => Ok(()),
        }
    }

    fn judge(&self, window: Window, stands_for: usize, now: Instant) -> Result<(), TooMany> {
        let factor = u32::try_from(stands_for).unwrap_or(u32::MAX);
        if window.calls <= self.limit.saturating_mul(factor) {
            return Ok(());
        }
        Err(TooMany {
            retry_after: window.ends - now,
        })
    }
}

fn make_room<K: Eq + Hash>(windows: &mut HashMap<K, Window>, now: Instant) {
    if windows.len() < REMEMBERED {
        return;
    }
    windows.retain(|_, window| window.ends > now);
    // So many callers within one interval are no callers but an attack from made-up addresses.
    if windows.len() >= REMEMBERED {
        windows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_A_MINUTE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn the_call_after_the_last_is_turned_away_until_the_window_ends() {
        let limiter = Limiter::new(3, HALF_A_MINUTE);
        for _ in 0..3 {
            assert_eq!(limiter.count("a", 1), Ok(()));
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let retry_after = Duration::from_secs(20);
        assert_eq!(limiter.count("a", 1), Err(TooMany { retry_after }));
        assert_eq!(limiter.is_exhausted(&"a"), Err(TooMany { retry_after }));
        assert_eq!(limiter.count("b", 1), Ok(()));
        tokio::time::advance(retry_after).await;
        assert_eq!(limiter.count("a", 1), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_stands_for_two_may_call_twice_as_often() {
        let limiter = Limiter::new(1, HALF_A_MINUTE);
        assert!(limiter.count("a", 2).is_ok());
        assert!(limiter.count("a", 2).is_ok());
        assert!(limiter.count("a", 2).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_everything_is_let_in() {
        let limiter = Limiter::new(0, HALF_A_MINUTE);
        assert!((0..1000).all(|_| limiter.count("a", 1).is_ok()));
        assert_eq!(limiter.is_exhausted(&"a"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let limiter = Limiter::new(1, HALF_A_MINUTE);
        for caller in 0..3 * REMEMBERED {
            assert!(limiter.count(caller, 1).is_ok());
        }
        assert!(limiter.windows.lock().len() <= REMEMBERED);
    }
}
