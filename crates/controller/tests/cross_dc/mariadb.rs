//! A MariaDB on a temporary folder and a free port.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use controller::cross_dc::{Encryption, Secret, Settings, campaign};
use mysql_async::{Conn, OptsBuilder, prelude::Queryable};
use runtime::LeaderGuard;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const PASSWORD: &str = "secret of the test";

/// Many run at once: little memory, small files, and none of the kernel's asynchronous input and
/// output, of which there is a limited number for the whole machine.
const SMALL: [&str; 3] = [
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--skip-innodb-use-native-aio",
];

/// A running database; ends with the test.
pub(crate) struct MariaDb {
    pub(crate) port: u16,
    folder: tempfile::TempDir,
    flags: Vec<String>,
    process: Child,
}

impl MariaDb {
    /// Starts an empty database.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        install(folder.path()).await;
        let port = free_port();
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let process = launch(folder.path(), port, &flags);
        let database = Self {
            port,
            folder,
            flags,
            process,
        };
        database.prepare().await;
        database
    }

    async fn prepare(&self) {
        wait_until("the database answers", async || {
            Conn::new(self.root()).await.is_ok()
        })
        .await;
        let mut root = Conn::new(self.root()).await.unwrap();
        for statement in [
            &format!("CREATE USER sluice IDENTIFIED BY '{PASSWORD}'"),
            "GRANT ALL ON *.* TO sluice",
            "CREATE DATABASE witness",
            "CREATE TABLE witness.acts (id BIGINT AUTO_INCREMENT PRIMARY KEY, holder VARCHAR(255), token BIGINT UNSIGNED, is_stale BOOLEAN)",
        ] {
            root.query_drop(statement).await.unwrap();
        }
    }

    fn root(&self) -> OptsBuilder {
        OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(self.port)
            .user(Some("root"))
            .prefer_socket(false)
    }

    pub(crate) async fn connect(&self) -> Conn {
        try_connect(self.port).await.unwrap()
    }

    /// Kills the database and starts it again on the same data.
    pub(crate) async fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = launch(self.folder.path(), self.port, &self.flags);
        let port = self.port;
        wait_until("the database is back", async || {
            try_connect(port).await.is_ok()
        })
        .await;
    }

    async fn number(&self, statement: &str) -> i64 {
        let mut connection = self.connect().await;
        let number: Option<Option<i64>> = connection.query_first(statement).await.unwrap();
        number.flatten().unwrap_or(0)
    }

    pub(crate) async fn acts(&self, holder: &str) -> i64 {
        self.number(&format!(
            "SELECT COUNT(*) FROM witness.acts WHERE holder = '{holder}'"
        ))
        .await
    }

    pub(crate) async fn all_acts(&self) -> i64 {
        self.number("SELECT COUNT(*) FROM witness.acts").await
    }

    pub(crate) async fn wait_for_acts(&self, holder: &str, count: i64) {
        let what = format!("{count} acts of {holder}");
        wait_until(&what, async || self.acts(holder).await >= count).await;
    }

    pub(crate) async fn wait_for_any_act(&self, count: i64) {
        let what = format!("{count} acts");
        wait_until(&what, async || self.all_acts().await >= count).await;
    }

    /// Waits until a session waits for a named lock.
    pub(crate) async fn wait_for_waiting_session(&self) {
        let statement =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
        wait_until("a session waits", async || self.number(statement).await > 0).await;
    }

    /// Who holds the lease, and for how many microseconds more.
    pub(crate) async fn lease(&self) -> (String, i64) {
        let mut connection = self.connect().await;
        let lease = connection
            .query_first("SELECT holder, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) FROM sluice.lease")
            .await;
        lease.unwrap().unwrap()
    }

    /// How many connections came to nothing.
    pub(crate) async fn refused_connections(&self) -> i64 {
        self.number(
            "SELECT CAST(variable_value AS INTEGER) FROM information_schema.global_status WHERE variable_name = 'ABORTED_CONNECTS'",
        )
        .await
    }

    /// Whoever acted held the lock, but for a bounded number of acts caught between asking and acting;
    /// and every change of hands has a token of its own.
    pub(crate) async fn assert_never_two(&self, caught: i64) {
        let stale = self
            .number("SELECT COUNT(*) FROM witness.acts WHERE is_stale")
            .await;
        assert!(stale <= caught, "{stale} acts without the lock");
        let shared = self.number(
            "SELECT COUNT(*) FROM (SELECT token FROM witness.acts WHERE NOT is_stale GROUP BY token HAVING COUNT(DISTINCT holder) > 1) AS shared",
        );
        assert_eq!(shared.await, 0, "two holders with one token");
    }

    /// From now on the user of the lock may only read and write its table.
    pub(crate) async fn take_away_rights(&self) {
        let mut root = Conn::new(self.root()).await.unwrap();
        for statement in [
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM sluice",
            "GRANT SELECT, INSERT, UPDATE ON sluice.* TO sluice",
        ] {
            root.query_drop(statement).await.unwrap();
        }
    }

    /// Competes in this process until the guard is dropped.
    pub(crate) fn compete(
        &self,
        identity: &str,
        encryption: Encryption,
    ) -> (LeaderGuard, DropGuard) {
        let settings = Settings {
            encryption,
            host: "localhost".into(),
            ..settings(identity, self.port)
        };
        let release = CancellationToken::new();
        let pass_on = Arc::new(Notify::new());
        let (leadership, _campaign) = campaign(settings, pass_on, release.clone());
        (leadership, release.drop_guard())
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes an empty database. One at a time: each wants all of the disk. Without looking up the host's
/// name, which is not needed and fails where name servers are slow.
async fn install(folder: &Path) {
    static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _turn = ONE.lock().await;
    let mut command = tokio::process::Command::new("mariadb-install-db");
    command
        .args([
            "--no-defaults",
            "--skip-test-db",
            "--skip-name-resolve",
            "--auth-root-authentication-method=normal",
        ])
        .arg(format!("--datadir={}", folder.join("data").display()))
        .arg(format!("--tmpdir={}", folder.display()))
        .args(SMALL)
        .args(user());
    let installed = command.output().await;
    let installed = installed.expect("mariadb-install-db: `cargo xtask test` installs it");
    assert!(
        installed.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&installed.stdout),
        String::from_utf8_lossy(&installed.stderr)
    );
}

