//! One session with the database: the named locks live and die with it, the row outlives it.
//!
//! Every statement is bounded in time. After a failure the session is dropped, never reused.

use std::time::Duration;

use mysql_async::{Conn, OptsBuilder, SslOpts, prelude::Queryable};
use tokio::time::Instant;

use super::{
    HAND_OVER_TIME,
    settings::{Encryption, Settings},
};

/// The operator's locks, in the order in which they are taken.
const NAMED_LOCKS: [&str; 2] = ["leader.txt//", "leader.txt"];
const ROW: &str = "leader";
/// A standby asks again this often for a row that has not expired.
const ROW_CHECK: Duration = Duration::from_millis(200);
/// How long one wait for a named lock lasts, in seconds.
const LOCK_WAIT: u64 = 2;

/// The lock is lost or out of reach; trying again may help.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("cannot {what}")]
    Database {
        what: &'static str,
        #[source]
        source: mysql_async::Error,
    },
    #[error("the database did not answer in time")]
    Slow,
    #[error("somebody else holds the lease")]
    Lost,
}

impl SessionError {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Database { .. } => "DatabaseFailed",
            Self::Slow => "DatabaseSlow",
            Self::Lost => "LeaseLost",
        }
    }
}

/// The right to act, as of when it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) token: u64,
    pub(super) asked_at: Instant,
}

/// A session with the database.
pub(super) struct Session(Conn);

impl Session {
    /// Connects and makes sure that the table is there.
    pub(super) async fn open(settings: &Settings) -> Result<Self, SessionError> {
        let builder = OptsBuilder::default()
            .ip_or_hostname(&settings.host)
            .tcp_port(settings.port)
            .user(Some(&settings.username))
            .pass(Some(settings.password.reveal()))
            .prefer_socket(false)
            .ssl_opts(encryption(&settings.encryption));
        let connected = Conn::new(builder);
        let mut session = Self(bounded(settings, "connect to the database", connected).await?);
        session.prepare_table(settings).await?;
        Ok(session)
    }

