//! Accepts connections for an HTTP/1.1 server and limits what clients can make it hold.
//!
//! Connections are shared fairly between client addresses ([`ClientSemaphore`]). A client that is
//! slow to send its request, or does not read the response ([`WriteTimeout`]), loses its
//! connection. TLS is optional and its certificate can be replaced ([`TlsCertificate`]). When the
//! server stops, responses under way get a grace period. Bodies are for the request handler to
//! limit.

mod client_semaphore;
mod tls;
mod write_timeout;

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{body::Body, response::Response};
use http::Request;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use client_semaphore::{ClientPermit, ClientSemaphore, client_network};
pub use tls::TlsCertificate;
pub use write_timeout::WriteTimeout;

/// What the clients of one socket can make the server hold.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Open connections, shared between client addresses; more are closed at once.
    pub connections: usize,
    /// How long a TLS handshake or the headers of a request may take, and how long a connection may
    /// idle.
    pub header_timeout: Duration,
    /// How long a client may read nothing of a response.
    pub write_timeout: Duration,
    /// How many headers a request may have; `None` for hyper's default of 100.
    pub header_count: Option<usize>,
    /// How many bytes the headers of a request may have.
    pub header_bytes: usize,
    /// How long responses under way may take once the server stops.
    pub grace_period: Duration,
}

/// Listens on an address. On a machine without IPv6, `[::]` means all IPv4 addresses.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(_) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

/// The connections of any number of sockets, accepted until `stop` is cancelled.
pub struct Connections {
    limits: ConnectionLimits,
    tls: Option<Arc<TlsCertificate>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Connections {
    /// Accepts nothing yet. The limits apply to each socket on its own.
    pub fn new(
        limits: ConnectionLimits,
        tls: Option<Arc<TlsCertificate>>,
        stop: CancellationToken,
    ) -> Self {
        let tasks = TaskTracker::new();
        Self {
            limits,
            tls,
            tasks,
            stop,
        }
    }

    /// Accepts connections in the background. `handle` gets each request and the client's address.
    pub fn accept<H, F>(&self, listener: TcpListener, handle: H)
    where
        H: Fn(Request<Body>, IpAddr) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let acceptor = Acceptor {
            limits: self.limits.clone(),
            tls: self.tls.clone(),
            permits: ClientSemaphore::new(self.limits.connections),
            tasks: self.tasks.clone(),
            stop: self.stop.clone(),
            handle,
        };
        self.tasks.spawn(acceptor.run(listener));
    }

    /// Waits, after `stop`, for the last connection to end.
    pub async fn closed(self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Accepts the connections of one socket.
#[derive(Clone)]
struct Acceptor<H> {
    limits: ConnectionLimits,
    tls: Option<Arc<TlsCertificate>>,
    permits: Arc<ClientSemaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
    handle: H,
}

impl<H, F> Acceptor<H>
where
    H: Fn(Request<Body>, IpAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    async fn run(self, listener: TcpListener) {
        while let Some(accepted) = self.stop.run_until_cancelled(listener.accept()).await {
            let Ok((stream, peer)) = accepted else {
                // Out of file descriptors: there are more when connections end.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            if let Some(permit) = self.permits.acquire(peer.ip()) {
                let connection = self.clone().serve_until_revoked(stream, peer.ip(), permit);
                self.tasks.spawn(connection);
            }
        }
    }

    async fn serve_until_revoked(self, stream: TcpStream, peer: IpAddr, permit: ClientPermit) {
        let permit = Arc::new(permit);
        tokio::select! {
            () = self.serve(stream, peer, &permit) => {}
            () = permit.revoked() => {}
        }
    }

    async fn serve(&self, stream: TcpStream, peer: IpAddr, permit: &Arc<ClientPermit>) {
        let _ = stream.set_nodelay(true);
        let stream = WriteTimeout::new(stream, self.limits.write_timeout);
        let Some(tls) = &self.tls else {
            return self.serve_http(stream, peer, permit).await;
        };
        let handshake = timeout(self.limits.header_timeout, tls.acceptor().accept(stream));
        if let Some(Ok(Ok(stream))) = self.stop.run_until_cancelled(handshake).await {
            self.serve_http(stream, peer, permit).await;
        }
    }

    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: IpAddr,
        permit: &Arc<ClientPermit>,
    ) {
        let (handle, permit) = (self.handle.clone(), permit.clone());
        let service = tower::service_fn(move |request: Request<hyper::body::Incoming>| {
            permit.mark_request_received();
            let response = handle(request.map(Body::new), peer);
            async move { Ok::<_, Infallible>(response.await) }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(self.limits.header_bytes);
        if let Some(count) = self.limits.header_count {
            http.max_headers(count);
        }
        let connection =
            http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = std::pin::pin!(connection);
        // How a connection ended matters to nobody but its client.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(self.limits.grace_period, connection).await;
            }
        }
    }
}
