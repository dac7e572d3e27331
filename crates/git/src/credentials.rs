//! Credentials of a repository and its forge, from the entries of a Secret.
//!
//! The names of the entries are those of Flux. The values stay in memory; [`crate::runner`] passes them
//! to git.

mod signing;

use std::collections::BTreeMap;

use net::{Remedy, SecretValue};
use sha2::{Digest, Sha256};

/// Why the entries of a Secret are not usable as credentials.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// An entry needs another one that is missing.
    #[error("the secret has {present:?} but no {missing:?}")]
    Incomplete {
        /// The entry that exists.
        present: &'static str,
        /// The entry that is missing.
        missing: &'static str,
    },
    /// An entry cannot be parsed.
    #[error("the entry {entry:?} of the secret is not {expected}")]
    Unreadable {
        /// The entry.
        entry: &'static str,
        /// What was expected.
        expected: &'static str,
    },
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        "InvalidCredentials"
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        Remedy::Edit
    }
}

/// An ssh key and the known hosts.
#[derive(Clone)]
pub struct SshKey {
    pub(crate) identity: SecretValue,
    pub(crate) known_hosts: Vec<u8>,
}

/// A GitHub App, which requests short-lived tokens with its key.
#[derive(Clone)]
pub struct GitHubApp {
    pub(crate) id: String,
    pub(crate) installation: String,
    pub(crate) private_key: SecretValue,
    pub(crate) base_url: Option<String>,
}

/// The key that commits are signed with.
#[derive(Clone)]
pub(crate) struct SigningKey {
    pub(crate) key: SecretValue,
    pub(crate) format: SigningFormat,
}

/// The format of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SigningFormat {
    Ssh,
    OpenPgp,
}

/// The name and e-mail address of a committer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Committer {
    pub(crate) name: String,
    pub(crate) email: String,
}

/// The credentials in a Secret. Anonymous if it has none.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Some tokens need a user name without a password.
    pub(crate) username: Option<String>,
    pub(crate) password: Option<(String, SecretValue)>,
    pub(crate) token: Option<SecretValue>,
    pub(crate) ssh: Option<SshKey>,
    pub(crate) app: Option<GitHubApp>,
    pub(crate) certificate_authority: Option<Vec<u8>>,
    /// The URL of the API, if it does not follow from the URL of the repository.
    pub(crate) api_url: Option<String>,
    pub(crate) signing_key: Option<SigningKey>,
    /// As whom to commit, where a signature counts only for that person.
    pub(crate) committer: Option<Committer>,
    fingerprint: [u8; 32],
}

/// The names of the entries.
mod entry {
    pub(super) const USERNAME: &str = "username";
    pub(super) const PASSWORD: &str = "password";
    pub(super) const TOKEN: &str = "token";
    pub(super) const CERTIFICATE_AUTHORITIES: [&str; 2] = ["caFile", "ca.crt"];
    pub(super) const IDENTITY: &str = "identity";
    pub(super) const KNOWN_HOSTS: &str = "known_hosts";
    pub(super) const APP_ID: &str = "githubAppID";
    pub(super) const APP_INSTALLATION: &str = "githubAppInstallationID";
    pub(super) const APP_KEY: &str = "githubAppPrivateKey";
    pub(super) const APP_BASE_URL: &str = "githubAppBaseURL";
    pub(super) const API_URL: &str = "apiURL";
    pub(super) const SIGNING_KEY: &str = "signingKey";
    pub(super) const COMMITTER_NAME: &str = "committerName";
    pub(super) const COMMITTER_EMAIL: &str = "committerEmail";
}

impl Credentials {
    /// Reads the entries of a Secret. Entries with other names are ignored.
    pub fn from_entries(entries: &BTreeMap<String, Vec<u8>>) -> Result<Self, Error> {
        Ok(Self {
            username: read_text(entries, entry::USERNAME)?,
            password: read_password(entries)?,
            token: read_secret(entries, entry::TOKEN),
            ssh: read_ssh(entries)?,
            app: read_app(entries)?,
            certificate_authority: entry::CERTIFICATE_AUTHORITIES
                .iter()
                .find_map(|name| entries.get(*name))
                .filter(|value| !value.is_empty())
                .cloned(),
            api_url: read_text(entries, entry::API_URL)?,
            signing_key: signing::read_key(entries)?,
            committer: signing::read_committer(entries)?,
            fingerprint: fingerprint(entries),
        })
    }

    /// Whether there are credentials for the API of a forge.
    pub fn has_forge_token(&self) -> bool {
        self.token.is_some() || self.app.is_some() || self.password.is_some()
    }

    /// The user name that a host requires with a token. Most accept any; Bitbucket requires another
    /// one for each type of token.
    pub(crate) fn git_user(&self, host: &str, token: &SecretValue) -> Option<&str> {
        if host != "bitbucket.org" {
            return None;
        }
        let text = token.expose_text().unwrap_or_default();
        match &self.username {
            _ if text.starts_with("ATATT") => Some("x-bitbucket-api-token-auth"),
            Some(username) if text.starts_with("ATBB") => Some(username),
            _ if self.password.is_some() => None,
            _ => Some("x-token-auth"),
        }
    }

    /// A hash of the entries, to compare credentials.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }
}

fn read_secret(entries: &BTreeMap<String, Vec<u8>>, name: &str) -> Option<SecretValue> {
    entries
        .get(name)
        .map(|value| SecretValue::new(value.clone()))
        .filter(|secret| !secret.is_empty())
}

