//! The lock between data centres: of all Sluices that share a database, one acts.
//!
//! A row with an expiry and a growing token is the lease. Beside it the session holds the two named
//! locks that the trigger operator used, so that one of its replicas and one of ours exclude each
//! other while people migrate. Leading ends on our own monotonic clock, a margin before the row
//! expires: whoever lost the database, or was stopped, has ceased to act before anyone else can
//! start. Needs one writable endpoint; the named locks are not replicated.

mod session;
mod settings;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use session::{Session, SessionError};

pub use settings::{
    Encryption, SECOND_CLUSTER_REFUSAL, Secret, Settings, SettingsError, from_environment,
};

/// Between attempts to reach the database.
const PAUSE: Duration = Duration::from_millis(500);

/// Whether this process may act. Cloning shares it.
#[derive(Clone)]
pub struct Leadership(Arc<State>);

struct State {
    /// What the other times count from.
    base: Instant,
    /// Nanoseconds after the base at which leading ends; zero while not leading.
    until: AtomicU64,
    token: AtomicU64,
}

impl Leadership {
    /// Nobody leads until the lock is held.
    pub fn new() -> Self {
        Self(Arc::new(State {
            base: Instant::now(),
            until: AtomicU64::new(0),
            token: AtomicU64::new(0),
        }))
    }

    /// Whether this process may start an act that ends within the margin.
    pub fn leads(&self) -> bool {
        self.now() < self.0.until.load(Ordering::SeqCst)
    }

    /// Grows with every holder; zero before the first time.
    pub fn token(&self) -> u64 {
        self.0.token.load(Ordering::SeqCst)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.base.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn lead_until(&self, instant: Instant, token: u64) {
        let until = instant.saturating_duration_since(self.0.base).as_nanos();
        self.0.token.store(token, Ordering::SeqCst);
        let until = u64::try_from(until).unwrap_or(u64::MAX);
        self.0.until.store(until, Ordering::SeqCst);
    }

    fn stop(&self) {
        self.0.until.store(0, Ordering::SeqCst);
    }
}

impl Default for Leadership {
    fn default() -> Self {
        Self::new()
    }
}

/// Competes for the lock until `shutdown` resolves; then hands it over at once.
pub async fn compete(
    settings: Settings,
    leadership: Leadership,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let term = serve_one_term(&settings, &leadership, shutdown.as_mut()).await;
        leadership.stop();
        match term {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(reason = error.reason(), error = ?error, "not holding the lock between data centres");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = shutdown.as_mut() => return,
        }
    }
}

/// Gets the lock, holds it, and gives it back; an error means that it is lost or out of reach.
async fn serve_one_term(
    settings: &Settings,
    leadership: &Leadership,
    mut shutdown: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> Result<(), SessionError> {
    let acquired = tokio::select! {
        acquired = acquire(settings) => acquired?,
        () = shutdown.as_mut() => return Ok(()),
    };
    let (mut session, mut grant) = acquired;
    tracing::info!(token = grant.token, "holding the lock between data centres");
    loop {
        leadership.lead_until(grant.asked_at + settings.acting_time(), grant.token);
        tokio::select! {
            () = tokio::time::sleep(settings.renew_every) => {}
            () = shutdown.as_mut() => {
                leadership.stop();
                return session.hand_over(settings, grant).await;
            }
        }
        grant = session.renew(settings, grant).await?;
    }
}

async fn acquire(settings: &Settings) -> Result<(Session, session::Grant), SessionError> {
    let mut session = Session::open(settings).await?;
    session.wait_for_named_locks(settings).await?;
    let grant = session.wait_for_row(settings).await?;
    Ok((session, grant))
}
