//! Whether a failed attempt should be retried.

use std::time::Duration;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Retry, after the given delay if there is one.
    Retry {
        /// The delay that the other side asked for.
        after: Option<Duration>,
    },
    /// Retrying is useless until somebody edits a manifest, a credential or a permission.
    Edit,
}

impl Remedy {
    /// Retry without a required delay.
    pub const RETRY: Self = Self::Retry { after: None };

    /// Whether a retry may succeed.
    pub fn is_retry(self) -> bool {
        matches!(self, Self::Retry { .. })
    }
}
