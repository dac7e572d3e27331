//! The settings of the lock, from the trigger operator's environment variables, validated once.

use std::{fmt, path::PathBuf, time::Duration};

/// A password. Has no `Debug` and no `Display`.
#[derive(Clone)]
pub struct DatabasePassword(String);

impl DatabasePassword {
    /// Wraps a password.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// How the connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// TLS; the server's certificate is verified.
    Tls {
        /// A CA certificate file to trust besides the public authorities.
        authority: Option<PathBuf>,
    },
    /// Not encrypted; must be allowed explicitly.
    Plaintext,
}

/// How to reach the database and hold the lock.
#[derive(Clone)]
pub struct LockSettings {
    /// The database user.
    pub username: String,
    /// The user's password.
    pub password: DatabasePassword,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// How the connection is encrypted.
    pub encryption: Encryption,
    /// The database with the lease's table.
    pub database: String,
    /// The identity of this process, unique among all that share the database.
    pub identity: String,
    /// How long a lease lasts without being renewed.
    pub lease: Duration,
    /// How long before the end of a lease its holder stops leading if it cannot renew.
    pub margin: Duration,
    /// How often the lease is renewed.
    pub renew_every: Duration,
}

impl LockSettings {
    /// How long this process may lead after requesting a lease.
    pub(super) fn usable_duration(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }
}

/// The environment variables are incomplete or invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A variable is missing.
    #[error("the environment variable {0} is needed for --cross-dc-leader-elect")]
    Missing(&'static str),
    /// A variable is not `true` or `false`.
    #[error("the environment variable {name} is {value:?}, which is neither true nor false")]
    NotABoolean {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The lock is both requested and disabled.
    #[error("--cross-dc-leader-elect needs the environment variable ha_enabled to be true")]
    Disabled,
    /// The address is not `host:port`.
    #[error("the environment variable address is {0:?}, which is not host:port")]
    Address(String),
    /// The database name would need quoting.
    #[error("the environment variable database is {0:?}; use letters, digits and underscores")]
    Database(String),
}

/// Reads the operator's environment variables by a function that looks one up.
pub fn from_environment(
    identity: String,
    look_up: impl Fn(&str) -> Option<String>,
) -> Result<LockSettings, SettingsError> {
    let given = |name: &'static str| look_up(name).filter(|value| !value.is_empty());
    let needed = |name: &'static str| given(name).ok_or(SettingsError::Missing(name));
    let is_true = |name: &'static str, otherwise: bool| match given(name) {
        None => Ok(otherwise),
        Some(value) => boolean(&value).ok_or(SettingsError::NotABoolean { name, value }),
    };
    if !is_true("ha_enabled", true)? {
        return Err(SettingsError::Disabled);
    }
    let (host, port) = host_and_port(&given("address").unwrap_or("127.0.0.1:3306".into()))?;
    let database = given("database").unwrap_or("sluice".into());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !database.chars().all(is_plain) {
        return Err(SettingsError::Database(database));
    }
    Ok(LockSettings {
        username: needed("username")?,
        password: DatabasePassword::new(needed("password")?),
        host,
        port,
        encryption: match is_true("plaintext_connection_allowed", false)? {
            true => Encryption::Plaintext,
            false => Encryption::Tls {
                authority: given("tls_ca_file").map(PathBuf::from),
            },
        },
        database,
        identity,
        // The duration of the Lease below it, so that a side effect that fits into one fits into both.
        lease: Duration::from_secs(35),
        margin: Duration::from_secs(5),
        renew_every: Duration::from_secs(5),
    })
}

/// The operator parsed booleans with Go's strconv.ParseBool.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn host_and_port(address: &str) -> Result<(String, u16), SettingsError> {
    let wrong = || SettingsError::Address(address.to_owned());
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
        None => (address, 3306),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

impl fmt::Debug for LockSettings {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.debug_struct("LockSettings")
            .field("username", &self.username)
            .field("host", &self.host)
            .field("port", &self.port)
            .field("encryption", &self.encryption)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<LockSettings, SettingsError> {
        from_environment("me".into(), |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_operators_variables_are_read() {
        let settings = read(&[
            ("username", "root"),
            ("password", "mypassword"),
            ("address", "mysql.cluster:3306"),
            ("plaintext_connection_allowed", "true"),
            ("ha_enabled", "true"),
        ])
        .unwrap();
        assert_eq!(
            (settings.host.as_str(), settings.port),
            ("mysql.cluster", 3306)
        );
        assert_eq!(settings.encryption, Encryption::Plaintext);
        assert!(!format!("{settings:?}").contains("mypassword"));
    }

    #[test]
    fn tls_is_the_default() {
        let settings =
            read(&[("username", "u"), ("password", "p"), ("tls_ca_file", "/ca")]).unwrap();
        let authority = Some(PathBuf::from("/ca"));
        assert_eq!(settings.encryption, Encryption::Tls { authority });
        assert_eq!((settings.host.as_str(), settings.port), ("127.0.0.1", 3306));
    }

    #[test]
    fn invalid_settings_have_clear_messages() {
        let both = [("username", "u"), ("password", "p")];
        let with = |name, value| {
            let mut all = both.to_vec();
            all.push((name, value));
            read(&all).unwrap_err().to_string()
        };
        assert_eq!(
            read(&[("password", "p")]).unwrap_err().to_string(),
            "the environment variable username is needed for --cross-dc-leader-elect"
        );
        assert!(with("ha_enabled", "false").contains("ha_enabled to be true"));
        assert!(with("ha_enabled", "maybe").contains("neither true nor false"));
        assert!(with("address", "host:port").contains("not host:port"));
        assert!(with("database", "a`b").contains("letters, digits"));
    }
}
