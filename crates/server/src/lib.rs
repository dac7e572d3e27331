//! The door: webhooks from clusters and CI, approvals, and REST for people.
//!
//! Authenticates, records and shows. What a call means is `planner`'s to say and what comes of it
//! the controller's: calls are stored on the Pipeline or Promotion they are about, and answers are
//! read from there. Runs on every replica, whoever leads. Never uses git, never decides about a
//! promotion, and never shows, logs or stores a secret.
//!
//! | part | what for |
//! | --- | --- |
//! | [`hooks`] | `/promotion`, `/approval` and `/release`, as Flux and CI call them |
//! | [`rest`] | `/api/v1`, as people and programs call it with a token |
//! | `dashboard` | pages for people, on the same port as REST |
//! | [`leaf`] | what is on the clusters, read when somebody asks |
//! | `listen` | sockets, TLS, limits for slow and many clients |
//! | `door` | what all handlers share: what is known by watching, and how it is recorded |

mod approve;
mod client;
mod dashboard;
mod door;
mod fleet;
pub mod hooks;
pub mod leaf;
mod limiter;
mod listen;
mod metrics;
mod objects;
mod random;
mod read;
mod record;
pub mod rest;
mod secrets;
mod session;
pub mod settings;
mod signature;
mod triggers;
mod view;
mod watched;

use std::{io, net::SocketAddr, path::PathBuf};

use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use door::Door;
pub use metrics::Metrics;
pub use settings::Settings;

/// Who we are to the API server's field ownership.
const FIELD_MANAGER: &str = "sluice";

/// Why the door could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port is taken or may not be used.
    #[error("cannot listen on {address} for {purpose}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What for.
        purpose: &'static str,
        /// Why.
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

/// The open door.
pub struct Serving {
    /// Where hooks are served.
    pub hooks: Option<SocketAddr>,
    /// Where REST is served.
    pub rest: Option<SocketAddr>,
    connections: listen::Connections,
}

impl Serving {
    /// Waits, after `shutdown`, for the calls under way, but not for ever.
    pub async fn ended(self) {
        self.connections.ended().await;
    }
}

/// Listens at once, so that a taken port is an error now, and serves in the background until
/// `shutdown`.
pub async fn start(
    client: Client,
    settings: Settings,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<Serving, Error> {
    let tls = match &settings.tls {
        Some(files) => Some(listen::load_certificate(files.clone(), &shutdown).await?),
        None => None,
    };
    let (hooks, rest) = (settings.hooks_address, settings.rest_address);
    let door = Door::new(client, settings, metrics, &shutdown);
    let connections = listen::Connections::new(tls, shutdown);
    let mut bound = [None, None];
    let doors = [
        (hooks, "hooks", hooks::router(door.clone())),
        (rest, "REST", rest::router(door)),
    ];
    for (slot, (address, purpose, router)) in bound.iter_mut().zip(doors) {
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
    Ok(Serving {
        hooks,
        rest,
        connections,
    })
}
