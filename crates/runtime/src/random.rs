//! Randomness for jitter. Seeded it repeats itself, for tests and simulations.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A SplitMix64 generator. Not for secrets.
#[derive(Debug)]
pub struct Random(AtomicU64);

impl Random {
    /// Differs from process to process.
    pub fn from_entropy() -> Self {
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    /// The same numbers for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Between 75 % and 125 % of a delay, so that many retries do not happen at once.
    pub fn jittered(&self, delay: Duration) -> Duration {
        let fraction = (self.next() % 1000) as f64 / 2000.0;
        delay.mul_f64(0.75 + fraction)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_repeats_and_jitter_stays_within_a_quarter() {
        let (one, other) = (Random::seeded(7), Random::seeded(7));
        let mut delays = BTreeSet::new();
        for _ in 0..1000 {
            let delay = one.jittered(Duration::from_secs(4));
            assert_eq!(delay, other.jittered(Duration::from_secs(4)));
            assert!((3.0..5.0).contains(&delay.as_secs_f64()), "{delay:?}");
            delays.insert(delay);
        }
        assert!(delays.len() > 500, "they differ");
    }
}
