//! Where a repository is, and whether we may go there.
//!
//! https and ssh only, unless told otherwise; nothing that could be read as an option or that programs
//! read differently; no password in the URL. Names may not resolve to this machine, its link or a
//! cloud's metadata service.

mod authority;
mod internal;

pub(crate) use authority::is_plain;
pub use authority::{parse, parse_with_login};
pub use internal::is_internal;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::Remedy;

/// Why a URL is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be used as it is written.
    #[error("the repository URL is not usable: {because}")]
    Invalid {
        /// The rule it breaks. Never holds the URL, which may hold a password.
        because: &'static str,
    },
    /// It points to where we do not go.
    #[error("{host} is an internal address ({address})")]
    Internal {
        /// The host as written.
        host: String,
        /// What it resolved to.
        address: IpAddr,
    },
    /// Its host has no address.
    #[error("cannot find the address of {host}")]
    Unresolvable {
        /// The host as written.
        host: String,
        /// What the resolver said.
        source: std::io::Error,
    },
}

impl Error {
    /// A fixed word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "InvalidUrl",
            Self::Internal { .. } => "InternalUrl",
            Self::Unresolvable { .. } => "Unresolvable",
        }
    }

    /// What would help.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Invalid { .. } | Self::Internal { .. } => Remedy::Edit,
            Self::Unresolvable { .. } => Remedy::RETRY,
        }
    }
}

/// Where we may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach {
    /// Loopback, link-local and metadata addresses too.
    pub allow_internal: bool,
    /// `http` and `file` too. For tests and the demo.
    pub allow_insecure: bool,
}

/// How a repository is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Over TLS.
    Https,
    /// With a key.
    Ssh,
    /// Unprotected.
    Http,
    /// On this machine.
    File,
}

/// The address of a repository, checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RepositoryUrl {
    text: String,
    scheme: Scheme,
    host: String,
    port: Option<u16>,
    path: String,
}

impl RepositoryUrl {
    /// Reads `https://host/path`, `ssh://user@host/path` or `user@host:path`.
    pub fn parse(text: &str, reach: Reach) -> Result<Self, Error> {
        let invalid = |because| Error::Invalid { because };
        let parsed = if text.contains("://") {
            parse_url(text)?
        } else {
            parse_short(text)?
        };
        let is_insecure = matches!(parsed.scheme, Scheme::Http | Scheme::File);
        if is_insecure && !reach.allow_insecure {
            return Err(invalid("only https and ssh are supported"));
        }
        if parsed.host.starts_with('-') || parsed.path.trim_start_matches('/').starts_with('-') {
            return Err(invalid("neither host nor path may start with a dash"));
        }
        if parsed.project().is_empty() {
            return Err(invalid("it names no repository"));
        }
        if let Ok(address) = parsed.host.trim_matches(['[', ']']).parse::<IpAddr>() {
            check_address(&parsed.host, address, reach)?;
        }
        Ok(parsed)
    }

    /// The address as git takes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How it is reached.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, without port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host, with the port where one is written.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The path as forges speak of it: no slashes around it, no `.git`.
    pub fn project(&self) -> &str {
        let path = self.path.trim_matches('/');
        path.strip_suffix(".git").unwrap_or(path)
    }

    /// Finds the addresses of the host and refuses it if any of them is internal. Nothing for
    /// repositories on this machine.
    pub(crate) async fn resolve(&self, reach: Reach) -> Result<Vec<SocketAddr>, Error> {
        if self.scheme == Scheme::File {
            return Ok(Vec::new());
        }
        let host = self.host.trim_matches(['[', ']']).to_owned();
        let found = tokio::net::lookup_host((host.as_str(), self.port_or_default()))
            .await
            .map_err(|source| Error::Unresolvable {
                host: host.clone(),
                source,
            })?;
        let addresses: Vec<SocketAddr> = found.collect();
        if addresses.is_empty() {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(Error::Unresolvable { host, source });
        }
        for address in &addresses {
            check_address(&host, address.ip(), reach)?;
        }
        Ok(addresses)
    }

    pub(crate) fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            Scheme::Https | Scheme::File => 443,
            Scheme::Http => 80,
            Scheme::Ssh => 22,
        })
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

