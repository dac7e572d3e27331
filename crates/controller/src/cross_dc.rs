//! The lock between data centres: of all Sluices that share a database, one acts.
//!
//! A row with an expiry and a growing token is the lease. Beside it the session holds the two named
//! locks that the trigger operator used, so that one of its replicas and one of ours exclude each
//! other while people migrate. Leading ends on our own monotonic clock, a margin before the row
//! expires: whoever lost the database, or was stopped, has ceased to act before anyone else can
//! start. Needs one writable endpoint; the named locks are not replicated.

mod session;
mod settings;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, futures::Notified, watch},
    task::JoinHandle,
    time::{sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use runtime::{
    LeaderGuard,
    leader::{FencingToken, HeldLease},
};
use session::{Grant, Session, SessionError};

pub use settings::{Encryption, Secret, Settings, SettingsError, from_environment};

/// Between attempts to reach the database: the first pause, doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long handing over may take. Whoever waits for us to end does not wait longer.
const HAND_OVER_TIME: Duration = Duration::from_secs(2);

/// Competes for the lock in the background until `release` is cancelled; then hands it over at once.
/// `pass_on` hands it over as well, to whoever waits for it, and lets some time pass before this
/// process competes again.
pub fn campaign(
    settings: Settings,
    pass_on: Arc<Notify>,
    release: CancellationToken,
) -> (LeaderGuard, JoinHandle<()>) {
    let (tenure, claim) = watch::channel(None);
    let campaign = Campaign {
        settings,
        pass_on,
        release,
        tenure,
    };
    let leadership = LeaderGuard::without_election().and_lease(claim);
    (leadership, tokio::spawn(campaign.run()))
}

struct Campaign {
    settings: Settings,
    pass_on: Arc<Notify>,
    release: CancellationToken,
    tenure: watch::Sender<Option<HeldLease>>,
}

/// How a time of holding the lock ended, unless it was lost.
enum End {
    /// The process ends.
    Released,
    /// It is somebody else's turn.
    PassedOn,
}

impl Campaign {
    async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let term = self.serve_one_term().await;
            let led = self.tenure.send_replace(None).is_some();
            let rest = match term {
                Ok(End::Released) => return,
                Ok(End::PassedOn) => self.settings.lease,
                Err(error) => {
                    pause = if led { FIRST_PAUSE } else { pause };
                    complain(&error, led);
                    pause
                }
            };
            pause = LONGEST_PAUSE.min(pause * 2);
            tokio::select! {
                () = sleep(rest) => {}
                () = self.release.cancelled() => return,
            }
        }
    }

    /// Gets the lock, holds it, and gives it back; an error means that it is lost or out of reach.
    async fn serve_one_term(&self) -> Result<End, SessionError> {
        let (session, grant) = tokio::select! {
            acquired = acquire(&self.settings) => acquired?,
            () = self.release.cancelled() => return Ok(End::Released),
        };
        tracing::info!(token = grant.token, "holding the lock between data centres");
        // Asked for before anyone can know that the lock is held, so that no word is missed.
        let passed_on = self.pass_on.notified();
        self.hold(session, grant, passed_on).await
    }

    async fn hold(
        &self,
        mut session: Session,
        mut grant: Grant,
        passed_on: Notified<'_>,
    ) -> Result<End, SessionError> {
        let settings = &self.settings;
        let mut passed_on = std::pin::pin!(passed_on);
        loop {
            self.tenure.send_replace(Some(tenure(settings, grant)));
            let end = tokio::select! {
                () = sleep(settings.renew_every) => None,
                () = self.release.cancelled() => Some(End::Released),
                () = passed_on.as_mut() => Some(End::PassedOn),
            };
            if let Some(end) = end {
                self.tenure.send_replace(None);
                session.hand_over(settings, grant).await;
                return Ok(end);
            }
            let stops = grant.asked_at + settings.acting_time();
            let renewing = timeout_at(stops, session.renew(settings, grant));
            grant = tokio::select! {
                renewed = renewing => renewed.unwrap_or(Err(SessionError::Slow))?,
                () = self.out_of_patience() => return Ok(End::Released),
            };
        }
    }

    /// Who ends does not wait long for a database that does not answer.
    async fn out_of_patience(&self) {
        self.release.cancelled().await;
        sleep(HAND_OVER_TIME).await;
    }
}

/// Others may take over when the row expires; a little is left for clocks that tick differently.
fn tenure(settings: &Settings, grant: Grant) -> HeldLease {
    HeldLease {
        fencing_token: FencingToken {
            lease: format!("{}.lease", settings.database),
            transitions: grant.token,
        },
        expires_at: grant.asked_at + settings.lease - settings.lease / 50,
    }
}

fn complain(error: &SessionError, led: bool) {
    let reason = error.reason();
    let cause = std::error::Error::source(error).map(ToString::to_string);
    if led {
        tracing::error!(reason, %error, cause, "lost the lock between data centres");
    } else {
        tracing::warn!(reason, %error, cause, "cannot compete for the lock between data centres");
    }
}

async fn acquire(settings: &Settings) -> Result<(Session, Grant), SessionError> {
    let mut session = Session::open(settings).await?;
    session.wait_for_named_locks(settings).await?;
    let grant = session.wait_for_row(settings).await?;
    Ok((session, grant))
}
