//! Serves probes and metrics, and watches the progress of reconcilers for them.
//!
//! `/healthz` fails when a reconciler makes no progress although work is queued, and names it. `/readyz`
//! fails while something outside the process must be fixed first. Both answer from the start, also on
//! replicas that do not lead. No other routes are served here.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use parking_lot::Mutex;
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;

/// The content type of the metrics page.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the probes report. Cloning shares it.
#[derive(Clone)]
pub struct Health(Arc<HealthState>);

struct HealthState {
    stall_after: Duration,
    reconcilers: Mutex<BTreeMap<u64, WatchedReconciler>>,
    not_ready: Mutex<Option<String>>,
}

struct WatchedReconciler {
    name: String,
    /// Since when work has been queued without progress.
    stuck_since: Option<Instant>,
}

impl Health {
    /// Healthy and ready; no reconciler is watched yet.
    pub fn new(stall_after: Duration) -> Self {
        Self(Arc::new(HealthState {
            stall_after,
            reconcilers: Mutex::default(),
            not_ready: Mutex::default(),
        }))
    }

    /// Watches a reconciler from now on, until the handle is dropped.
    pub fn progress(&self, name: impl Into<String>) -> ReconcilerProgress {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let watched = WatchedReconciler {
            name: name.into(),
            stuck_since: None,
        };
        self.0.reconcilers.lock().insert(number, watched);
        ReconcilerProgress {
            health: self.clone(),
            number,
        }
    }

    /// Sets what must be fixed before this process is ready; `None` when it has been.
    pub fn set_not_ready(&self, reason: Option<String>) {
        *self.0.not_ready.lock() = reason;
    }

    /// The reconcilers that make no progress although work is queued, each with how long.
    pub fn stalled(&self) -> Vec<(String, Duration)> {
        let reconcilers = self.0.reconcilers.lock();
        let stalled = reconcilers.values().filter_map(|watched| {
            let stalled = watched.stuck_since?.elapsed();
            (stalled > self.0.stall_after).then(|| (watched.name.clone(), stalled))
        });
        stalled.collect()
    }

    fn not_ready(&self) -> Option<String> {
        self.0.not_ready.lock().clone()
    }
}

/// Reports the progress of one reconciler.
pub struct ReconcilerProgress {
    health: Health,
    number: u64,
}

impl ReconcilerProgress {
    /// Sets whether work is queued.
    pub fn set_has_work(&self, has_work: bool) {
        self.change(|watched| match has_work {
            true => drop(watched.stuck_since.get_or_insert_with(Instant::now)),
            false => watched.stuck_since = None,
        });
    }

    /// A reconcile ended, successfully or not.
    pub fn made_progress(&self) {
        self.change(|watched| {
            if let Some(since) = &mut watched.stuck_since {
                *since = Instant::now();
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut WatchedReconciler)) {
        if let Some(watched) = self.health.0.reconcilers.lock().get_mut(&self.number) {
            change(watched);
        }
    }
}

impl Drop for ReconcilerProgress {
    fn drop(&mut self) {
        self.health.0.reconcilers.lock().remove(&self.number);
    }
}

/// `/healthz` and `/readyz`.
pub fn probes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(live))
        .route("/readyz", get(ready))
        .with_state(health)
}

/// `/metrics`, with the page that `render` returns.
pub fn metrics_page(render: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let page = async move || {
        let content_type = [(http::header::CONTENT_TYPE, OPEN_METRICS)];
        (content_type, render())
    };
    Router::new().route("/metrics", get(page))
}

async fn live(State(health): State<Health>) -> impl IntoResponse {
    let stalled = health.stalled();
    if stalled.is_empty() {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut answer = String::new();
    for (name, since) in stalled {
        let seconds = since.as_secs();
        tracing::error!(
            reconciler = name,
            seconds,
            "a reconciler makes no progress although work is queued"
        );
        answer += &format!("{name}: no progress for {seconds} s although work is queued\n");
    }
    (StatusCode::INTERNAL_SERVER_ERROR, answer)
}

async fn ready(State(health): State<Health>) -> impl IntoResponse {
    match health.not_ready() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(reason) => (StatusCode::INTERNAL_SERVER_ERROR, reason),
    }
}