    async fn prepare_table(&mut self, settings: &Settings) -> Result<(), SessionError> {
        // The server drops a session that went silent, and its named locks with it, no earlier
        // than acting has ceased.
        let silence = settings.lease.as_millis().div_ceil(1000);
        self.run(settings, format!("SET SESSION wait_timeout = {silence}"))
            .await?;
        // Creating asks for rights that are not needed where an administrator has made the table.
        if self.insert_row(settings).await.is_ok() {
            return Ok(());
        }
        let Settings { database, .. } = settings;
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

    async fn insert_row(&mut self, settings: &Settings) -> Result<(), SessionError> {
        let row = format!("VALUES ('{ROW}', '', 0, UTC_TIMESTAMP(6))");
        let statement = format!("INSERT IGNORE INTO {}.lease {row}", settings.database);
        self.run(settings, statement).await
    }

    async fn run(&mut self, settings: &Settings, statement: String) -> Result<(), SessionError> {
        let done = self.0.query_drop(statement);
        bounded(settings, "prepare the lease's table", done).await
    }

    /// Waits until nobody else holds the operator's locks.
    pub(super) async fn wait_for_named_locks(
        &mut self,
        settings: &Settings,
    ) -> Result<(), SessionError> {
        for name in NAMED_LOCKS {
            loop {
                let limit = answer_time(settings) + Duration::from_secs(LOCK_WAIT);
                let asked = self
                    .0
                    .exec_first::<Option<i64>, _, _>("SELECT GET_LOCK(?, ?)", (name, LOCK_WAIT));
                let answer = within(limit, "take a named lock", asked).await?;
                if answer.flatten() == Some(1) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits until the lease of whoever held it before has expired.
    pub(super) async fn wait_for_row(
        &mut self,
        settings: &Settings,
    ) -> Result<Grant, SessionError> {
        loop {
            let asked_at = Instant::now();
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
            bounded(settings, "take the lease", taken).await?;
            if self.0.affected_rows() == 1 {
                return self.read_grant(settings, asked_at).await;
            }
            self.check_named_locks(settings).await?;
            tokio::time::sleep(ROW_CHECK).await;
        }
    }

    async fn read_grant(
        &mut self,
        settings: &Settings,
        asked_at: Instant,
    ) -> Result<Grant, SessionError> {
        let statement = format!(
            "SELECT token FROM {}.lease WHERE name = '{ROW}' AND holder = ?",
            settings.database
        );
        let read = self
            .0
            .exec_first::<u64, _, _>(statement, (&settings.identity,));
        let token = bounded(settings, "read the lease", read).await?;
        let token = token.ok_or(SessionError::Lost)?;
        Ok(Grant { token, asked_at })
    }

    /// Renews the lease, if it and the named locks are still ours.
    pub(super) async fn renew(
        &mut self,
        settings: &Settings,
        grant: Grant,
    ) -> Result<Grant, SessionError> {
        self.check_named_locks(settings).await?;
        let asked_at = Instant::now();
        let statement = format!(
            "UPDATE {}.lease SET expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
             WHERE name = '{ROW}' AND holder = ? AND token = ?",
            settings.database
        );
        let values = (microseconds(settings), &settings.identity, grant.token);
        let renewed = self.0.exec_drop(statement, values);
        bounded(settings, "renew the lease", renewed).await?;
        if self.0.affected_rows() == 1 {
            Ok(Grant { asked_at, ..grant })
        } else {
            Err(SessionError::Lost)
        }
    }

    async fn check_named_locks(&mut self, settings: &Settings) -> Result<(), SessionError> {
        let statement = "SELECT IS_USED_LOCK(?) = CONNECTION_ID() \
                         AND IS_USED_LOCK(?) = CONNECTION_ID()";
        let values = (NAMED_LOCKS[0], NAMED_LOCKS[1]);
        let asked = self.0.exec_first::<Option<bool>, _, _>(statement, values);
        match bounded(settings, "check the named locks", asked).await? {
            Some(Some(true)) => Ok(()),
            _ => Err(SessionError::Lost),
        }
    }

    /// Lets the lease expire now; the named locks go with the session. Where the row cannot be given
    /// back it expires by itself.
    pub(super) async fn hand_over(mut self, settings: &Settings, grant: Grant) {
        let statement = format!(
            "UPDATE {}.lease SET holder = '', expires = UTC_TIMESTAMP(6) - INTERVAL 1 MICROSECOND \
             WHERE name = '{ROW}' AND holder = ? AND token = ?",
            settings.database
        );
        let values = (&settings.identity, grant.token);
        let given = self.0.exec_drop(statement, values);
        match within(HAND_OVER_TIME, "hand over the lease", given).await {
            Ok(()) => tracing::info!("the lock between data centres is handed over"),
            Err(error) => tracing::warn!(reason = error.reason(), "the lock was not handed over"),
        }
        let _ = within(HAND_OVER_TIME, "disconnect", self.0.disconnect()).await;
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

fn microseconds(settings: &Settings) -> u64 {
    u64::try_from(settings.lease.as_micros()).unwrap_or(u64::MAX)
}

/// A statement that takes longer than this would leave no time to act.
fn answer_time(settings: &Settings) -> Duration {
    settings.acting_time() / 2
}

async fn bounded<T>(
    settings: &Settings,
    what: &'static str,
    statement: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, SessionError> {
    within(answer_time(settings), what, statement).await
}

async fn within<T>(
    limit: Duration,
    what: &'static str,
    statement: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, SessionError> {
    match tokio::time::timeout(limit, statement).await {
        Ok(answer) => answer.map_err(|source| SessionError::Database { what, source }),
        Err(_) => Err(SessionError::Slow),
    }
}