fn launch(folder: &Path, port: u16, flags: &[String]) -> Child {
    let at = |name: &str| folder.join(name).display().to_string();
    let process = Command::new("mariadbd")
        .arg("--no-defaults")
        .arg(format!("--datadir={}", at("data")))
        .arg(format!("--socket={}", at("socket")))
        .arg(format!("--pid-file={}", at("pid")))
        .arg(format!("--port={port}"))
        .arg(format!("--tmpdir={}", folder.display()))
        .args([
            "--bind-address=127.0.0.1",
            "--innodb-flush-log-at-trx-commit=1",
        ])
        .args(SMALL)
        .args(user())
        .args(flags)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    process.expect("mariadbd: `cargo xtask test` installs it")
}

/// MariaDB refuses to run as root unless told so.
fn user() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output().unwrap().stdout;
    (id.trim_ascii() == b"0").then_some("--user=root")
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A short lease, so that tests are short.
pub(crate) fn settings(identity: &str, port: u16) -> Settings {
    Settings {
        username: "sluice".into(),
        password: Secret::new(PASSWORD.into()),
        host: "127.0.0.1".into(),
        port,
        encryption: Encryption::Plaintext,
        database: "sluice".into(),
        identity: identity.into(),
        lease: Duration::from_secs(3),
        margin: Duration::from_secs(1),
        renew_every: Duration::from_millis(300),
    }
}

pub(crate) async fn try_connect(port: u16) -> Result<Conn, mysql_async::Error> {
    let opts = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .user(Some("sluice"))
        .pass(Some(PASSWORD))
        .prefer_socket(false);
    Conn::new(opts).await
}

/// Flags for a server that speaks TLS with a certificate of our own authority.
pub(crate) fn certificates(folder: &Path) -> Vec<String> {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    };
    let authority = write("ca.pem", authority_certificate.pem());
    let certificate = write("cert.pem", certificate.pem());
    let key = write("key.pem", key.serialize_pem());
    vec![
        format!("--ssl-ca={authority}"),
        format!("--ssl-cert={certificate}"),
        format!("--ssl-key={key}"),
    ]
}

/// Waits until something holds; gives up after two minutes.
pub(crate) async fn wait_until(what: &str, ready: impl AsyncFn() -> bool) {
    for _ in 0..2400 {
        if ready().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited in vain until {what}");
}