/// Listens at once, so that a taken port is an error now, and serves in the background until `stop`.
/// Returns where it listens.
pub async fn serve(
    address: SocketAddr,
    router: Router,
    stop: CancellationToken,
) -> io::Result<SocketAddr> {
    let listener = match TcpListener::bind(address).await {
        // A machine without IPv6 has no dual-stack wildcard address.
        Err(_) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await?
        }
        bound => bound?,
    };
    let address = listener.local_addr()?;
    crate::spawn(async move {
        let stopped = stop.cancelled_owned();
        let served = axum::serve(listener, router).with_graceful_shutdown(stopped);
        if let Err(error) = served.await {
            tracing::error!(%address, %error, "the server for probes or metrics ended");
        }
    });
    Ok(address)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use tokio::time::sleep;
    use tower::ServiceExt;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    async fn ask(router: Router, path: &str) -> (u16, String) {
        let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await;
        (status, String::from_utf8(body.unwrap().to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconciler_without_work_is_healthy() {
        let health = Health::new(5 * MINUTE);
        let _pipelines = health.progress("pipeline");
        sleep(60 * MINUTE).await;
        assert_eq!(
            ask(probes(health), "/healthz").await,
            (200, "ok".to_owned())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconciler_that_leaves_work_queued_is_named() {
        let health = Health::new(5 * MINUTE);
        let pipelines = health.progress("pipeline");
        let triggers = health.progress("trigger");
        for _ in 0..10 {
            pipelines.set_has_work(true);
            triggers.set_has_work(true);
            sleep(MINUTE).await;
            triggers.made_progress();
        }
        let (status, body) = ask(probes(health.clone()), "/healthz").await;
        assert_eq!(status, 500);
        assert_eq!(
            body,
            "pipeline: no progress for 600 s although work is queued\n"
        );
        assert_eq!(ask(probes(health.clone()), "/readyz").await.0, 200);

        pipelines.made_progress();
        assert_eq!(ask(probes(health.clone()), "/healthz").await.0, 200);
        sleep(6 * MINUTE).await;
        pipelines.set_has_work(false);
        triggers.set_has_work(false);
        assert_eq!(ask(probes(health), "/healthz").await.0, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconciler_that_was_stopped_is_not_watched() {
        let health = Health::new(5 * MINUTE);
        let pipelines = health.progress("pipeline");
        pipelines.set_has_work(true);
        drop(pipelines);
        sleep(6 * MINUTE).await;
        assert_eq!(ask(probes(health), "/healthz").await.0, 200);
    }

    #[tokio::test]
    async fn a_process_that_is_not_ready_is_still_healthy() {
        let health = Health::new(5 * MINUTE);
        health.set_not_ready(Some("apply the definitions".to_owned()));
        let answer = ask(probes(health.clone()), "/readyz").await;
        assert_eq!(answer, (500, "apply the definitions".to_owned()));
        assert_eq!(ask(probes(health.clone()), "/healthz").await.0, 200);
        health.set_not_ready(None);
        assert_eq!(ask(probes(health), "/readyz").await.0, 200);
    }

    #[tokio::test]
    async fn the_metrics_page_is_served() {
        let (status, body) = ask(metrics_page(|| "# EOF\n".to_owned()), "/metrics").await;
        assert_eq!(status, 200);
        assert!(body.ends_with("# EOF\n"));
    }

    /// It must not listen to everybody instead.
    #[tokio::test]
    async fn an_address_of_another_machine_is_an_error() {
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 0));
        let router = probes(Health::new(MINUTE));
        let served = serve(elsewhere, router, CancellationToken::new()).await;
        assert!(served.is_err(), "{served:?}");
    }

    #[tokio::test]
    async fn where_all_of_ipv6_cannot_be_listened_on_it_is_all_of_ipv4() {
        // Where there is no IPv6 at all, nothing is in the way, and nothing need be.
        let taken = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await;
        let port = taken
            .as_ref()
            .map_or(0, |it| it.local_addr().unwrap().port());
        let wildcard = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let stop = CancellationToken::new();
        let router = probes(Health::new(MINUTE));
        let address = serve(wildcard, router, stop.clone()).await.unwrap();
        assert!(address.is_ipv4(), "{address}");
        stop.cancel();
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error() {
        let stop = CancellationToken::new();
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let router = || probes(Health::new(MINUTE));
        let taken = serve(anywhere, router(), stop.clone()).await.unwrap();
        assert!(serve(taken, router(), stop.clone()).await.is_err());
        stop.cancel();
    }
}
