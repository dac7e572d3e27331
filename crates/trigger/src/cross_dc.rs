//! The lock between data centres: of all Sluice processes that share a database, one acts.
//!
//! The lease is a row with an expiry and a growing token. Beside it the session holds the two named
//! locks of the trigger operator, so that a replica of the operator and one of ours exclude each other
//! during a migration. A holder stops leading on its own monotonic clock, a margin before the row
//! expires: a process that lost the database, or was suspended, has stopped acting before another one
//! starts. Needs one writable endpoint, because named locks are not replicated.

mod session;
mod settings;

use std::{sync::Arc, time::Duration};

use runtime::leader::{FencingToken, HeldLease, LeaseReceiver, OuterLock};
use tokio::{
    sync::{Notify, futures::Notified, watch},
    task::JoinHandle,
    time::{sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use session::{DatabaseSession, LeaseGrant, SessionError};

pub use settings::{DatabasePassword, Encryption, LockSettings, SettingsError, from_environment};

/// What metrics call the lock.
const NAME: &str = "cross-dc";
/// The backoff between attempts to reach the database: the first one, doubled up to the longest.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// How long releasing the lock may take. A process that ends does not wait longer.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The lock, to be held above the Lease of the cluster.
pub fn outer_lock(settings: LockSettings) -> OuterLock {
    OuterLock::new(NAME, move |yield_lock, release| {
        elect(settings.clone(), yield_lock, release)
    })
}

/// Competes for the lock in the background until `release` is cancelled, and then releases it.
/// `yield_lock` releases it as well, for another process to take, and this process waits for the
/// duration of a lease before it competes again.
pub fn elect(
    settings: LockSettings,
    yield_lock: Arc<Notify>,
    release: CancellationToken,
) -> (LeaseReceiver, JoinHandle<()>) {
    tracing::info!(host = %settings.host, identity = %settings.identity, "competing for the lock between data centres");
    let (lease, receiver) = watch::channel(None);
    let elector = LockElector {
        settings,
        yield_lock,
        release,
        lease,
    };
    (receiver, runtime::spawn(elector.run()))
}

struct LockElector {
    settings: LockSettings,
    yield_lock: Arc<Notify>,
    release: CancellationToken,
    lease: watch::Sender<Option<HeldLease>>,
}

/// Why the lock was released. Losing it is an error instead.
enum ReleaseCause {
    ProcessEnds,
    Yielded,
}

impl LockElector {
    async fn run(self) {
        let mut backoff = FIRST_BACKOFF;
        loop {
            let term = self.run_one_term().await;
            let was_held = self.lease.send_replace(None).is_some();
            let pause = match term {
                Ok(ReleaseCause::ProcessEnds) => return,
                Ok(ReleaseCause::Yielded) => self.settings.lease,
                Err(error) => {
                    backoff = if was_held { FIRST_BACKOFF } else { backoff };
                    log_error(&error, was_held);
                    backoff
                }
            };
            backoff = MAX_BACKOFF.min(backoff * 2);
            tokio::select! {
                () = sleep(pause) => {}
                () = self.release.cancelled() => return,
            }
        }
    }

    /// Acquires, holds and releases the lock; an error means that it is lost or cannot be reached.
    async fn run_one_term(&self) -> Result<ReleaseCause, SessionError> {
        let (session, grant) = tokio::select! {
            acquired = acquire(&self.settings) => acquired?,
            () = self.release.cancelled() => return Ok(ReleaseCause::ProcessEnds),
        };
        tracing::info!(token = grant.token, "holding the lock between data centres");
        // Created before anyone can see that the lock is held, so that no notification is missed.
        let yielded = self.yield_lock.notified();
        self.hold(session, grant, yielded).await
    }

    async fn hold(
        &self,
        mut session: DatabaseSession,
        mut grant: LeaseGrant,
        yielded: Notified<'_>,
    ) -> Result<ReleaseCause, SessionError> {
        let settings = &self.settings;
        let mut yielded = std::pin::pin!(yielded);
        loop {
            self.lease.send_replace(Some(held_lease(settings, grant)));
            let cause = tokio::select! {
                () = sleep(settings.renew_every) => None,
                () = self.release.cancelled() => Some(ReleaseCause::ProcessEnds),
                () = yielded.as_mut() => Some(ReleaseCause::Yielded),
            };
            if let Some(cause) = cause {
                self.lease.send_replace(None);
                session.release(settings, grant).await;
                return Ok(cause);
            }
            let deadline = grant.requested_at + settings.usable_duration();
            let renewal = timeout_at(deadline, session.renew(settings, grant));
            grant = tokio::select! {
                renewed = renewal => renewed.unwrap_or(Err(SessionError::Timeout))?,
                () = self.release_timed_out() => return Ok(ReleaseCause::ProcessEnds),
            };
        }
    }

    /// A process that ends waits only so long for a database that does not answer.
    async fn release_timed_out(&self) {
        self.release.cancelled().await;
        sleep(RELEASE_TIMEOUT).await;
    }
}

/// Others may take over when the row expires; a fiftieth is left for clocks that tick differently.
fn held_lease(settings: &LockSettings, grant: LeaseGrant) -> HeldLease {
    HeldLease {
        fencing_token: FencingToken {
            lease: format!("{}.lease", settings.database),
            transitions: grant.token,
        },
        expires_at: grant.requested_at + settings.lease - settings.lease / 50,
    }
}

fn log_error(error: &SessionError, was_held: bool) {
    let reason = error.reason();
    let cause = std::error::Error::source(error).map(ToString::to_string);
    if was_held {
        tracing::error!(reason, %error, cause, "lost the lock between data centres");
    } else {
        tracing::warn!(reason, %error, cause, "could not compete for the lock between data centres");
    }
}

async fn acquire(settings: &LockSettings) -> Result<(DatabaseSession, LeaseGrant), SessionError> {
    let mut session = DatabaseSession::open(settings).await?;
    session.wait_for_named_locks(settings).await?;
    let grant = session.wait_for_row(settings).await?;
    Ok((session, grant))
}
