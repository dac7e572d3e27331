//! A proxy between us and forges, for clusters that let nothing out by itself.
//!
//! It stands between us and every host that is not excepted, for https and http, of forges and of
//! git alike. It then is the proxy that finds addresses and decides which of them may be reached;
//! ssh does not go through it.

use std::fmt;

use url::Url;

use crate::Secret;
use crate::address::{self, Error};

/// Where the proxy is, and which hosts are reached without it.
#[derive(Clone)]
pub struct Proxy {
    /// It may hold a password.
    url: Secret,
    except: Vec<String>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Proxy");
        shown.field("except", &self.except).finish_non_exhaustive()
    }
}

impl Proxy {
    /// As `HTTPS_PROXY` and `NO_PROXY` have it: a URL, and hosts or domains with commas between.
    pub fn new(url: &str, except: &str) -> Result<Self, Error> {
        let url = address::parse_with_login(url);
        let is_usable = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let url = url.ok().filter(is_usable).ok_or(Error::Invalid {
            because: "a proxy is at an http or https URL",
        })?;
        let except = except.split(',').map(|name| name.trim().to_lowercase());
        Ok(Self {
            url: Secret::new(String::from(url)),
            except: except.filter(|name| !name.is_empty()).collect(),
        })
    }

    /// The URL, unless the host is reached without it.
    pub(crate) fn to(&self, host: &str) -> Option<&Secret> {
        let host = host.to_lowercase();
        let is_meant = |name: &String| {
            let domain = name.trim_start_matches("*.").trim_start_matches('.');
            let rest = host.strip_suffix(domain);
            name == "*" || rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_excepted = self.except.iter().any(is_meant);
        (!is_excepted).then_some(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excepted_hosts_and_their_domains_are_reached_directly() {
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
            assert!(proxy.to(host).is_none(), "{host}");
        }
        for host in ["example", "xa.example", "a.example.com"] {
            assert!(proxy.to(host).is_some(), "{host}");
        }
        let none = Proxy::new("http://proxy.example:3128", "*").expect("a proxy");
        assert!(none.to("anything").is_none());
    }

    #[test]
    fn only_proxies_of_http_are_taken() {
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
