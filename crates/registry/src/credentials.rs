//! The credentials for one registry, from the entries of a Secret.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use net::SecretValue;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::Error;

/// The entry of a Secret of type `kubernetes.io/dockerconfigjson`.
const DOCKER_CONFIG: &str = ".dockerconfigjson";
/// The entries that may hold a certificate authority.
const AUTHORITIES: [&str; 2] = ["caFile", "ca.crt"];
/// The host whose credentials docker stores under other names.
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// How to authenticate to one registry. Has neither `Debug` nor `Display`.
pub struct Credentials {
    pub(crate) login: Login,
    pub(crate) certificate_authority: Option<Vec<u8>>,
    fingerprint: [u8; 32],
}

pub(crate) enum Login {
    Anonymous,
    Password {
        username: String,
        password: SecretValue,
    },
    /// A refresh token, which a token service exchanges for others.
    IdentityToken(SecretValue),
    /// A token that the registry itself accepts.
    RegistryToken(SecretValue),
}

/// The file that docker writes.
#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, DockerLogin>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerLogin {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

impl Credentials {
    /// No credentials.
    pub fn anonymous() -> Self {
        Self::new(Login::Anonymous, &BTreeMap::new())
    }

    /// User name and password.
    pub fn password(username: &str, password: &str) -> Self {
        let entries = [("username", username), ("password", password)];
        let entries = entries.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        let login = Login::Password {
            username: username.to_owned(),
            password: SecretValue::new(password),
        };
        Self::new(login, &entries.into())
    }

    /// A refresh token of the registry.
    pub(crate) fn identity_token(token: &str) -> Self {
        let entries = [("token".to_owned(), token.as_bytes().to_vec())];
        Self::new(
            Login::IdentityToken(SecretValue::new(token)),
            &entries.into(),
        )
    }

    /// The credentials for a host in the entries of a Secret: `.dockerconfigjson`, or `username` and
    /// `password`, or `token`; and the certificate authority in `caFile` or `ca.crt`.
    pub fn from_entries(entries: &BTreeMap<String, Vec<u8>>, host: &str) -> Result<Self, Error> {
        if let Some(config) = entries.get(DOCKER_CONFIG) {
            return Ok(Self::new(docker_login(config, host)?, entries));
        }
        let text = |name: &str| {
            entries
                .get(name)
                .map(|value| one_line(name, value))
                .transpose()
        };
        let login = match (text("username")?, text("password")?, text("token")?) {
            (Some(username), Some(password), _) => Login::Password {
                username,
                password: SecretValue::new(password),
            },
            (Some(_), None, None) => return Err(invalid("`username` is there, `password` is not")),
            (None, Some(_), None) => return Err(invalid("`password` is there, `username` is not")),
            (_, _, Some(token)) => Login::RegistryToken(SecretValue::new(token)),
            (None, None, None) => Login::Anonymous,
        };
        Ok(Self::new(login, entries))
    }

    fn new(login: Login, entries: &BTreeMap<String, Vec<u8>>) -> Self {
        let mut hash = Sha256::new();
        for (name, value) in entries {
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
            hash.update((value.len() as u64).to_be_bytes());
            hash.update(value);
        }
        let authority = AUTHORITIES.iter().find_map(|name| entries.get(*name));
        Self {
            login,
            certificate_authority: authority.filter(|it| !it.is_empty()).cloned(),
            fingerprint: hash.finalize().into(),
        }
    }

    /// A hash of the entries, to compare credentials.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The header for user name and password.
    pub(crate) fn basic(&self) -> Option<HeaderValue> {
        let Login::Password { username, password } = &self.login else {
            return None;
        };
        let password = password.expose_text().unwrap_or_default();
        let value = STANDARD.encode(format!("{username}:{password}"));
        sensitive(&format!("Basic {value}"))
    }
}

/// A header with a credential, which is never logged.
pub(crate) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn docker_login(config: &[u8], host: &str) -> Result<Login, Error> {
    let config: DockerConfig = serde_json::from_slice(config)
        .map_err(|_| invalid("`.dockerconfigjson` is not what `docker login` writes"))?;
    let mut auths = config.auths.into_iter();
    let (_, found) = auths
        .find(|(key, _)| is_key_of(key, host))
        .ok_or_else(|| invalid(&format!("`.dockerconfigjson` has no entry for {host}")))?;
    if let Some(token) = found.registrytoken.filter(|it| !it.is_empty()) {
        return Ok(Login::RegistryToken(SecretValue::new(token)));
    }
    if let Some(token) = found.identitytoken.filter(|it| !it.is_empty()) {
        return Ok(Login::IdentityToken(SecretValue::new(token)));
    }
    let (username, password) = match (found.username, found.password, found.auth) {
        (Some(username), Some(password), _) if !username.is_empty() => (username, password),
        (_, _, Some(auth)) => decoded(&auth)?,
        _ => return Err(invalid(&format!("the entry for {host} has no login"))),
    };
    Ok(Login::Password {
        username,
        password: SecretValue::new(password),
    })
}

