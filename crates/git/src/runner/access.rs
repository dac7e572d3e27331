//! How credentials reach one git process: by its environment, or by files that live as long as it.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use net::SecretValue;

use crate::credentials::SshKey;
use crate::repository_url::{RepositoryUrl, Scheme};

/// What ssh gets where there is no key: it then refuses every host.
pub(super) const SSH_WITHOUT_KEY: &str = "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/dev/null";

/// Who we are to one remote, for one run.
#[derive(Clone, Default)]
pub struct Access {
    origin: String,
    login: Option<(String, SecretValue)>,
    key: Option<SshKey>,
    certificate_authority: Option<Vec<u8>>,
    /// What curl takes for the addresses of the host.
    resolved: Vec<String>,
    /// The address that ssh connects to, and the name that it knows the host by.
    pinned: Option<(String, String)>,
    proxy: Option<SecretValue>,
}

impl Access {
    /// Access to a repository, with what its scheme can use.
    pub(crate) fn new(
        url: &RepositoryUrl,
        login: Option<(String, SecretValue)>,
        key: Option<SshKey>,
        certificate_authority: Option<Vec<u8>>,
    ) -> Self {
        let is_http = matches!(url.scheme(), Scheme::Https | Scheme::Http);
        let scheme = if url.scheme() == Scheme::Http {
            "http"
        } else {
            "https"
        };
        Self {
            origin: format!("{scheme}://{}/", url.authority()),
            login: login.filter(|_| is_http),
            key: key.filter(|_| url.scheme() == Scheme::Ssh),
            certificate_authority: certificate_authority.filter(|_| is_http),
            resolved: Vec::new(),
            pinned: None,
            proxy: None,
        }
    }

    /// Through a proxy, which finds the host's address itself.
    pub(crate) fn through(mut self, proxy: SecretValue) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Ties the host to the addresses that were checked, so that it cannot move between the check
    /// and the connection.
    pub(crate) fn tied_to(mut self, url: &RepositoryUrl, addresses: &[SocketAddr]) -> Self {
        let is_name =
            url.host().parse::<std::net::IpAddr>().is_err() && !url.host().starts_with('[');
        if matches!(url.scheme(), Scheme::Https | Scheme::Http) && is_name && !addresses.is_empty()
        {
            let list: Vec<String> = addresses
                .iter()
                .map(|address| bracketed(*address))
                .collect();
            let (list, port) = (list.join(","), url.port_or_default());
            // Versions of curl differ in whether the dot at the end belongs to the name.
            let name = url.host().trim_end_matches('.');
            let names = [name.to_owned(), format!("{name}.")];
            self.resolved = names.map(|name| format!("{name}:{port}:{list}")).into();
        }
        // The host is a plain name, or it would not have been parsed: nothing in it means anything to
        // the shell that starts ssh.
        if url.scheme() == Scheme::Ssh && is_name {
            let first = addresses.first().map(|address| address.ip().to_string());
            self.pinned = first.map(|address| (address, known_as(url)));
        }
        self
    }

    pub(super) fn secrets(&self) -> Vec<SecretValue> {
        let keys = self.key.iter().map(|key| key.identity.clone());
        let mut secrets: Vec<SecretValue> = keys.chain(self.proxy.clone()).collect();
        if let Some((username, password)) = &self.login {
            secrets.push(password.clone());
            secrets.push(SecretValue::new(basic(username, password)));
        }
        secrets
    }

    pub(super) fn key(&self) -> Option<&SshKey> {
        self.key.as_ref()
    }

    pub(super) fn environment(
        &self,
        home: &Path,
        key: Option<&KeyFiles>,
    ) -> std::io::Result<Vec<(String, OsString)>> {
        let mut extra: Vec<(String, OsString)> = super::SETTINGS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        if let Some((username, password)) = &self.login {
            let header = format!("Authorization: Basic {}", basic(username, password));
            extra.push((format!("http.{}.extraHeader", self.origin), header.into()));
        }
        for resolved in &self.resolved {
            extra.push(("http.curloptResolve".to_owned(), resolved.into()));
        }
        if let Some(authority) = &self.certificate_authority {
            extra.push((
                "http.sslCAInfo".to_owned(),
                authority_file(home, authority)?.into(),
            ));
        }
        let mut environment = settings(extra.into_iter());
        let mut command = match key {
            Some(key) => key.command()?,
            None => SSH_WITHOUT_KEY.to_owned(),
        };
        if let Some((address, name)) = &self.pinned {
            command.push_str(&format!(" -o HostName={address} -o 'HostKeyAlias={name}'"));
        }
        environment.push(("GIT_SSH_COMMAND".to_owned(), command.into()));
        let proxy = self.proxy.as_ref().and_then(SecretValue::expose_text);
        for name in ["https_proxy", "http_proxy"] {
            environment.extend(proxy.map(|proxy| (name.to_owned(), proxy.into())));
        }
        Ok(environment)
    }
}

