//! One database session: named locks end with it, the row outlives it.
//!
//! Every statement has a timeout. After an error the session is dropped, never reused.

use std::time::Duration;

use mysql_async::{Conn, OptsBuilder, SslOpts, prelude::Queryable};
use tokio::time::Instant;

use super::{
    RELEASE_TIMEOUT,
    settings::{Encryption, LockSettings},
};

/// The trigger operator's named locks, in the order in which they are acquired.
const OPERATOR_LOCKS: [&str; 2] = ["leader.txt//", "leader.txt"];
/// The name of the row that is the lease.
const ROW: &str = "leader";
/// How often a standby tries to take a row that has not expired.
const ROW_CHECK: Duration = Duration::from_millis(200);
/// How long one wait for a named lock lasts, in seconds.
const LOCK_WAIT: u64 = 2;

/// The lock is lost or cannot be reached; trying again may help.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("cannot {what}")]
    Database {
        what: &'static str,
        #[source]
        source: mysql_async::Error,
    },
    #[error("the database did not answer in time")]
    Timeout,
    #[error("somebody else holds the lease")]
    Lost,
}

impl SessionError {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Database { .. } => "DatabaseFailed",
            Self::Timeout => "DatabaseSlow",
            Self::Lost => "LeaseLost",
        }
    }
}

/// A lease that the database granted, and when it was requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseGrant {
    pub(super) token: u64,
    pub(super) requested_at: Instant,
}

/// An open session.
pub(super) struct DatabaseSession(Conn);

impl DatabaseSession {
    /// Connects and creates the table if it does not exist.
    pub(super) async fn open(settings: &LockSettings) -> Result<Self, SessionError> {
        let builder = OptsBuilder::default()
            .ip_or_hostname(&settings.host)
            .tcp_port(settings.port)
            .user(Some(&settings.username))
            .pass(Some(settings.password.reveal()))
            .prefer_socket(false)
            .ssl_opts(encryption(&settings.encryption));
        let connected = Conn::new(builder);
        let mut session = Self(with_timeout(settings, "connect to the database", connected).await?);
        session.prepare_table(settings).await?;
        Ok(session)
    }

    async fn prepare_table(&mut self, settings: &LockSettings) -> Result<(), SessionError> {
        // The server ends an idle session, and its named locks, only after this process has stopped
        // leading.
        let idle_seconds = settings.lease.as_millis().div_ceil(1000);
        self.run(
            settings,
            format!("SET SESSION wait_timeout = {idle_seconds}"),
        )
        .await?;
        // Creating needs rights that the user does not have if an administrator created the table.
        if self.insert_row(settings).await.is_ok() {
            return Ok(());
        }
        let LockSettings { database, .. } = settings;
        self.run(
            settings,
            format!("CREATE DATABASE IF NOT EXISTS {database}"),
        )
        .await?;
        let table = format!(
            "CREATE TABLE IF NOT EXISTS {database}.lease (name VARCHAR(64) PRIMARY KEY, \
             holder VARCHAR(255) NOT NULL, token BIGINT UNSIGNED NOT NULL, \
             expires DATETIME(6) NOT NULL)"
        );
        self.run(settings, table).await?;
        self.insert_row(settings).await
    }

    async fn insert_row(&mut self, settings: &LockSettings) -> Result<(), SessionError> {
        let row = format!("VALUES ('{ROW}', '', 0, UTC_TIMESTAMP(6))");
        let statement = format!("INSERT IGNORE INTO {}.lease {row}", settings.database);
        self.run(settings, statement).await
    }

    async fn run(
        &mut self,
        settings: &LockSettings,
        statement: String,
    ) -> Result<(), SessionError> {
        let executed = self.0.query_drop(statement);
        with_timeout(settings, "prepare the lease's table", executed).await
    }

