//! Why a forge did not do what was asked.

use std::time::Duration;

use net::Remedy;

/// What went wrong. `attempted` completes "cannot …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The repository's URL does not fit the forge, or the credentials do not.
    #[error("the forge cannot be used: {because}")]
    Unusable {
        /// A sentence.
        because: String,
    },
    /// Wrong or missing token.
    #[error("cannot {attempted}: the forge refused the token")]
    Unauthorized {
        /// What for.
        attempted: &'static str,
    },
    /// Right token, not enough rights.
    #[error("cannot {attempted}: the token is not permitted to ({message})")]
    Forbidden {
        /// What for.
        attempted: &'static str,
        /// What the forge said.
        message: String,
    },
    /// No such repository or pull request, or none that the token may see.
    #[error("cannot {attempted}: the forge does not know it, or the token does not open it")]
    NotFound {
        /// What for.
        attempted: &'static str,
    },
    /// There is an open pull request for these branches.
    #[error("cannot {attempted}: there is one already")]
    AlreadyExists {
        /// What for.
        attempted: &'static str,
    },
    /// The branch has nothing that the base does not have.
    #[error("cannot {attempted}: the branches do not differ")]
    NoDifference {
        /// What for.
        attempted: &'static str,
    },
    /// The pull request is not what was looked at any more.
    #[error("cannot {attempted}: its branch moved")]
    HeadMoved {
        /// What for.
        attempted: &'static str,
    },
    /// Conflicts, missing reviews, failing checks.
    #[error("cannot {attempted}: it is not ready to be merged ({message})")]
    NotMergeable {
        /// What for.
        attempted: &'static str,
        /// What the forge said.
        message: String,
    },
    /// Anything else the forge does not want.
    #[error("cannot {attempted}: the forge refused it ({message})")]
    Refused {
        /// What for.
        attempted: &'static str,
        /// What the forge said.
        message: String,
    },
    /// We asked too much.
    #[error("cannot {attempted}: rate limited for {} more seconds", after.as_secs())]
    RateLimited {
        /// What for.
        attempted: &'static str,
        /// When asking is allowed again.
        after: Duration,
    },
    /// The forge is not well.
    #[error("cannot {attempted}: the forge answered {status}")]
    Unavailable {
        /// What for.
        attempted: &'static str,
        /// The HTTP status.
        status: u16,
    },
    /// The forge does not answer.
    #[error("cannot {attempted}: the forge cannot be reached")]
    Unreachable {
        /// What for.
        attempted: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The forge takes too long.
    #[error("cannot {attempted}: no complete answer within {} seconds", limit.as_secs())]
    TimedOut {
        /// What for.
        attempted: &'static str,
        /// How long it may take.
        limit: Duration,
    },
    /// The forge says something we cannot read, or too much.
    #[error("cannot {attempted}: the forge's answer is not understood ({because})")]
    Unreadable {
        /// What for.
        attempted: &'static str,
        /// A few words.
        because: &'static str,
    },
}

impl Error {
    /// A fixed word.
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
            Self::Refused { .. } => "Refused",
            Self::RateLimited { .. } => "RateLimited",
            Self::Unavailable { .. } => "ForgeUnavailable",
            Self::Unreachable { .. } => "ForgeUnreachable",
            Self::TimedOut { .. } => "ForgeTimedOut",
            Self::Unreadable { .. } => "ForgeUnreadable",
        }
    }

    /// What would help.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::RateLimited { after, .. } => Remedy::Retry {
                after: Some(*after),
            },
            // A pull request becomes mergeable by what others do, without an edit of ours.
            Self::HeadMoved { .. }
            | Self::NotMergeable { .. }
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
