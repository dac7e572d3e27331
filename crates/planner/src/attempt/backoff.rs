//! Exponential backoff with jitter for failed attempts.

use std::time::Duration;

/// The first pause.
const SHORTEST: Duration = Duration::from_secs(5);
/// The longest pause after a transient failure.
const LONGEST: Duration = Duration::from_secs(600);
/// The pause after a failure that waits for an edit.
const SLOW: Duration = Duration::from_secs(1800);

/// The pause after that many attempts: it doubles up to a limit, and no two promotions that
/// failed together try again together.
pub(crate) fn backoff(attempts: i64, seed: u64) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1))
        .unwrap_or_default()
        .min(16);
    let pause = SHORTEST.saturating_mul(1 << doublings).min(LONGEST);
    jittered(pause, attempts, seed)
}

/// The pause before a retry of what only an edit resolves.
pub(crate) fn slow_backoff(attempts: i64, seed: u64) -> Duration {
    jittered(SLOW, attempts, seed)
}

/// Four to six fifths of the pause.
fn jittered(pause: Duration, attempts: i64, seed: u64) -> Duration {
    let share =
        f64::from(u32::try_from(mix(seed ^ attempts.unsigned_abs()) >> 32).unwrap_or_default())
            / f64::from(u32::MAX);
    pause.mul_f64(0.8 + 0.4 * share)
}

/// Spreads every bit of the input over the output (the finaliser of splitmix64).
fn mix(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_stay_apart() {
        for seed in 0..100 {
            for attempts in 1..40 {
                let expected = (5.0 * 2_f64.powi(attempts - 1)).min(600.0);
                let actual = backoff(attempts.into(), seed).as_secs_f64();
                assert!(
                    (expected * 0.8..=expected * 1.2).contains(&actual),
                    "{attempts}: {actual}"
                );
            }
        }
        assert_ne!(backoff(5, 1), backoff(5, 2));
        assert_eq!(backoff(5, 1), backoff(5, 1));
        assert!(backoff(i64::MAX, 1) <= LONGEST * 2);
        assert!(backoff(0, 1) <= SHORTEST * 2);
    }
}
