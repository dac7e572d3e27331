//! Recognises URLs of the same repository.
//!
//! Host and path count. Port, user and parts of the path that only depend on the protocol do not.

use net::AddressPolicy;

use crate::repository_url::RepositoryUrl;

/// Hosts of forges for ssh, and their usual name.
const SSH_HOSTS: [(&str, &str); 4] = [
    ("ssh.github.com", "github.com"),
    ("altssh.gitlab.com", "gitlab.com"),
    ("altssh.bitbucket.org", "bitbucket.org"),
    ("ssh.dev.azure.com", AZURE),
];

const AZURE: &str = "dev.azure.com";

/// A repository, independent of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryIdentity {
    host: String,
    path: String,
}

impl RepositoryIdentity {
    /// `None` if the URL is not valid.
    pub(crate) fn of(url: &str) -> Option<Self> {
        let url = RepositoryUrl::parse(url, AddressPolicy::UNRESTRICTED).ok()?;
        let host = url.host().to_lowercase();
        let alias = SSH_HOSTS.iter().find(|(ssh, _)| *ssh == host);
        let mut host = alias.map_or(host, |(_, usual)| (*usual).to_owned());
        let path = url.project().to_lowercase();
        let mut parts: Vec<&str> = path.split('/').filter(|part| *part != "_git").collect();
        // `scm` is in http URLs of Bitbucket, `v3` in ssh URLs of Azure DevOps.
        if parts.len() > 2 && matches!(parts[0], "scm" | "v3") {
            parts.remove(0);
        }
        let mut path = parts.join("/");
        if host == "vs-ssh.visualstudio.com" {
            host = AZURE.to_owned();
        } else if let Some(organisation) = host.strip_suffix(".visualstudio.com") {
            let rest = path.strip_prefix("defaultcollection/").unwrap_or(&path);
            path = format!("{organisation}/{rest}");
            host = AZURE.to_owned();
        }
        Some(Self { host, path })
    }

    /// Whether it may be the same repository with another host name, such as one inside a cluster.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

/// Whether two URLs are of the same repository.
pub fn is_same_repository(one: &str, other: &str) -> bool {
    RepositoryIdentity::of(one).is_some_and(|one| Some(one) == RepositoryIdentity::of(other))
}

/// Whether two URLs may be of the same repository, whose host may have several names.
pub fn may_be_same_repository(one: &str, other: &str) -> bool {
    let (one, other) = (RepositoryIdentity::of(one), RepositoryIdentity::of(other));
    one.zip(other)
        .is_some_and(|(one, other)| one.may_be(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_the_same_by_host_and_path() {
        for (one, other) in [
            ("https://github.com/a/b.git", "git@github.com:a/b"),
            (
                "https://github.com/a/b",
                "ssh://git@ssh.github.com:443/A/B.git",
            ),
            (
                "https://gitlab.com/a/x/b",
                "ssh://git@altssh.gitlab.com:443/a/x/b.git",
            ),
            (
                "https://dev.azure.com/o/p/_git/r",
                "git@ssh.dev.azure.com:v3/o/p/r",
            ),
            (
                "https://o.visualstudio.com/p/_git/r",
                "https://dev.azure.com/o/p/_git/r",
            ),
            (
                "https://o.visualstudio.com/DefaultCollection/p/_git/r",
                "o@vs-ssh.visualstudio.com:v3/o/p/r",
            ),
            (
                "https://bb.example/scm/team/r.git",
                "ssh://git@bb.example:7999/team/r.git",
            ),
            (
                "http://127.0.0.1:3000/team/r",
                "http://127.0.0.1:3000/team/r.git",
            ),
        ] {
            assert!(is_same_repository(one, other), "{one} and {other}");
        }
        for (one, other) in [
            (
                "https://gitlab.com/a/x/team/b",
                "https://gitlab.com/a/y/team/b",
            ),
            ("https://github.com/a/b", "https://gitlab.com/a/b"),
            ("https://git.example/a/b", "http://gitea.gitea.svc:3000/a/b"),
            ("https://github.com/a/b", "https://github.com/a/b-2"),
            ("https://git.example/scm/r", "https://git.example/r"),
        ] {
            assert!(!is_same_repository(one, other), "{one} and {other}");
        }
        assert!(may_be_same_repository(
            "https://git.example/a/b",
            "http://gitea.gitea.svc/a/b"
        ));
        assert!(!may_be_same_repository(
            "https://git.example/x/a/b",
            "https://git.example/a/b"
        ));
    }
}
