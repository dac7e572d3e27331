//! Chance that a seed repeats.

use std::{sync::Arc, time::Duration};

use runtime::Random;

/// Everything that a seed decides. Clones continue the same sequence.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Arc<Random>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Random::seeded(seed)))
    }

    /// A number below the limit.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.0.next() % limit.max(1)
    }

    /// Whether something happens that happens so often in a thousand times.
    pub(crate) fn happens(&self, per_thousand: u64) -> bool {
        self.below(1000) < per_thousand
    }

    pub(crate) fn pick<'a, T>(&self, choices: &'a [T]) -> &'a T {
        let index = self.below(choices.len() as u64);
        &choices[usize::try_from(index).unwrap()]
    }

    /// Up to that many seconds, in milliseconds.
    pub(crate) fn seconds(&self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit * 1000))
    }
}
