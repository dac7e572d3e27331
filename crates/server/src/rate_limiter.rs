//! Rate limiter with a fixed window per client, which starts with the client's first request.
//!
//! Refused requests count too, as in the Weave pipeline-controller. The number of remembered clients
//! is bounded.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The number of clients at which those whose window has ended are forgotten, and if that is not
/// enough, all of them.
const MAX_CLIENTS: usize = 50_000;

pub(crate) struct KeyedRateLimiter<K> {
    limit: u32,
    interval: Duration,
    windows: Mutex<HashMap<K, RateWindow>>,
}

#[derive(Clone, Copy)]
struct RateWindow {
    ends: Instant,
    requests: u32,
}

/// The client has sent too many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimited {
    /// How long until its window ends.
    pub(crate) retry_after: Duration,
}

impl<K: Eq + Hash> KeyedRateLimiter<K> {
    /// A limit of 0 means no limit.
    pub(crate) fn new(limit: u32, interval: Duration) -> Self {
        Self {
            limit,
            interval,
            windows: Mutex::default(),
        }
    }

    /// Counts a request. The limit of the client is multiplied by its weight.
    pub(crate) fn count(&self, client: K, weight: usize) -> Result<(), RateLimited> {
        if self.limit == 0 {
            return Ok(());
        }
        let now = Instant::now();
        let mut windows = self.windows.lock();
        remove_ended(&mut windows, now);
        let new_window = RateWindow {
            ends: now + self.interval,
            requests: 0,
        };
        let window = windows.entry(client).or_insert(new_window);
        if window.ends <= now {
            *window = new_window;
        }
        window.requests = window.requests.saturating_add(1);
        self.check(*window, weight.max(1), now)
    }

    /// Fails if the client has used up its limit. Counts nothing.
    pub(crate) fn is_exhausted(&self, client: &K) -> Result<(), RateLimited> {
        let now = Instant::now();
        match self.windows.lock().get(client) {
            Some(window) if window.ends > now && window.requests >= self.limit => {
                Err(RateLimited {
                    retry_after: window.ends - now,
                })
            }
            _ => Ok(()),
        }
    }

    fn check(&self, window: RateWindow, weight: usize, now: Instant) -> Result<(), RateLimited> {
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        if window.requests <= self.limit.saturating_mul(weight) {
            return Ok(());
        }
        Err(RateLimited {
            retry_after: window.ends - now,
        })
    }
}

fn remove_ended<K: Eq + Hash>(windows: &mut HashMap<K, RateWindow>, now: Instant) {
    if windows.len() < MAX_CLIENTS {
        return;
    }
    windows.retain(|_, window| window.ends > now);
    // So many clients within one interval are an attack from forged addresses.
    if windows.len() >= MAX_CLIENTS {
        windows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_A_MINUTE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn requests_over_the_limit_are_refused_until_the_window_ends() {
        let limiter = KeyedRateLimiter::new(3, HALF_A_MINUTE);
        for _ in 0..3 {
            assert_eq!(limiter.count("a", 1), Ok(()));
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let retry_after = Duration::from_secs(20);
        assert_eq!(limiter.count("a", 1), Err(RateLimited { retry_after }));
        assert_eq!(limiter.is_exhausted(&"a"), Err(RateLimited { retry_after }));
        assert_eq!(limiter.count("b", 1), Ok(()));
        tokio::time::advance(retry_after).await;
        assert_eq!(limiter.count("a", 1), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_weight_multiplies_the_limit() {
        let limiter = KeyedRateLimiter::new(1, HALF_A_MINUTE);
        assert!(limiter.count("a", 2).is_ok());
        assert!(limiter.count("a", 2).is_ok());
        assert!(limiter.count("a", 2).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_zero_is_no_limit() {
        let limiter = KeyedRateLimiter::new(0, HALF_A_MINUTE);
        assert!((0..1000).all(|_| limiter.count("a", 1).is_ok()));
        assert_eq!(limiter.is_exhausted(&"a"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_remembered_clients_is_bounded() {
        let limiter = KeyedRateLimiter::new(1, HALF_A_MINUTE);
        for client in 0..3 * MAX_CLIENTS {
            assert!(limiter.count(client, 1).is_ok());
        }
        assert!(limiter.windows.lock().len() <= MAX_CLIENTS);
    }
}
