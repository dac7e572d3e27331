//! How fast we may ask. Shared by everything that asks with the same credential.

use std::time::Duration;

use ::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long to wait where the forge does not say.
const UNSAID: Duration = Duration::from_secs(60);

/// The longest wait we believe in: forges count by the hour.
const LONGEST: Duration = Duration::from_secs(3900);

/// Remembers until when we were told to wait.
#[derive(Default)]
pub(super) struct Limiter {
    until: Mutex<Option<Instant>>,
    /// How often in a row we were told to wait without being told how long.
    unsaid: Mutex<u32>,
}

impl Limiter {
    /// How long we still have to wait.
    pub(super) fn wait(&self) -> Option<Duration> {
        let until = (*self.until.lock())?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Learns from an answer. Gives the delay if the answer was "too much".
    pub(super) fn learn(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        message: &str,
    ) -> Option<Duration> {
        let is_refusal = status == StatusCode::TOO_MANY_REQUESTS
            || (status == StatusCode::FORBIDDEN && speaks_of_limits(headers, message));
        if is_refusal {
            let said = retry_after(headers).or_else(|| exhausted_for(headers));
            let delay = said.unwrap_or_else(|| self.next_unsaid()).min(LONGEST);
            self.pause(delay);
            return Some(delay);
        }
        *self.unsaid.lock() = 0;
        // The last request that was allowed: the next one would be refused.
        if let Some(delay) = exhausted_for(headers) {
            self.pause(delay.min(LONGEST));
        }
        None
    }

    fn pause(&self, delay: Duration) {
        let until = Instant::now() + delay;
        let mut current = self.until.lock();
        *current = Some(current.map_or(until, |earlier| earlier.max(until)));
    }

    /// A minute, then two, then four.
    fn next_unsaid(&self) -> Duration {
        let mut unsaid = self.unsaid.lock();
        let delay = UNSAID * 2u32.saturating_pow(*unsaid).min(32);
        *unsaid = unsaid.saturating_add(1);
        delay
    }
}

/// Most forges write these headers with `x-`; GitLab does not.
fn allowance(headers: &HeaderMap, name: &str) -> Option<i64> {
    number(headers, &format!("x-ratelimit-{name}"))
        .or_else(|| number(headers, &format!("ratelimit-{name}")))
}

fn speaks_of_limits(headers: &HeaderMap, message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    headers.contains_key("retry-after")
        || allowance(headers, "remaining") == Some(0)
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

/// Until the counter starts anew, if it is used up.
fn exhausted_for(headers: &HeaderMap) -> Option<Duration> {
    if allowance(headers, "remaining")? > 0 {
        return None;
    }
    let reset = Timestamp::from_second(allowance(headers, "reset")?).ok()?;
    Some(until(headers, reset))
}

/// By the forge's own clock where it shows one; ours may be wrong.
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
        let delay = Limiter::default().learn(status, &map, message);
        assert_eq!(
            delay.map(|delay| delay.as_secs()),
            expected,
            "{status} {headers:?} {message}"
        );
    }

    const DATE: (&str, &str) = ("date", "Sun, 15 Nov 2026 10:00:00 GMT");

    #[tokio::test]
    async fn every_way_to_say_slow_down_is_understood() {
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
    async fn the_last_allowed_request_is_followed_by_a_pause() {
        let limiter = Limiter::default();
        let mut headers = HeaderMap::new();
        headers.insert(DATE.0, DATE.1.parse().expect("a header"));
        headers.insert("x-ratelimit-remaining", "0".parse().expect("a header"));
        headers.insert("x-ratelimit-reset", "1794736810".parse().expect("a header"));
        assert_eq!(limiter.learn(StatusCode::OK, &headers, ""), None);
        assert_eq!(limiter.wait(), Some(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(limiter.wait(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn unexplained_refusals_wait_longer_each_time() {
        let limiter = Limiter::default();
        let refuse = || limiter.learn(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), "");
        let delays: Vec<u64> = (0..3)
            .filter_map(|_| refuse())
            .map(|delay| delay.as_secs())
            .collect();
        assert_eq!(delays, [60, 120, 240]);
    }
}
