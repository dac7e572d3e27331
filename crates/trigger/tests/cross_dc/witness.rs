//! A database server with a table in which actors record every act, and whether they held the lock.

use std::{ops::Deref, path::Path, sync::Arc, time::Duration};

use mysql_async::prelude::Queryable;
use runtime::LeaderGuard;
use testbed::mariadb::{MariaDb, PASSWORD, USER, wait_until};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use trigger::cross_dc::{DatabasePassword, Encryption, LockSettings, elect};

/// A database server with the table `witness.acts`.
pub(crate) struct Witness(MariaDb);

impl Deref for Witness {
    type Target = MariaDb;

    fn deref(&self) -> &MariaDb {
        &self.0
    }
}

impl Witness {
    /// Starts a server with additional flags.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let server = MariaDb::start(flags).await;
        let table = "CREATE TABLE witness.acts (id BIGINT AUTO_INCREMENT PRIMARY KEY, \
             holder VARCHAR(255), token BIGINT UNSIGNED, is_stale BOOLEAN)";
        server
            .run_as_root(&["CREATE DATABASE witness", table])
            .await;
        Self(server)
    }

    /// Kills the server and starts it again on the same data.
    pub(crate) async fn restart(&mut self) {
        self.0.restart().await;
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

    /// Who holds the lease, and for how many microseconds more.
    pub(crate) async fn lease(&self) -> (String, i64) {
        let mut connection = self.connect().await;
        let lease = connection
            .query_first("SELECT holder, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) FROM sluice.lease")
            .await;
        lease.unwrap().unwrap()
    }

    /// How many connections were refused.
    pub(crate) async fn refused_connections(&self) -> i64 {
        self.number(
            "SELECT CAST(variable_value AS INTEGER) FROM information_schema.global_status WHERE variable_name = 'ABORTED_CONNECTS'",
        )
        .await
    }

    /// Whoever acted held the lock, except for a bounded number of acts caught between asking and
    /// acting; and every change of hands has a token of its own.
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
    pub(crate) async fn revoke_create_rights(&self) {
        let revoke = format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {USER}");
        let grant = format!("GRANT SELECT, INSERT, UPDATE ON sluice.* TO {USER}");
        self.run_as_root(&[&revoke, &grant]).await;
    }

    /// Competes in this process until the guard is dropped.
    pub(crate) fn compete(
        &self,
        identity: &str,
        encryption: Encryption,
    ) -> (LeaderGuard, DropGuard) {
        let settings = LockSettings {
            encryption,
            host: "localhost".into(),
            ..settings(identity, self.port)
        };
        let release = CancellationToken::new();
        let yield_lock = Arc::new(Notify::new());
        let (lease, _elector) = elect(settings, yield_lock, release.clone());
        let leader = LeaderGuard::without_election().and_lease(lease);
        (leader, release.drop_guard())
    }
}

/// A short lease, so that tests are short.
pub(crate) fn settings(identity: &str, port: u16) -> LockSettings {
    LockSettings {
        username: USER.into(),
        password: DatabasePassword::new(PASSWORD.into()),
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

/// Flags for a server that uses TLS with a certificate of a new authority.
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
