//! Which addresses are of one repository.
//!
//! Host and whole path count. The port, the user and what a forge puts into an address only to say how
//! it is reached do not.

use net::AddressPolicy;

use crate::repository_url::RepositoryUrl;

/// Where forges answer to ssh under another name.
const SSH_HOSTS: [(&str, &str); 4] = [
    ("ssh.github.com", "github.com"),
    ("altssh.gitlab.com", "gitlab.com"),
    ("altssh.bitbucket.org", "bitbucket.org"),
    ("ssh.dev.azure.com", AZURE),
];

const AZURE: &str = "dev.azure.com";

/// A repository, however it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    host: String,
    path: String,
}

impl Home {
    /// Nothing where the address is none.
    pub(crate) fn of(url: &str) -> Option<Self> {
        let url = RepositoryUrl::parse(url, AddressPolicy::UNRESTRICTED).ok()?;
        let host = url.host().to_lowercase();
        let known = SSH_HOSTS.iter().find(|(ssh, _)| *ssh == host);
        let mut host = known.map_or(host, |(_, known)| (*known).to_owned());
        let path = url.project().to_lowercase();
        let mut parts: Vec<&str> = path.split('/').filter(|part| *part != "_git").collect();
        // Bitbucket's word over http, Azure's over ssh.
        if parts.len() > 2 && matches!(parts[0], "scm" | "v3") {
            parts.remove(0);
        }
        let mut path = parts.join("/");
        if host == "vs-ssh.visualstudio.com" {
            host = AZURE.to_owned();
        } else if let Some(organisation) = host.strip_suffix(".visualstudio.com") {
            let path_there = path.strip_prefix("defaultcollection/").unwrap_or(&path);
            path = format!("{organisation}/{path_there}");
            host = AZURE.to_owned();
        }
        Some(Self { host, path })
    }

    /// Whether it may be the same under another name of its host, such as one inside a cluster.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

/// Whether two addresses are of one repository.
pub fn is_same_repository(one: &str, other: &str) -> bool {
    Home::of(one).is_some_and(|one| Some(one) == Home::of(other))
}

/// Whether they may be: the host may have several names.
pub fn may_be_same_repository(one: &str, other: &str) -> bool {
    let (one, other) = (Home::of(one), Home::of(other));
    one.zip(other)
        .is_some_and(|(one, other)| one.may_be(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_known_by_host_and_whole_path() {
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
