//! Obeys the rate limits that servers announce in their responses.
//!
//! After a response that says so, further requests with the same credential wait until the announced
//! time. Understands `Retry-After`, the `X-RateLimit-*` headers and GitHub's secondary limits.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The first delay where the server does not announce one.
const DEFAULT_DELAY: Duration = Duration::from_secs(60);

/// The longest delay that is accepted: rate limits are counted by the hour.
const MAX_DELAY: Duration = Duration::from_secs(3900);

/// Stores until when requests have to wait.
#[derive(Default)]
pub struct RateLimiter {
    blocked_until: Mutex<Option<Instant>>,
    /// How often in a row a request was refused without an announced delay.
    refusals_without_delay: Mutex<u32>,
}

impl RateLimiter {
    /// How long requests still have to wait.
    pub fn remaining_delay(&self) -> Option<Duration> {
        let until = (*self.blocked_until.lock())?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Takes note of a response. Returns the delay if the server refused the request because of its
    /// rate limit. `message` is the error message in the body.
    pub fn record_response(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        message: impl FnOnce() -> String,
    ) -> Option<Duration> {
        let is_refusal = status == StatusCode::TOO_MANY_REQUESTS
            || (status == StatusCode::FORBIDDEN && mentions_rate_limit(headers, &message()));
        if is_refusal {
            let announced = retry_after(headers).or_else(|| exhausted_for(headers));
            let delay = announced.unwrap_or_else(|| self.next_default_delay());
            let delay = delay.min(MAX_DELAY);
            self.block_for(delay);
            return Some(delay);
        }
        *self.refusals_without_delay.lock() = 0;
        // This was the last allowed request; the next one would be refused.
        if let Some(delay) = exhausted_for(headers) {
            self.block_for(delay.min(MAX_DELAY));
        }
        None
    }

    fn block_for(&self, delay: Duration) {
        let until = Instant::now() + delay;
        let mut current = self.blocked_until.lock();
        *current = Some(current.map_or(until, |earlier| earlier.max(until)));
    }

    /// Exponential: one minute, two, four, at most 32.
    fn next_default_delay(&self) -> Duration {
        let mut refusals = self.refusals_without_delay.lock();
        let delay = DEFAULT_DELAY * 2u32.saturating_pow(*refusals).min(32);
        *refusals = refusals.saturating_add(1);
        delay
    }
}

/// Most servers prefix these headers with `x-`; GitLab does not.
fn rate_limit_header(headers: &HeaderMap, name: &str) -> Option<i64> {
    number(headers, &format!("x-ratelimit-{name}"))
        .or_else(|| number(headers, &format!("ratelimit-{name}")))
}

fn mentions_rate_limit(headers: &HeaderMap, message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    headers.contains_key("retry-after")
        || rate_limit_header(headers, "remaining") == Some(0)
        || message.contains("secondary rate limit")
        || message.contains("rate limit exceeded")
        || message.contains("abuse detection")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn number(headers: &HeaderMap, name: &str) -> Option<i64> {
    text(headers, name)?.parse().ok()
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, "retry-after")?;
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds.max(1)));
    }
    Some(until(headers, date(value)?))
}

/// The time until the quota is reset, if it is used up.
fn exhausted_for(headers: &HeaderMap) -> Option<Duration> {
    if rate_limit_header(headers, "remaining")? > 0 {
        return None;
    }
    let reset = Timestamp::from_second(rate_limit_header(headers, "reset")?).ok()?;
    Some(until(headers, reset))
}

/// The time until then by the server's clock, from its `Date` header; ours may be wrong.
fn until(headers: &HeaderMap, then: Timestamp) -> Duration {
    let now = text(headers, "date")
        .and_then(date)
        .unwrap_or_else(Timestamp::now);
    let seconds = then.as_second() - now.as_second();
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1))
}

fn date(value: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(value)
        .ok()
        .map(|date| date.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, headers: &[(&'static str, &str)], message: &str, expected: Option<u64>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        let delay = RateLimiter::default().record_response(status, &map, || message.to_owned());
        assert_eq!(
            delay.map(|delay| delay.as_secs()),
            expected,
            "{status} {headers:?} {message}"
        );
    }

    const DATE: (&str, &str) = ("date", "Sun, 15 Nov 2026 10:00:00 GMT");

    #[tokio::test]
    async fn all_rate_limit_responses_are_understood() {
        check(429, &[("retry-after", "7")], "", Some(7));
        check(
            429,
            &[DATE, ("retry-after", "Sun, 15 Nov 2026 10:00:30 GMT")],
            "",
            Some(30),
        );
        check(403, &[("retry-after", "9")], "", Some(9));
        check(
            403,
            &[
                DATE,
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1794736830"),
            ],
            "",
            Some(30),
        );
        check(
            429,
            &[
                DATE,
                ("ratelimit-remaining", "0"),
                ("ratelimit-reset", "1794736840"),
            ],
            "",
            Some(40),
        );
        check(
            403,
            &[],
            "You have exceeded a secondary rate limit",
            Some(60),
        );
        check(429, &[], "", Some(60));
        check(429, &[("retry-after", "999999")], "", Some(3900));
        check(
            403,
            &[("x-ratelimit-remaining", "10")],
            "Resource not accessible",
            None,
        );
        check(200, &[], "", None);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_after_the_last_allowed_one() {
        let limiter = RateLimiter::default();
        let mut headers = HeaderMap::new();
        headers.insert(DATE.0, DATE.1.parse().expect("a header"));
        headers.insert("x-ratelimit-remaining", "0".parse().expect("a header"));
        headers.insert("x-ratelimit-reset", "1794736810".parse().expect("a header"));
        assert_eq!(
            limiter.record_response(StatusCode::OK, &headers, String::new),
            None
        );
        assert_eq!(limiter.remaining_delay(), Some(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(limiter.remaining_delay(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_without_a_delay_back_off_exponentially() {
        let limiter = RateLimiter::default();
        let refuse = || {
            limiter.record_response(
                StatusCode::TOO_MANY_REQUESTS,
                &HeaderMap::new(),
                String::new,
            )
        };
        let delays: Vec<u64> = (0..3)
            .filter_map(|_| refuse())
            .map(|delay| delay.as_secs())
            .collect();
        assert_eq!(delays, [60, 120, 240]);
    }
}