/// As ssh itself writes a host into its list of known ones.
fn known_as(url: &RepositoryUrl) -> String {
    match url.port_or_default() {
        22 => url.host().to_owned(),
        port => format!("[{}]:{port}", url.host()),
    }
}

fn basic(username: &str, password: &SecretValue) -> String {
    let password = password.expose_text().unwrap_or_default();
    STANDARD.encode(format!("{username}:{password}"))
}

fn bracketed(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Git settings as environment variables.
pub(super) fn settings(pairs: impl Iterator<Item = (String, OsString)>) -> Vec<(String, OsString)> {
    let mut environment = Vec::new();
    let mut count = 0;
    for (index, (name, value)) in pairs.enumerate() {
        environment.push((format!("GIT_CONFIG_KEY_{index}"), name.into()));
        environment.push((format!("GIT_CONFIG_VALUE_{index}"), value));
        count = index + 1;
    }
    environment.push(("GIT_CONFIG_COUNT".to_owned(), count.to_string().into()));
    environment
}

/// A certificate authority is no secret: its file stays, named by its content.
fn authority_file(home: &Path, authority: &[u8]) -> std::io::Result<PathBuf> {
    let name = crate::mirror::short_hash(&[authority]);
    let path = home.join(format!("authority-{name}.pem"));
    if !path.exists() {
        let mut file = tempfile::NamedTempFile::new_in(home)?;
        file.write_all(authority)?;
        file.persist(&path).map_err(|error| error.error)?;
    }
    Ok(path)
}

/// The files of a key: readable by us only, gone when dropped.
pub(super) struct KeyFiles {
    folder: tempfile::TempDir,
}

impl KeyFiles {
    pub(super) fn write(home: &Path, key: &SshKey) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("key-").tempdir_in(home)?;
        let mut identity = key.identity.expose().to_vec();
        // ssh does not read a key whose last line does not end.
        if !identity.ends_with(b"\n") {
            identity.push(b'\n');
        }
        for (name, content) in [("identity", &identity), ("known_hosts", &key.known_hosts)] {
            let path = folder.path().join(name);
            let mut options = std::fs::OpenOptions::new();
            options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?
                .write_all(content)?;
        }
        Ok(Self { folder })
    }

    /// Git hands this to a shell, so nothing in it may mean anything to one.
    fn command(&self) -> std::io::Result<String> {
        let folder = self.folder.path().to_str().filter(|path| {
            path.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
        });
        let Some(folder) = folder else {
            let problem = "the folder for keys has an unusual name";
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                problem,
            ));
        };
        Ok(format!(
            "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes \
             -o IdentityAgent=none -o ForwardAgent=no -o ClearAllForwardings=yes -o ConnectTimeout=30 \
             -o ServerAliveInterval=15 -o GlobalKnownHostsFile=/dev/null \
             -o UserKnownHostsFile={folder}/known_hosts -o IdentityFile={folder}/identity"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::AddressPolicy;

    fn environment(url: &str, addresses: &[&str]) -> String {
        let policy = AddressPolicy::UNRESTRICTED;
        let url = RepositoryUrl::parse(url, policy).expect(url);
        let addresses: Vec<SocketAddr> = addresses
            .iter()
            .map(|it| it.parse().expect("an address"))
            .collect();
        let access = Access::new(&url, None, None, None).tied_to(&url, &addresses);
        let environment = access.environment(Path::new("/"), None).expect("variables");
        let values = environment.iter().map(|(_, value)| value.to_string_lossy());
        values.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_name_is_tied_to_the_address_that_was_checked() {
        for (url, expected) in [
            (
                "ssh://git@forge.example/a/b",
                "HostName=127.0.0.9 -o 'HostKeyAlias=forge.example'",
            ),
            (
                "ssh://git@forge_1.example:2222/a/b",
                "'HostKeyAlias=[forge_1.example]:2222'",
            ),
            ("ssh://git@2130706433/a/b", "HostName=127.0.0.9"),
            ("git@forge.example:a/b", "HostName=127.0.0.9"),
            (
                "https://forge.example/a/b",
                "\nforge.example:443:127.0.0.9\n",
            ),
            (
                "https://forge.example./a/b",
                "\nforge.example:443:127.0.0.9\n",
            ),
            (
                "https://forge.example./a/b",
                "\nforge.example.:443:127.0.0.9",
            ),
        ] {
            let environment = environment(url, &["127.0.0.9:1"]);
            assert!(environment.contains(expected), "{url}: {environment}");
        }
    }
}
