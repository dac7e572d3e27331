//! Which hosts this process may connect to.
//!
//! By default only over TLS or ssh, and never to an address of this machine, its link or a cloud's
//! metadata service. The policy is applied to the resolved addresses, not only to the host name.

mod internal;

pub use internal::is_internal;

use std::net::{IpAddr, SocketAddr};

use crate::Remedy;

/// Why a URL is refused.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The URL breaks a rule.
    #[error("the URL is not usable: {because}")]
    Invalid {
        /// The rule it breaks. Never contains the URL, which may contain a password.
        because: &'static str,
    },
    /// The host is, or resolves to, an internal address.
    #[error("{host} is an internal address ({address})")]
    Internal {
        /// The host as written.
        host: String,
        /// The address it resolved to.
        address: IpAddr,
    },
    /// The host name does not resolve.
    #[error("cannot resolve the host name {host}")]
    Unresolvable {
        /// The host as written.
        host: String,
        /// The error of the resolver.
        source: std::io::Error,
    },
}

impl AddressError {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "InvalidUrl",
            Self::Internal { .. } => "InternalUrl",
            Self::Unresolvable { .. } => "UnknownHost",
        }
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Invalid { .. } | Self::Internal { .. } => Remedy::Edit,
            Self::Unresolvable { .. } => Remedy::RETRY,
        }
    }
}

/// Which hosts may be connected to, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Allows loopback, link-local and metadata addresses.
    pub allow_internal: bool,
    /// Allows connections without TLS: `http`, and `file` for repositories.
    pub allow_insecure: bool,
}

impl AddressPolicy {
    /// Allows every address and every scheme.
    pub const UNRESTRICTED: Self = Self {
        allow_internal: true,
        allow_insecure: true,
    };

    /// Refuses an internal address, unless the policy allows those. `host` is for the error.
    pub fn check(self, host: &str, address: IpAddr) -> Result<(), AddressError> {
        if self.allow_internal || !is_internal(address) {
            return Ok(());
        }
        Err(AddressError::Internal {
            host: host.to_owned(),
            address,
        })
    }

    /// Checks a host that is written as an IP address. Host names pass: [`AddressPolicy::resolve`]
    /// checks the addresses they resolve to.
    pub fn check_host(self, host: &str) -> Result<(), AddressError> {
        match without_brackets(host).parse() {
            Ok(address) => self.check(host, address),
            Err(_) => Ok(()),
        }
    }

    /// Resolves a host and refuses it if any of its addresses is forbidden. Never returns an empty
    /// list.
    pub async fn resolve(self, host: &str, port: u16) -> Result<Vec<SocketAddr>, AddressError> {
        let host = without_brackets(host);
        let unresolvable = |source| AddressError::Unresolvable {
            host: host.to_owned(),
            source,
        };
        let addresses = tokio::net::lookup_host((host, port)).await;
        let addresses: Vec<SocketAddr> = addresses.map_err(unresolvable)?.collect();
        if addresses.is_empty() {
            return Err(unresolvable(std::io::ErrorKind::NotFound.into()));
        }
        for address in &addresses {
            self.check(host, address.ip())?;
        }
        Ok(addresses)
    }
}

fn without_brackets(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn host_names_of_this_machine_are_refused() {
        let error = AddressPolicy::default().resolve("localhost", 443).await;
        assert_eq!(error.unwrap_err().reason(), "InternalUrl");
        assert!(
            AddressPolicy::UNRESTRICTED
                .resolve("localhost", 443)
                .await
                .is_ok()
        );
    }

    #[test]
    fn only_internal_ip_addresses_are_refused_before_resolving() {
        let policy = AddressPolicy::default();
        for host in ["127.0.0.1", "[::1]", "169.254.169.254"] {
            assert!(policy.check_host(host).is_err(), "{host}");
        }
        for host in ["10.1.2.3", "localhost", "example.com"] {
            assert!(policy.check_host(host).is_ok(), "{host}");
        }
    }
}
