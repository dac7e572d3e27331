//! The API on a socket: TLS, bearer tokens, a kubeconfig, and limits.
//!
//! Only the loopback interface unless told otherwise, and only requests whose `Host` names this
//! server, so that no web page can reach it through a name of its own. What a client can make the
//! server hold is bounded: connections, requests, watches, headers, bodies and time. Who does not
//! read what was asked for is cut off.
//!
//! The folder holds the identity of the server (`identity.json`: certificate, keys, the
//! administrator's token) and the `kubeconfig` made of it; both are readable by their owner only
//! and stay the same over restarts.

mod gate;
mod identity;
mod seats;
mod stall;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use self::{
    gate::Gate,
    identity::Identity,
    seats::{Seat, Seats},
    stall::Impatient,
};
use crate::{MASTERS, Server, User};

/// How to serve.
pub struct ServeOptions {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Holds the identity of the server and the kubeconfig; made if it is not there.
    pub folder: PathBuf,
    /// Names, beside those of the loopback interface, under which clients know the server.
    pub names: Vec<String>,
    /// Whether the address may be another than a loopback address.
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
    /// Open connections, shared between the addresses of clients; more are closed at once.
    pub connections: usize,
    /// Requests other than watches that are carried out or whose answers are being read, shared
    /// between the addresses of clients.
    pub requests: usize,
    /// Open watches.
    pub watches: usize,
    /// How long a request other than a watch may take, its body included.
    pub request_time: Duration,
    /// How long a connection may be without a request, and a request without its headers.
    pub idle_time: Duration,
    /// How long a client may read nothing of what is there for it.
    pub stalled_time: Duration,
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
    /// The address can be reached from elsewhere, and nobody said that it may.
    #[error("serving on {0}: it is no loopback address, and serving others is not allowed")]
    NotLoopback(SocketAddr),
    /// The operating system refused something.
    #[error("{attempted}")]
    System {
        /// What was attempted.
        attempted: String,
        /// What the system said.
        source: io::Error,
    },
    /// The identity file is not one of ours.
    #[error("reading the identity of the server in {}: {why}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate could not be made.
    #[error("making a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("using the certificate")]
    Tls(#[from] rustls::Error),
}

/// A served API; dropping it closes the socket and every connection.
pub struct Served {
    address: SocketAddr,
    kubeconfig: PathBuf,
    task: JoinHandle<()>,
}

impl Served {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file with which kubectl and others reach it as administrator.
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Serves this API over TLS and writes a kubeconfig for its administrator.
    pub async fn serve(&self, options: ServeOptions) -> Result<Served, ServeError> {
        let address = options.address;
        if !address.ip().is_loopback() && !options.allow_remote {
            return Err(ServeError::NotLoopback(address));
        }
        let failed = |attempted: String| move |source| ServeError::System { attempted, source };
        let names = names(address.ip(), &options.names);
        let identity = Identity::in_folder(&options.folder, &names)?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(failed(format!("listening on {address}")))?;
        let address = listener
            .local_addr()
            .map_err(failed("asking for the address of the socket".to_owned()))?;
        let kubeconfig = identity.write_kubeconfig(&options.folder, address)?;
        self.add_token(identity.token(), User::new("admin", &[MASTERS]));
        let door = Door {
            tls: TlsAcceptor::from(Arc::new(identity.tls()?)),
            gate: Arc::new(Gate::new(self.clone(), names, options.limits.clone())),
            seats: Seats::new(options.limits.connections),
            limits: options.limits,
        };
        Ok(Served {
            address,
            kubeconfig,
            task: tokio::spawn(door.keep(listener)),
        })
    }
}

/// What may stand in a `Host` header and in the certificate.
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

/// Takes connections in.
#[derive(Clone)]
struct Door {
    tls: TlsAcceptor,
    gate: Arc<Gate>,
    seats: Arc<Seats>,
    limits: Limits,
}

impl Door {
    async fn keep(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.seat(stream, peer, &mut connections),
                    // Out of file descriptors: it may get better when connections end.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    fn seat(&self, stream: TcpStream, peer: SocketAddr, connections: &mut JoinSet<()>) {
        if let Some(seat) = self.seats.take(peer.ip()) {
            connections.spawn(self.clone().attend(stream, peer, seat));
        }
    }

    async fn attend(self, stream: TcpStream, peer: SocketAddr, seat: Seat) {
        let seat = Arc::new(seat);
        tokio::select! {
            () = self.serve(stream, peer, &seat) => {}
            () = seat.lost() => {}
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr, seat: &Arc<Seat>) {
        let _ = stream.set_nodelay(true);
        let stream = Impatient::new(stream, self.limits.stalled_time);
        let greeting = tokio::time::timeout(self.limits.idle_time, self.tls.accept(stream));
        let Ok(Ok(stream)) = greeting.await else {
            return;
        };
        let (gate, seat) = (self.gate.clone(), seat.clone());
        let service = tower::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            seat.has_asked();
            let gate = gate.clone();
            let answer = async move { gate.answer(request, peer.ip()).await };
            async move { Ok::<_, std::convert::Infallible>(answer.await) }
        });
        // How a connection ended matters to nobody but its client.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle_time)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .await;
    }
}