    /// Acquires the operator's locks, waiting for their current holder.
    pub(super) async fn wait_for_named_locks(
        &mut self,
        settings: &LockSettings,
    ) -> Result<(), SessionError> {
        for name in OPERATOR_LOCKS {
            loop {
                let limit = statement_timeout(settings) + Duration::from_secs(LOCK_WAIT);
                let asked = self
                    .0
                    .exec_first::<Option<i64>, _, _>("SELECT GET_LOCK(?, ?)", (name, LOCK_WAIT));
                let answer = with_limit(limit, "take a named lock", asked).await?;
                if answer.flatten() == Some(1) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes the row, waiting until the lease of its current holder expires.
    pub(super) async fn wait_for_row(
        &mut self,
        settings: &LockSettings,
    ) -> Result<LeaseGrant, SessionError> {
        loop {
            let requested_at = Instant::now();
            let statement = format!(
                "UPDATE {}.lease SET holder = ?, token = token + 1, \
                 expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
                 WHERE name = '{ROW}' AND (expires < UTC_TIMESTAMP(6) OR holder = ?)",
                settings.database
            );
            let values = (
                &settings.identity,
                microseconds(settings),
                &settings.identity,
            );
            let taken = self.0.exec_drop(statement, values);
            with_timeout(settings, "take the lease", taken).await?;
            if self.0.affected_rows() == 1 {
                return self.read_grant(settings, requested_at).await;
            }
            self.check_named_locks(settings).await?;
            tokio::time::sleep(ROW_CHECK).await;
        }
    }

    async fn read_grant(
        &mut self,
        settings: &LockSettings,
        requested_at: Instant,
    ) -> Result<LeaseGrant, SessionError> {
        let statement = format!(
            "SELECT token FROM {}.lease WHERE name = '{ROW}' AND holder = ?",
            settings.database
        );
        let read = self
            .0
            .exec_first::<u64, _, _>(statement, (&settings.identity,));
        let token = with_timeout(settings, "read the lease", read).await?;
        let token = token.ok_or(SessionError::Lost)?;
        Ok(LeaseGrant {
            token,
            requested_at,
        })
    }

    /// Renews the lease if this session still holds it and the named locks.
    pub(super) async fn renew(
        &mut self,
        settings: &LockSettings,
        grant: LeaseGrant,
    ) -> Result<LeaseGrant, SessionError> {
        self.check_named_locks(settings).await?;
        let requested_at = Instant::now();
        let statement = format!(
            "UPDATE {}.lease SET expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
             WHERE name = '{ROW}' AND holder = ? AND token = ?",
            settings.database
        );
        let values = (microseconds(settings), &settings.identity, grant.token);
        let renewed = self.0.exec_drop(statement, values);
        with_timeout(settings, "renew the lease", renewed).await?;
        if self.0.affected_rows() == 1 {
            Ok(LeaseGrant {
                requested_at,
                ..grant
            })
        } else {
            Err(SessionError::Lost)
        }
    }

    async fn check_named_locks(&mut self, settings: &LockSettings) -> Result<(), SessionError> {
        let statement = "SELECT IS_USED_LOCK(?) = CONNECTION_ID() \
                         AND IS_USED_LOCK(?) = CONNECTION_ID()";
        let values = (OPERATOR_LOCKS[0], OPERATOR_LOCKS[1]);
        let asked = self.0.exec_first::<Option<bool>, _, _>(statement, values);
        match with_timeout(settings, "check the named locks", asked).await? {
            Some(Some(true)) => Ok(()),
            _ => Err(SessionError::Lost),
        }
    }

    /// Lets the lease expire now and closes the session, which ends the named locks. If the row cannot
    /// be updated, it expires by itself.
    pub(super) async fn release(mut self, settings: &LockSettings, grant: LeaseGrant) {
        let statement = format!(
            "UPDATE {}.lease SET holder = '', expires = UTC_TIMESTAMP(6) - INTERVAL 1 MICROSECOND \
             WHERE name = '{ROW}' AND holder = ? AND token = ?",
            settings.database
        );
        let values = (&settings.identity, grant.token);
        let released = self.0.exec_drop(statement, values);
        match with_limit(RELEASE_TIMEOUT, "release the lease", released).await {
            Ok(()) => tracing::info!("released the lock between data centres"),
            Err(error) => tracing::warn!(
                reason = error.reason(),
                "could not release the lock between data centres"
            ),
        }
        let _ = with_limit(RELEASE_TIMEOUT, "disconnect", self.0.disconnect()).await;
    }
}

fn encryption(encryption: &Encryption) -> Option<SslOpts> {
    match encryption {
        Encryption::Plaintext => None,
        Encryption::Tls { authority: None } => Some(SslOpts::default()),
        Encryption::Tls {
            authority: Some(path),
        } => Some(SslOpts::default().with_root_certs(vec![path.clone().into()])),
    }
}

fn microseconds(settings: &LockSettings) -> u64 {
    u64::try_from(settings.lease.as_micros()).unwrap_or(u64::MAX)
}

/// A statement that takes longer would leave no time to act.
fn statement_timeout(settings: &LockSettings) -> Duration {
    settings.usable_duration() / 2
}

async fn with_timeout<T>(
    settings: &LockSettings,
    what: &'static str,
    statement: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, SessionError> {
    with_limit(statement_timeout(settings), what, statement).await
}

async fn with_limit<T>(
    limit: Duration,
    what: &'static str,
    statement: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, SessionError> {
    match tokio::time::timeout(limit, statement).await {
        Ok(answer) => answer.map_err(|source| SessionError::Database { what, source }),
        Err(_) => Err(SessionError::Timeout),
    }
}
