//! The HTTP proxy for clusters that allow no direct outbound connections.
//!
//! Applies to https and http, in HTTP clients and in git, for every host that is not excluded. The
//! proxy then resolves host names and decides which addresses may be reached. It does not apply to ssh.

use std::fmt;

use url::Url;

use crate::{AddressError, SecretValue, parse_url_with_login};

/// The URL of a proxy, and the hosts that are reached without it.
#[derive(Clone)]
pub struct Proxy {
    /// May contain a password.
    url: SecretValue,
    excluded_hosts: Vec<String>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut proxy = formatter.debug_struct("Proxy");
        proxy.field("excluded_hosts", &self.excluded_hosts);
        proxy.finish_non_exhaustive()
    }
}

impl Proxy {
    /// In the syntax of `HTTPS_PROXY` and `NO_PROXY`: a URL, and hosts or domains separated by commas.
    pub fn new(url: &str, excluded_hosts: &str) -> Result<Self, AddressError> {
        let url = parse_url_with_login(url);
        let is_usable = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let url = url.ok().filter(is_usable).ok_or(AddressError::Invalid {
            because: "the URL of a proxy starts with http:// or https://",
        })?;
        let excluded_hosts = excluded_hosts.split(',');
        let excluded_hosts = excluded_hosts.map(|host| host.trim().to_lowercase());
        Ok(Self {
            url: SecretValue::new(String::from(url)),
            excluded_hosts: excluded_hosts.filter(|host| !host.is_empty()).collect(),
        })
    }

    /// The URL of the proxy, unless the host is excluded.
    pub fn url_for(&self, host: &str) -> Option<&SecretValue> {
        let host = host.to_lowercase();
        let matches = |excluded: &String| {
            let domain = excluded.trim_start_matches("*.").trim_start_matches('.');
            let rest = host.strip_suffix(domain);
            excluded == "*" || rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_excluded = self.excluded_hosts.iter().any(matches);
        (!is_excluded).then_some(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_hosts_and_their_domains_are_reached_directly() {
        let proxy = Proxy::new(
            "http://proxy.example:3128",
            "a.example, .b.example,*.c.example",
        );
        let proxy = proxy.expect("a proxy");
        for host in [
            "a.example",
            "x.a.example",
            "b.example",
            "X.B.example",
            "y.c.example",
        ] {
            assert!(proxy.url_for(host).is_none(), "{host}");
        }
        for host in ["example", "xa.example", "a.example.com"] {
            assert!(proxy.url_for(host).is_some(), "{host}");
        }
        let none = Proxy::new("http://proxy.example:3128", "*").expect("a proxy");
        assert!(none.url_for("anything").is_none());
    }

    #[test]
    fn only_http_proxies_are_accepted() {
        for url in [
            "",
            "proxy.example",
            "socks5://proxy.example",
            "http://",
            r"http://a.example\@b.example:3128",
        ] {
            assert!(Proxy::new(url, "").is_err(), "{url}");
        }
    }
}
