//! Why a manifest could not be read or tagged.

use std::time::Duration;

use net::{AddressError, HttpError, Remedy};

use crate::Digest;

/// Why a manifest could not be read or tagged. Messages hold no credentials and no body of an answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL of the repository is not usable.
    #[error("the repository's URL is not usable: {because}; write it as oci://host/name")]
    InvalidUrl {
        /// The rule it breaks.
        because: &'static str,
    },
    /// The text is not a tag.
    #[error("`{text}` is not a tag: it has letters, digits, `_`, `.` and `-`, at most 128")]
    InvalidTag {
        /// The text.
        text: String,
    },
    /// The text is not a digest that can be verified.
    #[error("only sha256 and sha512 digests can be verified, and this is none")]
    InvalidDigest,
    /// The Secret has no usable credentials.
    #[error("the Secret has no usable credentials for the registry: {because}")]
    InvalidCredentials {
        /// What is wrong with it.
        because: String,
    },
    /// The workload identity of the process cannot be used.
    #[error("the workload identity cannot be used: {because}")]
    WorkloadIdentity {
        /// Why not.
        because: String,
    },
    /// The address policy refuses a host.
    #[error("{host} may not be connected to")]
    Address {
        /// The host of the registry, its token service or a redirect.
        host: String,
        /// The rule.
        source: AddressError,
    },
    /// There was no answer, or not a whole one.
    #[error("{host} gave no usable answer")]
    Unanswered {
        /// The host.
        host: String,
        /// Why.
        source: HttpError,
    },
    /// The credentials are missing, wrong or expired.
    #[error("{host} did not accept the credentials")]
    Unauthorized {
        /// The host.
        host: String,
    },
    /// The credentials do not allow this.
    #[error("{host} does not allow it with these credentials")]
    Forbidden {
        /// The host.
        host: String,
    },
    /// Too many requests.
    #[error("{host} accepts no more requests for {} seconds", after.as_secs())]
    RateLimited {
        /// The host.
        host: String,
        /// How long.
        after: Duration,
    },
    /// The registry has a failure of its own.
    #[error("{host} answered {status}")]
    Unavailable {
        /// The host.
        host: String,
        /// The status.
        status: u16,
    },
    /// The registry refuses the request for another reason.
    #[error("{host} answered {status}{}", code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Refused {
        /// The host.
        host: String,
        /// The status.
        status: u16,
        /// The code of the distribution API, such as `MANIFEST_BLOB_UNKNOWN`.
        code: Option<String>,
    },
    /// A redirect that is not followed.
    #[error("{host} redirects in a way that is not followed: {because}")]
    Redirected {
        /// The host.
        host: String,
        /// Why not.
        because: &'static str,
    },
    /// The token service's answer has no token.
    #[error("the token service {host} answered without a token")]
    NoToken {
        /// The host of the token service.
        host: String,
    },
    /// The bytes are not those of the digest.
    #[error("the registry answered with other contents: expected {expected}, received {actual}")]
    DigestMismatch {
        /// What was asked for or claimed.
        expected: Digest,
        /// The digest of what arrived.
        actual: Digest,
    },
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        if let Some(refused) = self.refused_address() {
            return refused.reason();
        }
        match self {
            Self::InvalidUrl { .. } => "InvalidUrl",
            Self::InvalidTag { .. } => "InvalidTag",
            Self::InvalidDigest => "InvalidDigest",
            Self::InvalidCredentials { .. } => "InvalidCredentials",
            Self::WorkloadIdentity { .. } => "InvalidIdentity",
            Self::Address { source, .. } => source.reason(),
            Self::Unanswered { source, .. } => match source {
                HttpError::Unreachable { .. } => "RegistryUnreachable",
                HttpError::TimedOut { .. } => "RegistryTimedOut",
                HttpError::TooLarge { .. } => "RegistryUnreadable",
            },
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::RateLimited { .. } => "RateLimited",
            Self::Unavailable { .. } => "RegistryUnavailable",
            Self::Refused { .. } => "RegistryRefused",
            Self::Redirected { .. } => "RegistryRedirects",
            Self::NoToken { .. } => "RegistryUnreadable",
            Self::DigestMismatch { .. } => "DigestMismatch",
        }
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        if let Some(refused) = self.refused_address() {
            return refused.remedy();
        }
        match self {
            Self::InvalidUrl { .. }
            | Self::InvalidTag { .. }
            | Self::InvalidDigest
            | Self::InvalidCredentials { .. }
            | Self::WorkloadIdentity { .. }
            | Self::Unauthorized { .. }
            | Self::Forbidden { .. } => Remedy::Edit,
            Self::Address { source, .. } => source.remedy(),
            Self::RateLimited { after, .. } => Remedy::Retry {
                after: Some(*after),
            },
            Self::Unanswered { .. }
            | Self::Unavailable { .. }
            | Self::Refused { .. }
            | Self::Redirected { .. }
            | Self::NoToken { .. }
            | Self::DigestMismatch { .. } => Remedy::RETRY,
        }
    }

    /// The address policy's refusal while connecting, if that is what happened.
    fn refused_address(&self) -> Option<&AddressError> {
        match self {
            Self::Unanswered { source, .. } => source.refused_address(),
            _ => None,
        }
    }
}
