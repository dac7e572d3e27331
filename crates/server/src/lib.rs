//! The HTTP server: webhooks of Flux and CI, a REST API, and the dashboard.
//!
//! It authenticates requests, records them in Pipelines and Promotions, and shows stored objects.
//! What a webhook means is decided by `planner`, and what is done about it by the controller. It runs
//! on every replica, leader or not. It never uses git, never decides about a promotion, and never
//! shows, logs or stores a secret.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`hooks`] | `/promotion`, `/approval` and `/release`, for Flux and CI; `/inputs`, for Flux Operator |
//! | [`web`] | the socket for people: `rest` and `dashboard` side by side |
//! | `rest` | `/api/v1`, with a bearer token |
//! | `dashboard` | pages for browsers |
//! | `actions` | what people do, called by `rest` and `dashboard` |
//! | `access` | TokenReviews and SubjectAccessReviews |
//! | `session` | who has signed in, in cookies |
//! | `oidc` | sign-in with an OpenID Connect provider |
//! | [`leaf`] | apps and their objects, read from clusters on request |
//! | `listen` | sockets, TLS, limits for slow and many clients |
//! | [`caches`] | the caches of the hub, shared with the reconcilers |
//! | `app_state` | the state that all handlers share |

mod access;
mod actions;
mod app_state;
mod cached_objects;
pub mod caches;
mod client;
mod dashboard;
mod fleet;
mod fresh_pipelines;
mod get_object;
pub mod hooks;
pub mod leaf;
mod listen;
mod metrics;
mod object_events;
mod object_names;
mod oidc;
mod problem;
mod random;
mod rate_limiter;
mod record;
mod rest;
mod session;
pub mod settings;
mod signature;
mod signing_keys;
mod target_objects;
mod triggers;
mod view;
pub mod web;

use std::{io, net::SocketAddr, path::PathBuf};

use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use app_state::AppState;
pub use caches::Caches;
pub use metrics::Metrics;
pub use settings::Settings;

/// The field manager of everything that people change.
const FIELD_MANAGER: &str = "sluice";

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use or not permitted.
    #[error("cannot listen on {address} for {purpose}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What it would serve.
        purpose: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error("cannot use the certificate {}: {why}", file.display())]
    Certificate {
        /// The file at fault.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The running server.
pub struct ServerHandle {
    /// The address that serves hooks.
    pub hooks: Option<SocketAddr>,
    /// The address that serves REST and the dashboard.
    pub rest: Option<SocketAddr>,
    connections: listen::ServerSockets,
}

impl ServerHandle {
    /// Waits, after `shutdown`, until requests in progress have ended or their grace period is over.
    pub async fn ended(self) {
        self.connections.ended().await;
    }
}

/// Starts a server in a process without reconcilers, with caches of its own.
pub async fn start(
    client: Client,
    settings: Settings,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<ServerHandle, Error> {
    let caches = Caches::watched(&client, settings.namespace.as_deref(), &shutdown);
    start_with_caches(client, caches, settings, metrics, shutdown).await
}

/// Binds the addresses, so that one in use is an error now, and serves in the background until
/// `shutdown`.
pub async fn start_with_caches(
    client: Client,
    caches: Caches,
    settings: Settings,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<ServerHandle, Error> {
    let tls = match &settings.tls {
        Some(files) => Some(listen::load_certificate(files.clone(), &shutdown).await?),
        None => None,
    };
    let (hooks, rest) = (settings.hooks_address, settings.rest_address);
    let app_state = AppState::with_caches(client, caches, settings, metrics, &shutdown);
    let connections = listen::ServerSockets::new(tls, shutdown);
    let mut bound = [None, None];
    let routers = [
        (hooks, "hooks", hooks::router(app_state.clone())),
        (rest, "REST", web::router(app_state)),
    ];
    for (slot, (address, purpose, router)) in bound.iter_mut().zip(routers) {
        let Some(address) = address else { continue };
        let listening = connections.listen(address, router).await;
        let address = listening.map_err(|source| Error::Listen {
            address,
            purpose,
            source,
        })?;
        info!(%address, purpose, "listening");
        *slot = Some(address);
    }
    let [hooks, rest] = bound;
    Ok(ServerHandle {
        hooks,
        rest,
        connections,
    })
}
