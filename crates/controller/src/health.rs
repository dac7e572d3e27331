//! Probes and the metrics page.
//!
//! `/healthz` fails when a loop makes no progress although work waits, and the log names the loop.
//! `/readyz` fails while something outside must be put right first. Both answer from the first
//! moment, also on replicas that stand by. No other routes are served here.

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

use crate::metrics::{self, Metrics};

/// What the probes answer from. Cloning shares it.
#[derive(Clone)]
pub struct Health(Arc<Inner>);

struct Inner {
    stall_after: Duration,
    loops: Mutex<BTreeMap<u64, Watched>>,
    obstacle: Mutex<Option<String>>,
}

struct Watched {
    name: String,
    /// Since when work has waited without progress.
    waits_since: Option<Instant>,
}

impl Health {
    /// Nothing is watched yet and nothing is in the way.
    pub fn new(stall_after: Duration) -> Self {
        Self(Arc::new(Inner {
            stall_after,
            loops: Mutex::default(),
            obstacle: Mutex::default(),
        }))
    }

    /// Watches one loop from now on, until the handle is dropped.
    pub fn progress(&self, name: impl Into<String>) -> Progress {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let watched = Watched {
            name: name.into(),
            waits_since: None,
        };
        self.0.loops.lock().insert(number, watched);
        Progress {
            health: self.clone(),
            number,
        }
    }

    /// Says what must be put right before this process is of use; `None` when it has been.
    pub fn set_obstacle(&self, obstacle: Option<String>) {
        *self.0.obstacle.lock() = obstacle;
    }

    /// The loops that make no progress although work waits, each with how long.
    pub fn stalled(&self) -> Vec<(String, Duration)> {
        let loops = self.0.loops.lock();
        let stalled = loops.values().filter_map(|watched| {
            let stalled = watched.waits_since?.elapsed();
            (stalled > self.0.stall_after).then(|| (watched.name.clone(), stalled))
        });
        stalled.collect()
    }

    fn obstacle(&self) -> Option<String> {
        self.0.obstacle.lock().clone()
    }
}

/// How a loop shows that it is alive.
pub struct Progress {
    health: Health,
    number: u64,
}

impl Progress {
    /// Whether there is something to do. Said each time that changes, or as often as one likes.
    pub fn work_waits(&self, waits: bool) {
        self.change(|watched| match waits {
            true => drop(watched.waits_since.get_or_insert_with(Instant::now)),
            false => watched.waits_since = None,
        });
    }

    /// A piece of work is done, well or badly.
    pub fn made_progress(&self) {
        self.change(|watched| {
            if let Some(since) = &mut watched.waits_since {
                *since = Instant::now();
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Watched)) {
        if let Some(watched) = self.health.0.loops.lock().get_mut(&self.number) {
            change(watched);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.health.0.loops.lock().remove(&self.number);
    }
}

/// `/healthz` and `/readyz`.
pub fn probes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(live))
        .route("/readyz", get(ready))
        .with_state(health)
}

/// `/metrics`.
pub fn metrics_page(metrics: Metrics) -> Router {
    let page = async |State(metrics): State<Metrics>| {
        let content_type = [(http::header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
        (content_type, metrics.page())
    };
    Router::new()
        .route("/metrics", get(page))
        .with_state(metrics)
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
            r#loop = name,
            seconds,
            "a loop makes no progress although work waits"
        );
        answer += &format!("{name}: no progress for {seconds} s although work waits\n");
    }
    (StatusCode::INTERNAL_SERVER_ERROR, answer)
}

async fn ready(State(health): State<Health>) -> impl IntoResponse {
    match health.obstacle() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(obstacle) => (StatusCode::INTERNAL_SERVER_ERROR, obstacle),
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
        // A machine without IPv6 has no "all addresses of both kinds".
        Err(_) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await?
        }
        bound => bound?,
    };
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let stopped = stop.cancelled_owned();
        let served = axum::serve(listener, router).with_graceful_shutdown(stopped);
        if let Err(error) = served.await {
            tracing::error!(%address, %error, "a server ended");
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
    async fn a_loop_without_work_is_well() {
        let health = Health::new(5 * MINUTE);
        let _pipelines = health.progress("pipeline");
        sleep(60 * MINUTE).await;
        assert_eq!(
            ask(probes(health), "/healthz").await,
            (200, "ok".to_owned())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_leaves_work_waiting_is_named() {
        let health = Health::new(5 * MINUTE);
        let pipelines = health.progress("pipeline");
        let triggers = health.progress("trigger");
        for _ in 0..10 {
            pipelines.work_waits(true);
            triggers.work_waits(true);
            sleep(MINUTE).await;
            triggers.made_progress();
        }
        let (status, body) = ask(probes(health.clone()), "/healthz").await;
        assert_eq!(status, 500);
        assert_eq!(
            body,
            "pipeline: no progress for 600 s although work waits\n"
        );
        assert_eq!(ask(probes(health.clone()), "/readyz").await.0, 200);

        pipelines.made_progress();
        assert_eq!(ask(probes(health.clone()), "/healthz").await.0, 200);
        sleep(6 * MINUTE).await;
        pipelines.work_waits(false);
        triggers.work_waits(false);
        assert_eq!(ask(probes(health), "/healthz").await.0, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_was_ended_is_not_missed() {
        let health = Health::new(5 * MINUTE);
        let pipelines = health.progress("pipeline");
        pipelines.work_waits(true);
        drop(pipelines);
        sleep(6 * MINUTE).await;
        assert_eq!(ask(probes(health), "/healthz").await.0, 200);
    }

    #[tokio::test]
    async fn an_obstacle_is_not_ready_but_alive() {
        let health = Health::new(5 * MINUTE);
        health.set_obstacle(Some("apply the definitions".to_owned()));
        let answer = ask(probes(health.clone()), "/readyz").await;
        assert_eq!(answer, (500, "apply the definitions".to_owned()));
        assert_eq!(ask(probes(health.clone()), "/healthz").await.0, 200);
        health.set_obstacle(None);
        assert_eq!(ask(probes(health), "/readyz").await.0, 200);
    }

    #[tokio::test]
    async fn the_metrics_page_is_served() {
        let (status, body) = ask(metrics_page(Metrics::new()), "/metrics").await;
        assert_eq!(status, 200);
        assert!(body.ends_with("# EOF\n"));
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
