//! Why a request to a forge failed.

use std::time::Duration;

use net::Remedy;

/// Why a request to a forge failed. `attempted` completes "cannot …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL or the credentials do not fit the forge.
    #[error("the forge cannot be used: {because}")]
    Unusable {
        /// The reason, a sentence.
        because: String,
    },
    /// The token is wrong or missing.
    #[error("cannot {attempted}: the forge refused the token")]
    Unauthorized {
        /// What was attempted.
        attempted: &'static str,
    },
    /// The token lacks a permission.
    #[error("cannot {attempted}: the token lacks the permission ({message})")]
    Forbidden {
        /// What was attempted.
        attempted: &'static str,
        /// The message of the forge.
        message: String,
    },
    /// The repository or pull request does not exist, or the token may not read it.
    #[error("cannot {attempted}: it does not exist on the forge, or the token may not read it")]
    NotFound {
        /// What was attempted.
        attempted: &'static str,
    },
    /// There is an open pull request for these branches.
    #[error("cannot {attempted}: one exists already")]
    AlreadyExists {
        /// What was attempted.
        attempted: &'static str,
    },
    /// The branch has no commit that is not in the base.
    #[error("cannot {attempted}: the branches do not differ")]
    NoDifference {
        /// What was attempted.
        attempted: &'static str,
    },
    /// The head of the pull request is not the expected commit.
    #[error("cannot {attempted}: its branch has new commits")]
    HeadMoved {
        /// What was attempted.
        attempted: &'static str,
    },
    /// Conflicts, missing reviews, failing checks.
    #[error("cannot {attempted}: it cannot be merged yet ({message})")]
    NotMergeable {
        /// What was attempted.
        attempted: &'static str,
        /// The message of the forge.
        message: String,
    },
    /// Only the merge queue of the base branch may merge.
    #[error("cannot {attempted}: its base branch has a merge queue")]
    MergeQueueRequired {
        /// What was attempted.
        attempted: &'static str,
    },
    /// The forge refused the request for another reason.
    #[error("cannot {attempted}: the forge refused it ({message})")]
    Refused {
        /// What was attempted.
        attempted: &'static str,
        /// The message of the forge.
        message: String,
    },
    /// The rate limit is used up.
    #[error("cannot {attempted}: rate limited for {} more seconds", after.as_secs())]
    RateLimited {
        /// What was attempted.
        attempted: &'static str,
        /// The time until requests are allowed again.
        after: Duration,
    },
    /// The forge has an internal error.
    #[error("cannot {attempted}: the forge answered {status}")]
    Unavailable {
        /// What was attempted.
        attempted: &'static str,
        /// The HTTP status.
        status: u16,
    },
    /// The connection to the forge failed.
    #[error("cannot {attempted}: the forge cannot be reached")]
    Unreachable {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The forge did not answer in time.
    #[error("cannot {attempted}: no complete answer within {} seconds", limit.as_secs())]
    TimedOut {
        /// What was attempted.
        attempted: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The response cannot be parsed, or is too long.
    #[error("cannot {attempted}: the response of the forge cannot be read ({because})")]
    Unreadable {
        /// What was attempted.
        attempted: &'static str,
        /// The reason.
        because: &'static str,
    },
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "ForgeUnusable",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotFound { .. } => "NotFound",
            Self::AlreadyExists { .. } => "AlreadyExists",
            Self::NoDifference { .. } => "NoDifference",
            Self::HeadMoved { .. } => "HeadMoved",
            Self::NotMergeable { .. } => "NotMergeable",
            Self::MergeQueueRequired { .. } => "MergeQueueRequired",
            Self::Refused { .. } => "Refused",
            Self::RateLimited { .. } => "RateLimited",
            Self::Unavailable { .. } => "ForgeUnavailable",
            Self::Unreachable { .. } => "ForgeUnreachable",
            Self::TimedOut { .. } => "ForgeTimedOut",
            Self::Unreadable { .. } => "ForgeUnreadable",
        }
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::RateLimited { after, .. } => Remedy::Retry {
                after: Some(*after),
            },
            // A pull request becomes mergeable by reviews and checks, without an edit.
            Self::HeadMoved { .. }
            | Self::NotMergeable { .. }
            | Self::MergeQueueRequired { .. }
            | Self::AlreadyExists { .. }
            | Self::Unavailable { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Unreadable { .. } => Remedy::RETRY,
            Self::Unusable { .. }
            | Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::NotFound { .. }
            | Self::NoDifference { .. }
            | Self::Refused { .. } => Remedy::Edit,
        }
    }
}