/// User name and password as docker encodes them.
fn decoded(auth: &str) -> Result<(String, String), Error> {
    let unreadable = || invalid("`auth` in `.dockerconfigjson` is not user:password in base64");
    let bytes = STANDARD.decode(auth.trim()).map_err(|_| unreadable())?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable())?;
    let (username, password) = text.split_once(':').ok_or_else(unreadable)?;
    Ok((username.to_owned(), password.to_owned()))
}

/// Whether a key of docker's file means a host. Keys may have a scheme and a path.
fn is_key_of(key: &str, host: &str) -> bool {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest);
    let key = key.split('/').next().unwrap_or_default();
    let is_hub = |host: &str| DOCKER_HUB.contains(&host);
    key.eq_ignore_ascii_case(host) || is_hub(key) && is_hub(host)
}

fn one_line(name: &str, value: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(value).map(str::trim).ok();
    let text = text.filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
    text.map(str::to_owned)
        .ok_or_else(|| invalid(&format!("`{name}` is not one line of text")))
}

fn invalid(because: &str) -> Error {
    Error::InvalidCredentials {
        because: because.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)], host: &str) -> Result<String, Error> {
        let entries = entries.iter();
        let entries = entries.map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        let credentials = Credentials::from_entries(&entries.collect(), host)?;
        let text = |token: &SecretValue| token.expose_text().unwrap_or_default().to_owned();
        Ok(match &credentials.login {
            Login::Anonymous => "anonymous".to_owned(),
            Login::Password { username, password } => format!("{username} {}", text(password)),
            Login::IdentityToken(token) => format!("identity {}", text(token)),
            Login::RegistryToken(token) => format!("registry {}", text(token)),
        })
    }

    #[test]
    fn secrets_of_flux_and_docker_are_read() {
        let config = r#"{"auths": {
            "ghcr.io": {"auth": "am9lOnB3"},
            "https://index.docker.io/v1/": {"username": "hub", "password": "secret"},
            "https://acr.example:8443": {"auth": "MDA6", "identitytoken": "refresh"},
            "token.example": {"registrytoken": "t"}, "empty.example": {}}}"#;
        let docker = [(DOCKER_CONFIG, config)];
        for (entries, host, expected) in [
            (&docker[..], "ghcr.io", "joe pw"),
            (&docker[..], "docker.io", "hub secret"),
            (&docker[..], "acr.example:8443", "identity refresh"),
            (&docker[..], "token.example", "registry t"),
            (
                &[("username", "joe\n"), ("password", "pw\n")][..],
                "x",
                "joe pw",
            ),
            (&[("token", "t")][..], "x", "registry t"),
            (&[("caFile", "x")][..], "x", "anonymous"),
        ] {
            assert_eq!(read(entries, host).ok().as_deref(), Some(expected));
        }
    }

    #[test]
    fn incomplete_secrets_say_what_is_missing() {
        let config = r#"{"auths": {"ghcr.io": {"auth": "!"}, "empty.example": {}}}"#;
        for (entries, complaint) in [
            (vec![("username", "joe")], "`password` is not"),
            (vec![("password", "pw")], "`username` is not"),
            (
                vec![("username", "a"), ("password", "b\r\nX: y")],
                "one line",
            ),
            (vec![(DOCKER_CONFIG, "{")], "docker login"),
            (
                vec![(DOCKER_CONFIG, r#"{"auths": {}}"#)],
                "no entry for ghcr.io",
            ),
            (vec![(DOCKER_CONFIG, config)], "base64"),
        ] {
            let error = read(&entries, "ghcr.io").expect_err(complaint);
            assert!(error.to_string().contains(complaint), "{error}");
        }
        let error = read(&[(DOCKER_CONFIG, config)], "empty.example");
        assert!(
            error
                .expect_err("no login")
                .to_string()
                .contains("no login")
        );
    }
}
