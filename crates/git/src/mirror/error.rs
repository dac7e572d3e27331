//! Why a mirror does not show what the remote has.

use net::{AddressError, Remedy};

use crate::{forge, runner};

/// What went wrong between us and a remote. `attempted` completes "cannot …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL leads where we do not go.
    #[error("cannot reach the repository")]
    Address {
        /// Why.
        #[from]
        source: AddressError,
    },
    /// An app's key could not be traded for a token.
    #[error("cannot get a token for the repository")]
    Token {
        /// Why.
        source: forge::Error,
    },
    /// Wrong or missing credentials.
    #[error("cannot {attempted}: the remote refused the credentials")]
    Unauthorized {
        /// What for.
        attempted: String,
    },
    /// Right credentials, not enough rights.
    #[error("cannot {attempted}: not permitted ({message})")]
    Forbidden {
        /// What for.
        attempted: String,
        /// What the remote said.
        message: String,
    },
    /// No such repository, or none that the credentials may see.
    #[error("cannot {attempted}: there is no such repository, or the credentials do not open it")]
    NotFound {
        /// What for.
        attempted: String,
    },
    /// The remote is not who it says it is, or we do not know it.
    #[error("cannot {attempted}: the remote's identity could not be verified ({message})")]
    UnknownHost {
        /// What for.
        attempted: String,
        /// What git said.
        message: String,
    },
    /// The remote points elsewhere.
    #[error("cannot {attempted}: the repository has moved; update its URL")]
    Moved {
        /// What for.
        attempted: String,
    },
    /// The remote does not answer, or not well.
    #[error("cannot {attempted}: {message}")]
    Unreachable {
        /// What for.
        attempted: String,
        /// What git said.
        message: String,
    },
    /// Our copy of the repository is not whole.
    #[error("cannot {attempted}: the mirror is damaged and will be made anew ({message})")]
    Damaged {
        /// What for.
        attempted: String,
        /// What git said.
        message: String,
    },
    /// Git itself failed.
    #[error(transparent)]
    Git(#[from] runner::Error),
}

impl Error {
    /// A fixed word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Address { source } => source.reason(),
            Self::Token { source } => source.reason(),
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotFound { .. } => "RepositoryNotFound",
            Self::UnknownHost { .. } => "UnknownHost",
            Self::Moved { .. } => "RepositoryMoved",
            Self::Unreachable { .. } => "Unreachable",
            Self::Damaged { .. } => "MirrorDamaged",
            Self::Git(error) => error.reason(),
        }
    }

    /// What would help.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Address { source } => source.remedy(),
            Self::Token { source } => source.remedy(),
            Self::Unreachable { .. } | Self::Damaged { .. } => Remedy::RETRY,
            Self::Git(error) => error.remedy(),
            _ => Remedy::Edit,
        }
    }
}

/// The words are git's, ssh's and curl's, in the C locale.
mod words {
    pub(super) const UNAUTHORIZED: &[&str] = &[
        "Authentication failed",
        "could not read Username",
        "could not read Password",
        "error: 401",
        "Permission denied (publickey",
    ];
    pub(super) const UNKNOWN_HOST: &[&str] = &[
        "Host key verification failed",
        "SSL certificate problem",
        "certificate verification failed",
        "server certificate",
        "SSL: ",
    ];
    pub(super) const MOVED: &[&str] = &[
        "error: 301",
        "error: 302",
        "error: 303",
        "error: 307",
        "error: 308",
        "from redirection",
    ];
    pub(super) const FORBIDDEN: &[&str] = &[
        "error: 403",
        "denied to",
        "Write access to repository not granted",
        "access denied",
        "not allowed to push",
    ];
    pub(super) const DAMAGED: &[&str] = &[
        "bad object",
        "missing blob",
        "missing tree",
        "missing commit",
        "unable to read tree",
        "is corrupt",
        "unresolved deltas",
        "did not send all necessary objects",
        ".lock': File exists",
        "not a git repository",
    ];
    pub(super) const NOT_FOUND: &[&str] = &[
        "epository not found",
        "error: 404",
        "' not found",
        "does not appear to be a git repository",
    ];
}

/// Sorts what git complained about.
pub(crate) fn sort(attempted: String, complaint: &str) -> Error {
    let says = |words: &[&str]| words.iter().any(|word| complaint.contains(word));
    let message = runner::last_lines(complaint);
    if says(words::DAMAGED) {
        return Error::Damaged { attempted, message };
    }
    if says(words::UNAUTHORIZED) {
        return Error::Unauthorized { attempted };
    }
    if says(words::UNKNOWN_HOST) {
        return Error::UnknownHost { attempted, message };
    }
    if says(words::MOVED) {
        return Error::Moved { attempted };
    }
    if says(words::FORBIDDEN) {
        return Error::Forbidden { attempted, message };
    }
    if says(words::NOT_FOUND) {
        return Error::NotFound { attempted };
    }
    Error::Unreachable { attempted, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_sorted() {
        for (complaint, reason) in [
            (
                "fatal: Authentication failed for 'https://example.com/a/b/'",
                "Unauthorized",
            ),
            (
                "fatal: could not read Username for 'https://example.com': terminal prompts disabled",
                "Unauthorized",
            ),
            (
                "git@example.com: Permission denied (publickey).\r\nfatal: Could not read from remote repository.",
                "Unauthorized",
            ),
            (
                "Host key verification failed.\nfatal: Could not read from remote repository.",
                "UnknownHost",
            ),
            (
                "fatal: unable to access 'https://x/': server certificate verification failed. CAfile: none",
                "UnknownHost",
            ),
            (
                "fatal: unable to access 'https://x/': The requested URL returned error: 301",
                "RepositoryMoved",
            ),
            (
                "remote: Permission to a/b.git denied to c.\nfatal: unable to access 'x': The requested URL returned error: 403",
                "Forbidden",
            ),
            (
                "remote: Repository not found.\nfatal: repository 'https://x/' not found",
                "RepositoryNotFound",
            ),
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x",
                "Unreachable",
            ),
            ("fatal: the remote end hung up unexpectedly", "Unreachable"),
            ("", "Unreachable"),
            ("fatal: bad object refs/mirror/main", "MirrorDamaged"),
        ] {
            assert_eq!(
                sort("look".to_owned(), complaint).reason(),
                reason,
                "{complaint}"
            );
        }
    }
}