fn parse_url(text: &str) -> Result<RepositoryUrl, Error> {
    let invalid = |because| Error::Invalid { because };
    let mut url = parse(text).map_err(invalid)?;
    // Azure DevOps shows its URLs with the organisation as a user, which says nothing.
    if url.host_str() == Some("dev.azure.com") && url.password().is_none() {
        let _ = url.set_username("");
    }
    let scheme = match url.scheme() {
        "https" => Scheme::Https,
        "ssh" => Scheme::Ssh,
        "http" => Scheme::Http,
        "file" => Scheme::File,
        _ => return Err(invalid("only https and ssh are supported")),
    };
    if url.password().is_some() || (scheme != Scheme::Ssh && !url.username().is_empty()) {
        return Err(invalid("credentials belong in a secret, not in the URL"));
    }
    if !is_plain(url.username()) {
        return Err(invalid("the user is not a plain name"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("it has a query or a fragment"));
    }
    let host = url.host_str().unwrap_or_default().to_owned();
    if host.is_empty() && scheme != Scheme::File {
        return Err(invalid("it has no host"));
    }
    Ok(RepositoryUrl {
        scheme,
        host,
        port: url.port(),
        path: url.path().to_owned(),
        // What was parsed, not what was written: git must not find another host in it.
        text: url.into(),
    })
}

/// `user@host:path`, as ssh users write it.
fn parse_short(text: &str) -> Result<RepositoryUrl, Error> {
    let invalid = || Error::Invalid {
        because: "it is neither a URL nor user@host:path",
    };
    let (login, path) = text.split_once(':').ok_or_else(invalid)?;
    let (user, host) = login.split_once('@').ok_or_else(invalid)?;
    let is_usable = |part: &str| !part.is_empty() && is_plain(part);
    let is_bounded =
        text.len() <= 2048 && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    if !is_bounded || !is_usable(user) || !is_usable(host) {
        return Err(invalid());
    }
    Ok(RepositoryUrl {
        text: text.to_owned(),
        scheme: Scheme::Ssh,
        host: host.to_owned(),
        port: None,
        path: path.to_owned(),
    })
}

/// Refuses an internal address, unless those are allowed.
pub fn check_address(host: &str, address: IpAddr, reach: Reach) -> Result<(), Error> {
    if reach.allow_internal || !is_internal(address) {
        return Ok(());
    }
    Err(Error::Internal {
        host: host.to_owned(),
        address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Reach = Reach {
        allow_internal: true,
        allow_insecure: true,
    };

    #[test]
    fn usable_addresses_are_taken_apart() {
        for (text, scheme, authority, project) in [
            (
                "https://example.com/team/app.git",
                Scheme::Https,
                "example.com",
                "team/app",
            ),
            (
                "https://example.com/a/b/c/",
                Scheme::Https,
                "example.com",
                "a/b/c",
            ),
            (
                "https://example.com:8443/team/app",
                Scheme::Https,
                "example.com:8443",
                "team/app",
            ),
            (
                "ssh://git@example.com:22/team/app.git",
                Scheme::Ssh,
                "example.com:22",
                "team/app",
            ),
            (
                "https://acme@dev.azure.com/acme/shop/_git/config",
                Scheme::Https,
                "dev.azure.com",
                "acme/shop/_git/config",
            ),
            (
                "git@example.com:team/app.git",
                Scheme::Ssh,
                "example.com",
                "team/app",
            ),
        ] {
            let url = RepositoryUrl::parse(text, Reach::default()).expect(text);
            assert_eq!(
                (url.scheme(), url.authority().as_str(), url.project()),
                (scheme, authority, project)
            );
        }
    }

    #[test]
    fn dangerous_addresses_are_refused() {
        for text in [
            "",
            "nonsense",
            "ext::sh -c touch% /tmp/x",
            "https://",
            "https://example.com",
            "https://example.com/",
            "http://example.com/a/b",
            "file:///etc",
            "git://example.com/a/b",
            "https://user:pw@example.com/a/b",
            "https://token@example.com/a/b",
            "https://example.com/a/b?x=1",
            "https://example.com/a/b#x",
            "-oProxyCommand=x@example.com:a/b",
            "git@-oProxyCommand=x:a/b",
            "ssh://-oProxyCommand=x/a/b",
            "ssh://-x@example.com/a/b",
            "git@example.com:-a/b",
            "https://example.com/-a/b",
            "https://example.com/a /b",
            "https://127.0.0.1/a/b",
            "https://[::1]/a/b",
            "https://169.254.169.254/latest",
            "https://0.0.0.0/a/b",
            "https://[::ffff:127.0.0.1]/a/b",
            "https://[fd00:ec2::254]/a/b",
            "https://[fe80::1]/a/b",
            "https://2130706433/a/b",
            "https://[fd20:ce::254]/a/b",
            "https://168.63.129.16/a/b",
            "https://[64:ff9b::7f00:1]/a/b",
            "https://[2002:7f00:1::]/a/b",
        ] {
            assert!(
                RepositoryUrl::parse(text, Reach::default()).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn the_user_that_azure_shows_is_dropped() {
        let text = "https://acme@dev.azure.com/acme/shop/_git/config";
        let url = RepositoryUrl::parse(text, Reach::default()).expect("a URL");
        assert_eq!(url.as_str(), "https://dev.azure.com/acme/shop/_git/config");
        let with_password = "https://acme:hunter22@dev.azure.com/acme/shop/_git/config";
        assert!(RepositoryUrl::parse(with_password, Reach::default()).is_err());
    }

    #[test]
    fn git_gets_the_host_that_was_checked() {
        // The host before the backslash was checked, and git connected to the one behind it.
        for text in [
            r"https://127.0.0.2\@127.0.0.1:29443/a/b",
            r"ssh://127.0.0.2\@127.0.0.1:29443/a/b",
            "ssh://git@127.0.0.2%2f@127.0.0.1/a/b",
        ] {
            let refused = RepositoryUrl::parse(text, OPEN).expect_err(text);
            assert_eq!(refused.reason(), "InvalidUrl");
        }
        let url = RepositoryUrl::parse("HTTPS://Example.com:443/x/../a/b", OPEN).expect("a URL");
        assert_eq!(url.as_str(), "https://example.com/a/b");
    }

    #[test]
    fn private_networks_are_not_internal() {
        assert!(RepositoryUrl::parse("https://10.1.2.3/a/b", Reach::default()).is_ok());
    }

    #[test]
    fn an_error_never_repeats_the_url() {
        let error =
            RepositoryUrl::parse("https://user:hunter22@example.com/a/b", OPEN).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter22"));
    }

    #[tokio::test]
    async fn names_of_this_machine_are_refused() {
        let url =
            RepositoryUrl::parse("https://localhost/a/b", Reach::default()).expect("it parses");
        let error = url.resolve(Reach::default()).await.unwrap_err();
        assert_eq!(error.reason(), "InternalUrl");
        assert!(url.resolve(OPEN).await.is_ok());
    }
}