fn read_text(
    entries: &BTreeMap<String, Vec<u8>>,
    name: &'static str,
) -> Result<Option<String>, Error> {
    let Some(secret) = read_secret(entries, name) else {
        return Ok(None);
    };
    match secret.expose_text() {
        Some(text) if !text.contains(char::is_control) => Ok(Some(text.to_owned())),
        _ => Err(Error::Unreadable {
            entry: name,
            expected: "one line of text",
        }),
    }
}

fn read_password(
    entries: &BTreeMap<String, Vec<u8>>,
) -> Result<Option<(String, SecretValue)>, Error> {
    let username = read_text(entries, entry::USERNAME)?;
    // A password must be one line, because it is sent in a header.
    let is_password = read_text(entries, entry::PASSWORD)?.is_some();
    match (
        username,
        read_secret(entries, entry::PASSWORD).filter(|_| is_password),
    ) {
        (Some(username), Some(password)) => Ok(Some((username, password))),
        (None, Some(_)) => Err(Error::Incomplete {
            present: entry::PASSWORD,
            missing: entry::USERNAME,
        }),
        // A user name without a password belongs to a key or token.
        (_, None) => Ok(None),
    }
}

fn read_ssh(entries: &BTreeMap<String, Vec<u8>>) -> Result<Option<SshKey>, Error> {
    let Some(identity) = read_secret(entries, entry::IDENTITY) else {
        return Ok(None);
    };
    // Without known hosts, the host could not be verified.
    let Some(known_hosts) = entries
        .get(entry::KNOWN_HOSTS)
        .filter(|value| !value.is_empty())
    else {
        return Err(Error::Incomplete {
            present: entry::IDENTITY,
            missing: entry::KNOWN_HOSTS,
        });
    };
    Ok(Some(SshKey {
        identity,
        known_hosts: known_hosts.clone(),
    }))
}

fn read_app(entries: &BTreeMap<String, Vec<u8>>) -> Result<Option<GitHubApp>, Error> {
    let Some(private_key) = read_secret(entries, entry::APP_KEY) else {
        return Ok(None);
    };
    let needed = |name: &'static str| {
        read_text(entries, name)?
            .filter(|text| {
                text.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
            })
            .ok_or(Error::Incomplete {
                present: entry::APP_KEY,
                missing: name,
            })
    };
    Ok(Some(GitHubApp {
        id: needed(entry::APP_ID)?,
        installation: needed(entry::APP_INSTALLATION)?,
        private_key,
        base_url: read_text(entries, entry::APP_BASE_URL)?,
    }))
}

fn fingerprint(entries: &BTreeMap<String, Vec<u8>>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (name, value) in entries {
        hash.update(name.len().to_le_bytes());
        hash.update(name);
        hash.update(value.len().to_le_bytes());
        hash.update(value);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<Credentials, Error> {
        let entries = entries
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        Credentials::from_entries(&entries.collect())
    }

    #[test]
    fn a_secret_without_credentials_is_anonymous() {
        let credentials = read(&[("hmac-key", "x")]).expect("other entries are ignored");
        assert!(credentials.password.is_none() && !credentials.has_forge_token());
    }

    #[test]
    fn the_api_of_a_forge_takes_a_token_a_password_or_an_app() {
        for (entries, expected) in [
            (vec![("token", "x")], true),
            (vec![("username", "ann"), ("password", "x")], true),
            (vec![("identity", "x"), ("known_hosts", "x")], false),
        ] {
            let credentials = read(&entries).expect("credentials");
            assert_eq!(credentials.has_forge_token(), expected, "{entries:?}");
        }
    }

    #[test]
    fn incomplete_credentials_are_refused() {
        for (entries, missing) in [
            (vec![("password", "x")], "username"),
            (vec![("identity", "x")], "known_hosts"),
            (vec![("githubAppPrivateKey", "x")], "githubAppID"),
        ] {
            let error = read(&entries).err().expect("half a credential");
            assert!(error.to_string().contains(missing), "{error}");
            assert_eq!(error.reason(), "InvalidCredentials");
        }
    }

    #[test]
    fn a_password_of_two_lines_is_refused() {
        let error = read(&[("username", "a"), ("password", "a\r\nX-Header: b")]).err();
        assert_eq!(
            error,
            Some(Error::Unreadable {
                entry: "password",
                expected: "one line of text"
            })
        );
    }

    #[test]
    fn bitbucket_gets_the_user_name_of_each_token_type() {
        for (entries, expected) in [
            (
                vec![("username", "a@b.c"), ("token", "ATATTx")],
                Some("x-bitbucket-api-token-auth"),
            ),
            (
                vec![("username", "a@b.c"), ("password", "ATATTx")],
                Some("x-bitbucket-api-token-auth"),
            ),
            (vec![("username", "ann"), ("token", "ATBBx")], Some("ann")),
            (vec![("token", "ATCTTx")], Some("x-token-auth")),
            (vec![("username", "ann"), ("password", "x")], None),
        ] {
            let credentials = read(&entries).expect("credentials");
            let secret = SecretValue::new(entries[entries.len() - 1].1.as_bytes().to_vec());
            let user = |host| credentials.git_user(host, &secret);
            assert_eq!(user("bitbucket.org"), expected, "{entries:?}");
            assert_eq!(user("github.com"), None);
        }
    }

    #[test]
    fn fingerprints_of_credentials_differ() {
        let [one, other] = [[("token", "aaaa")], [("token", "bbbb")]].map(|entries| read(&entries));
        let (one, other) = (one.expect("a token"), other.expect("a token"));
        assert_ne!(one.fingerprint(), other.fingerprint());
    }
}
