//! URLs of git repositories, parsed and checked.
//!
//! Accepts https and ssh only, unless the address policy allows more. Refuses URLs that could be read as
//! a command line option, that programs parse differently, or that contain a password.

use std::fmt;
use std::net::SocketAddr;

use net::{AddressError, AddressPolicy, is_plain_name, parse_url as parse_any_url};

/// The protocol of a repository URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP over TLS.
    Https,
    /// ssh, with a key.
    Ssh,
    /// HTTP without TLS.
    Http,
    /// A local directory.
    File,
}

/// A checked URL of a git repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RepositoryUrl {
    text: String,
    scheme: Scheme,
    host: String,
    port: Option<u16>,
    path: String,
}

impl RepositoryUrl {
    /// Parses `https://host/path`, `ssh://user@host/path` or `user@host:path`.
    pub fn parse(text: &str, policy: AddressPolicy) -> Result<Self, AddressError> {
        let invalid = |because| AddressError::Invalid { because };
        let parsed = if text.contains("://") {
            parse_url(text)?
        } else {
            parse_scp_like(text)?
        };
        let is_insecure = matches!(parsed.scheme, Scheme::Http | Scheme::File);
        if is_insecure && !policy.allow_insecure {
            return Err(invalid("only https and ssh are supported"));
        }
        if parsed.host.starts_with('-') || parsed.path.trim_start_matches('/').starts_with('-') {
            return Err(invalid("neither host nor path may start with a dash"));
        }
        if parsed.project().is_empty() {
            return Err(invalid("it names no repository"));
        }
        policy.check_host(&parsed.host)?;
        Ok(parsed)
    }

    /// The URL as git expects it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The protocol.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, without port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host, with the port if the URL has one.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The path of the project on the forge: without slashes around it and without `.git`.
    pub fn project(&self) -> &str {
        let path = self.path.trim_matches('/');
        path.strip_suffix(".git").unwrap_or(path)
    }

    /// Resolves the host and refuses it if the policy forbids any of its addresses. Empty for local
    /// directories.
    pub(crate) async fn resolve(
        &self,
        policy: AddressPolicy,
    ) -> Result<Vec<SocketAddr>, AddressError> {
        if self.scheme == Scheme::File {
            return Ok(Vec::new());
        }
        policy.resolve(&self.host, self.port_or_default()).await
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

fn parse_url(text: &str) -> Result<RepositoryUrl, AddressError> {
    let invalid = |because| AddressError::Invalid { because };
    let mut url = parse_any_url(text).map_err(invalid)?;
    // Azure DevOps displays its URLs with the organisation as the user; it has no meaning.
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
    if !is_plain_name(url.username()) {
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
        // The normalised URL, not the text: git must not parse another host from it.
        text: url.into(),
    })
}

/// Parses the scp-like syntax `user@host:path`.
fn parse_scp_like(text: &str) -> Result<RepositoryUrl, AddressError> {
    let invalid = || AddressError::Invalid {
        because: "it is neither a URL nor user@host:path",
    };
    let (login, path) = text.split_once(':').ok_or_else(invalid)?;
    let (user, host) = login.split_once('@').ok_or_else(invalid)?;
    let is_usable = |part: &str| !part.is_empty() && is_plain_name(part);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_urls_are_parsed() {
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
            let url = RepositoryUrl::parse(text, AddressPolicy::default()).expect(text);
            assert_eq!(
                (url.scheme(), url.authority().as_str(), url.project()),
                (scheme, authority, project)
            );
        }
    }

    #[test]
    fn the_short_form_of_ssh_is_one_word_of_bounded_length() {
        let path = |length: usize| format!("git@example.com:{}", "a".repeat(length - 16));
        let (longest, longer) = (path(2048), path(2049));
        for (text, is_usable) in [
            ("git@example.com:a", true),
            (longest.as_str(), true),
            (longer.as_str(), false),
            ("git@example.com:a b", false),
            ("git@example.com:a\u{7}b", false),
        ] {
            let url = RepositoryUrl::parse(text, AddressPolicy::default());
            assert_eq!(url.is_ok(), is_usable, "{text}");
        }
    }

    #[test]
    fn dangerous_urls_are_refused() {
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
                RepositoryUrl::parse(text, AddressPolicy::default()).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn the_user_in_azure_urls_is_dropped() {
        let text = "https://acme@dev.azure.com/acme/shop/_git/config";
        let url = RepositoryUrl::parse(text, AddressPolicy::default()).expect("a URL");
        assert_eq!(url.as_str(), "https://dev.azure.com/acme/shop/_git/config");
        let with_password = "https://acme:hunter22@dev.azure.com/acme/shop/_git/config";
        assert!(RepositoryUrl::parse(with_password, AddressPolicy::default()).is_err());
    }

    #[test]
    fn git_connects_to_the_host_that_was_checked() {
        // Parsers disagree which host these name: the one before or the one after the backslash.
        for text in [
            r"https://127.0.0.2\@127.0.0.1:29443/a/b",
            r"ssh://127.0.0.2\@127.0.0.1:29443/a/b",
            "ssh://git@127.0.0.2%2f@127.0.0.1/a/b",
        ] {
            let refused = RepositoryUrl::parse(text, AddressPolicy::UNRESTRICTED).expect_err(text);
            assert_eq!(refused.reason(), "InvalidUrl");
        }
        let url = RepositoryUrl::parse(
            "HTTPS://Example.com:443/x/../a/b",
            AddressPolicy::UNRESTRICTED,
        )
        .expect("a URL");
        assert_eq!(url.as_str(), "https://example.com/a/b");
    }

    #[test]
    fn private_networks_are_not_internal() {
        assert!(RepositoryUrl::parse("https://10.1.2.3/a/b", AddressPolicy::default()).is_ok());
    }

    #[test]
    fn an_error_never_contains_the_url() {
        let error = RepositoryUrl::parse(
            "https://user:hunter22@example.com/a/b",
            AddressPolicy::UNRESTRICTED,
        )
        .unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter22"));
    }

    #[tokio::test]
    async fn names_of_this_machine_are_refused() {
        let url = RepositoryUrl::parse("https://localhost/a/b", AddressPolicy::default())
            .expect("it parses");
        let error = url.resolve(AddressPolicy::default()).await.unwrap_err();
        assert_eq!(error.reason(), "InternalUrl");
        assert!(url.resolve(AddressPolicy::UNRESTRICTED).await.is_ok());
    }
}
