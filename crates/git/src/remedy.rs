//! What would make a failed attempt succeed.

use std::time::Duration;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Trying again may help, not before the given delay if there is one.
    Retry {
        /// How long the other side asked us to wait.
        after: Option<Duration>,
    },
    /// Nothing changes until a person edits something: a manifest, a credential, a permission.
    Edit,
}

impl Remedy {
    /// Trying again may help, at any time.
    pub const RETRY: Self = Self::Retry { after: None };

    /// Whether trying again may help.
    pub fn is_retry(self) -> bool {
        matches!(self, Self::Retry { .. })
    }
}
