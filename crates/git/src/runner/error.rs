//! Why a git command failed.

use std::time::Duration;

use net::Remedy;

/// Why a git command failed. `attempted` completes "cannot …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program or its directories are missing.
    #[error("cannot {attempted}: git could not be run")]
    Start {
        /// What was attempted.
        attempted: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// It was killed because it took too long.
    #[error("cannot {attempted}: git took longer than {} seconds", limit.as_secs())]
    TimedOut {
        /// What was attempted.
        attempted: String,
        /// The time limit.
        limit: Duration,
    },
    /// It was killed because it printed or stored too much.
    #[error("cannot {attempted}: more than {limit} bytes")]
    TooLarge {
        /// What was attempted.
        attempted: String,
        /// The size limit in bytes.
        limit: u64,
    },
    /// It exited with an error.
    #[error("cannot {attempted}: {message}")]
    Failed {
        /// What was attempted.
        attempted: String,
        /// The last lines of its error output, without secrets.
        message: String,
    },
    /// The key cannot be used, or a program that signs is missing.
    #[error("cannot sign the commit: {message}")]
    Signing {
        /// The reason and what to do, without secrets.
        message: String,
    },
    /// Its output cannot be parsed.
    #[error("cannot {attempted}: the output of git cannot be read")]
    Unreadable {
        /// What was attempted.
        attempted: String,
    },
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Start { .. } => "GitUnavailable",
            Self::TimedOut { .. } => "GitTimedOut",
            Self::TooLarge { .. } => "RepositoryTooLarge",
            Self::Failed { .. } => "GitFailed",
            Self::Signing { .. } => "SigningFailed",
            Self::Unreadable { .. } => "GitUnreadable",
        }
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::TooLarge { .. } | Self::Signing { .. } => Remedy::Edit,
            _ => Remedy::RETRY,
        }
    }
}
