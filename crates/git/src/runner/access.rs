//! Passes credentials to one git process: in its environment, or in files that are removed after it.

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

/// The ssh command without a key, which refuses every host.
pub(super) const SSH_WITHOUT_KEY: &str = "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/dev/null";

/// Credentials and connection settings for one remote.
#[derive(Clone, Default)]
pub struct RemoteAccess {
    origin: String,
    basic_auth: Option<(String, SecretValue)>,
    key: Option<SshKey>,
    certificate_authority: Option<Vec<u8>>,
    /// The addresses of the host, in the syntax of curl.
    curl_resolve: Vec<String>,
    /// The address that ssh connects to, and the name of the host in `known_hosts`.
    ssh_host: Option<(String, String)>,
    proxy: Option<SecretValue>,
}

impl RemoteAccess {
    /// Access to a repository, with the credentials that its scheme can use.
    pub(crate) fn new(
        url: &RepositoryUrl,
        basic_auth: Option<(String, SecretValue)>,
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
            basic_auth: basic_auth.filter(|_| is_http),
            key: key.filter(|_| url.scheme() == Scheme::Ssh),
            certificate_authority: certificate_authority.filter(|_| is_http),
            curl_resolve: Vec::new(),
            ssh_host: None,
            proxy: None,
        }
    }

    /// Connects through a proxy, which resolves the host itself.
    pub(crate) fn through_proxy(mut self, proxy: SecretValue) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Connects only to the addresses that were checked, so that the host cannot change its address
    /// between the check and the connection.
    pub(crate) fn pinned_to(mut self, url: &RepositoryUrl, addresses: &[SocketAddr]) -> Self {
        let is_name =
            url.host().parse::<std::net::IpAddr>().is_err() && !url.host().starts_with('[');
        if matches!(url.scheme(), Scheme::Https | Scheme::Http) && is_name && !addresses.is_empty()
        {
            let list: Vec<String> = addresses
                .iter()
                .map(|address| curl_address(*address))
                .collect();
            let (list, port) = (list.join(","), url.port_or_default());
            // Versions of curl differ in whether a trailing dot belongs to the name.
            let name = url.host().trim_end_matches('.');
            let names = [name.to_owned(), format!("{name}.")];
            self.curl_resolve = names.map(|name| format!("{name}:{port}:{list}")).into();
        }
        // A parsed host is a plain name, without characters that are special to the shell.
        if url.scheme() == Scheme::Ssh && is_name {
            let first = addresses.first().map(|address| address.ip().to_string());
            self.ssh_host = first.map(|address| (address, known_hosts_name(url)));
        }
        self
    }

    pub(super) fn secrets(&self) -> Vec<SecretValue> {
        let keys = self.key.iter().map(|key| key.identity.clone());
        let mut secrets: Vec<SecretValue> = keys.chain(self.proxy.clone()).collect();
        if let Some((username, password)) = &self.basic_auth {
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
        if let Some((username, password)) = &self.basic_auth {
            let header = format!("Authorization: Basic {}", basic(username, password));
            extra.push((format!("http.{}.extraHeader", self.origin), header.into()));
        }
        for entry in &self.curl_resolve {
            extra.push(("http.curloptResolve".to_owned(), entry.into()));
        }
        if let Some(authority) = &self.certificate_authority {
            extra.push((
                "http.sslCAInfo".to_owned(),
                authority_file(home, authority)?.into(),
            ));
        }
        let mut environment = settings_as_environment(extra.into_iter());
        let mut command = match key {
            Some(key) => key.command()?,
            None => SSH_WITHOUT_KEY.to_owned(),
        };
        if let Some((address, name)) = &self.ssh_host {
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

/// The name of the host in `known_hosts`.
fn known_hosts_name(url: &RepositoryUrl) -> String {
    match url.port_or_default() {
        22 => url.host().to_owned(),
        port => format!("[{}]:{port}", url.host()),
    }
}

fn basic(username: &str, password: &SecretValue) -> String {
    let password = password.expose_text().unwrap_or_default();
    STANDARD.encode(format!("{username}:{password}"))
}

fn curl_address(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Git settings as environment variables.
pub(super) fn settings_as_environment(
    pairs: impl Iterator<Item = (String, OsString)>,
) -> Vec<(String, OsString)> {
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

/// Writes a certificate authority to a file named by its content. It is no secret and stays.
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

/// The files of an ssh key: private to this user, removed when dropped.
pub(super) struct KeyFiles {
    folder: tempfile::TempDir,
}

impl KeyFiles {
    pub(super) fn write(home: &Path, key: &SshKey) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("key-").tempdir_in(home)?;
        let mut identity = key.identity.expose().to_vec();
        // ssh requires a newline at the end of a key.
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

    /// The ssh command. Git passes it to a shell, so that it must not contain special characters.
    fn command(&self) -> std::io::Result<String> {
        let folder = self.folder.path().to_str().filter(|path| {
            path.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
        });
        let Some(folder) = folder else {
            let problem = "the path of the directory for keys has special characters";
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
        let access = RemoteAccess::new(&url, None, None, None).pinned_to(&url, &addresses);
        let environment = access.environment(Path::new("/"), None).expect("variables");
        let values = environment.iter().map(|(_, value)| value.to_string_lossy());
        values.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_host_is_pinned_to_the_address_that_was_checked() {
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

    #[test]
    fn hosts_are_pinned_only_where_a_name_is_resolved_here() {
        for (url, addresses, expected) in [
            (
                "https://forge.example/a/b",
                &["127.0.0.9:1"][..],
                [true, false],
            ),
            ("https://forge.example/a/b", &[], [false, false]),
            ("https://127.0.0.1/a/b", &["127.0.0.1:1"], [false, false]),
            ("https://[::1]/a/b", &["[::1]:1"], [false, false]),
            (
                "ssh://git@forge.example/a/b",
                &["127.0.0.9:1"],
                [false, true],
            ),
            ("ssh://git@127.0.0.1/a/b", &["127.0.0.1:1"], [false, false]),
            ("ssh://git@[::1]/a/b", &["[::1]:1"], [false, false]),
        ] {
            let environment = environment(url, addresses);
            let pins = ["http.curloptResolve", "HostName="];
            let found = pins.map(|pin| environment.contains(pin));
            assert_eq!(found, expected, "{url}: {environment}");
        }
    }
}
