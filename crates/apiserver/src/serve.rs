//! Serves the API on a socket, with TLS, bearer tokens, a kubeconfig and limits.
//!
//! It listens on the loopback interface by default, and answers only requests whose
//! `Host` header names this server, so that no web page can reach it by DNS rebinding. What a client
//! can make the server hold is limited: connections, requests, watches, headers, bodies and time. A
//! client that does not read its response is disconnected.
//!
//! The folder holds the identity of the server (`identity.json`: certificate, key and the
//! administrator's token) and a `kubeconfig` with it. Only their owner can read both, and they stay
//! the same over restarts.

mod identity;
mod request;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use listener::{ConnectionLimits, Connections};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{identity::Identity, request::RequestHandler};
use crate::{MASTERS, Server, User};

/// The user of the kubeconfig.
pub const ADMINISTRATOR: &str = "admin";

/// How the API is served.
pub struct ServeOptions {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// The folder of the identity and the kubeconfig; created if it does not exist.
    pub folder: PathBuf,
    /// More names of the server, besides those of the loopback interface.
    pub names: Vec<String>,
    /// Whether the address may be other than a loopback address.
    pub allow_remote: bool,
    /// What clients can make the server hold.
    pub limits: Limits,
}

impl ServeOptions {
    /// On a free loopback port, with the usual limits.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            folder: folder.into(),
            names: Vec::new(),
            allow_remote: false,
            limits: Limits::default(),
        }
    }
}

/// What clients can make the server hold. The body of a request is limited to 3 MiB in any case.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections, shared between client addresses; more are closed at once.
    pub connections: usize,
    /// Requests other than watches that run or whose responses are being read, shared between
    /// client addresses.
    pub requests: usize,
    /// Open watches.
    pub watches: usize,
    /// How long a request other than a watch may take, its body included.
    pub request_time: Duration,
    /// How long a connection may be without a request, and a request without its headers.
    pub idle_time: Duration,
    /// How long a client may read nothing of a response.
    pub stalled_time: Duration,
}

impl Limits {
    fn of_connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.connections,
            header_timeout: self.idle_time,
            write_timeout: self.stalled_time,
            header_count: None,
            header_bytes: 64 * 1024,
            grace_period: Duration::ZERO,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2000,
            requests: 400,
            watches: 1000,
            request_time: Duration::from_secs(60),
            idle_time: Duration::from_secs(90),
            stalled_time: Duration::from_secs(30),
        }
    }
}

/// Why the API could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not a loopback address, and remote clients are not allowed.
    #[error("serving on {0}: it is not a loopback address, and remote clients are not allowed")]
    NotLoopback(SocketAddr),
    /// The operating system refused something.
    #[error("{attempted}")]
    System {
        /// What was attempted.
        attempted: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The identity file is invalid.
    #[error("reading the identity of the server in {}: {why}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate could not be created.
    #[error("making a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("using the certificate")]
    Tls(#[from] rustls::Error),
}

/// A running server; dropping it closes the socket and every connection.
pub struct ServeHandle {
    address: SocketAddr,
    kubeconfig: PathBuf,
    _stop: DropGuard,
}

impl ServeHandle {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }
}

impl Server {
    /// Serves this API over TLS and writes a kubeconfig for its administrator.
    pub async fn serve(&self, options: ServeOptions) -> Result<ServeHandle, ServeError> {
        let address = options.address;
        if !address.ip().is_loopback() && !options.allow_remote {
            return Err(ServeError::NotLoopback(address));
        }
        let failed = |attempted: String| move |source| ServeError::System { attempted, source };
        let names = names(address.ip(), &options.names);
        let identity = Identity::in_folder(&options.folder, &names)?;
        let listener = listener::bind(address)
            .await
            .map_err(failed(format!("listening on {address}")))?;
        let address = listener
            .local_addr()
            .map_err(failed("asking for the address of the socket".to_owned()))?;
        let kubeconfig = identity.write_kubeconfig(&options.folder, address)?;
        self.add_token(identity.token(), User::new(ADMINISTRATOR, &[MASTERS]));
        let tls = Arc::new(identity.certificate()?);
        let stop = CancellationToken::new();
        let connections =
            Connections::new(options.limits.of_connections(), Some(tls), stop.clone());
        let handler = Arc::new(RequestHandler::new(self.clone(), names, options.limits));
        connections.accept(listener, move |request, peer| {
            let handler = handler.clone();
            async move { handler.handle(request, peer).await }
        });
        Ok(ServeHandle {
            address,
            kubeconfig,
            _stop: stop.drop_guard(),
        })
    }
}

/// The names that are valid in a `Host` header and are in the certificate.
fn names(address: IpAddr, more: &[String]) -> Vec<String> {
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut names: Vec<String> = loopback.into();
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    names.extend(more.iter().map(|name| name.to_lowercase()));
    names.sort_unstable();
    names.dedup();
    names
}
