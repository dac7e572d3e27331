//! Why a remote repository could not be read.

use net::{AddressError, Remedy};

use crate::{forge, runner};

/// Why a remote repository could not be read. `attempted` completes "cannot …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address policy forbids the URL, or it does not resolve.
    #[error("cannot reach the repository")]
    Address {
        /// The cause.
        #[from]
        source: AddressError,
    },
    /// The token of a GitHub App could not be requested.
    #[error("cannot get a token for the repository")]
    Token {
        /// The cause.
        source: forge::Error,
    },
    /// The credentials are wrong or missing.
    #[error("cannot {attempted}: the remote refused the credentials")]
    Unauthorized {
        /// What was attempted.
        attempted: String,
    },
    /// The credentials lack a permission.
    #[error("cannot {attempted}: the credentials lack the permission ({message})")]
    Forbidden {
        /// What was attempted.
        attempted: String,
        /// The message of the remote.
        message: String,
    },
    /// The repository does not exist, or the credentials may not read it.
    #[error(
        "cannot {attempted}: the repository does not exist, or the credentials may not read it"
    )]
    NotFound {
        /// What was attempted.
        attempted: String,
    },
    /// The certificate or host key of the remote is not trusted.
    #[error("cannot {attempted}: the remote's identity could not be verified ({message})")]
    UnknownHost {
        /// What was attempted.
        attempted: String,
        /// The message of git.
        message: String,
    },
    /// The remote redirects to another URL.
    #[error("cannot {attempted}: the repository has moved; update its URL")]
    Moved {
        /// What was attempted.
        attempted: String,
    },
    /// The connection failed.
    #[error("cannot {attempted}: {message}")]
    Unreachable {
        /// What was attempted.
        attempted: String,
        /// The message of git.
        message: String,
    },
    /// The mirror is damaged.
    #[error("cannot {attempted}: the mirror is damaged and will be fetched again ({message})")]
    Damaged {
        /// What was attempted.
        attempted: String,
        /// The message of git.
        message: String,
    },
    /// The git command failed.
    #[error(transparent)]
    Git(#[from] runner::Error),
}

impl Error {
    /// A fixed word for metrics, events and conditions.
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

    /// Whether to retry or to wait for an edit.
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

/// Parts of the messages of git, ssh and curl in the C locale.
mod messages {
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

/// The error for the error output of git.
pub(crate) fn classify_failure(attempted: String, stderr: &str) -> Error {
    let contains = |texts: &[&str]| texts.iter().any(|text| stderr.contains(text));
    let message = runner::last_lines(stderr);
    if contains(messages::DAMAGED) {
        return Error::Damaged { attempted, message };
    }
    if contains(messages::UNAUTHORIZED) {
        return Error::Unauthorized { attempted };
    }
    if contains(messages::UNKNOWN_HOST) {
        return Error::UnknownHost { attempted, message };
    }
    if contains(messages::MOVED) {
        return Error::Moved { attempted };
    }
    if contains(messages::FORBIDDEN) {
        return Error::Forbidden { attempted, message };
    }
    if contains(messages::NOT_FOUND) {
        return Error::NotFound { attempted };
    }
    Error::Unreachable { attempted, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classified() {
        for (stderr, reason) in [
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
                classify_failure("list".to_owned(), stderr).reason(),
                reason,
                "{stderr}"
            );
        }
    }

    #[test]
    fn what_kept_us_from_the_repository_says_whether_to_try_again() {
        let invalid = AddressError::Invalid { because: "" };
        let unresolvable = AddressError::Unresolvable {
            host: String::new(),
            source: std::io::Error::other("no answer"),
        };
        let token = |error| Error::Token { source: error };
        let attempted = "get a token for the app";
        let status = 503;
        for (error, expected) in [
            (invalid.into(), Remedy::Edit),
            (unresolvable.into(), Remedy::RETRY),
            (
                token(forge::Error::Unauthorized { attempted }),
                Remedy::Edit,
            ),
            (
                token(forge::Error::Unavailable { attempted, status }),
                Remedy::RETRY,
            ),
        ] {
            assert_eq!(error.remedy(), expected, "{error:?}");
        }
    }
}
