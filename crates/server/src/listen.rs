//! Sockets: TLS or plain, and limits for clients that are many or slow.
//!
//! What a client can make the process hold is bounded: connections, headers, bodies (by the
//! handlers) and time. Who is slow to send or does not read is cut off.

mod seats;
mod stall;
mod tls;

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body, response::IntoResponse};
use http::StatusCode;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use crate::client::Peer;
use seats::{Seat, Seats};
use stall::Impatient;
pub(crate) use tls::Tls;

/// Open connections of each socket, shared between the addresses of clients; more are closed at once.
/// People who follow pages must not keep hooks out.
const CONNECTIONS: usize = 1000;
/// How long a TLS handshake, or a request's headers, may take; also how long a connection may idle.
const SLOWEST_HEADERS: Duration = Duration::from_secs(15);
/// How long a client may read nothing of what is there for it.
const STALLED: Duration = Duration::from_secs(15);
/// How long an answer may take.
const SLOWEST_ANSWER: Duration = Duration::from_secs(60);
/// How long calls under way may take once the process is to end.
const GRACE: Duration = Duration::from_secs(5);
const MOST_HEADERS: usize = 64;
const LONGEST_HEADERS: usize = 32 << 10;

/// The open connections of all sockets.
pub(crate) struct Connections {
    tls: Option<Arc<Tls>>,
    /// How many each socket has.
    seats: usize,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Connections {
    pub(crate) fn new(tls: Option<Arc<Tls>>, stop: CancellationToken) -> Self {
        Self {
            tls,
            seats: CONNECTIONS,
            tasks: TaskTracker::new(),
            stop,
        }
    }

    /// Listens now and serves in the background. Returns where it listens.
    pub(crate) async fn listen(
        &self,
        address: SocketAddr,
        router: Router,
    ) -> io::Result<SocketAddr> {
        let listener = match TcpListener::bind(address).await {
            // A machine without IPv6 has no "all addresses of both kinds".
            Err(_) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await?
            }
            bound => bound?,
        };
        let address = listener.local_addr()?;
        let post = Post {
            tls: self.tls.clone(),
            seats: Seats::new(self.seats),
            tasks: self.tasks.clone(),
            stop: self.stop.clone(),
            router,
        };
        self.tasks.spawn(post.keep(listener));
        Ok(address)
    }

    /// Waits for the last connection to end.
    pub(crate) async fn ended(self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// One socket.
#[derive(Clone)]
struct Post {
    tls: Option<Arc<Tls>>,
    seats: Arc<Seats>,
    tasks: TaskTracker,
    stop: CancellationToken,
    router: Router,
}

impl Post {
    async fn keep(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    if let Some(seat) = self.seats.take(peer.ip()) {
                        let attending = self.clone().attend(stream, peer, seat);
                        self.tasks.spawn(attending);
                    }
                }
                // Out of file descriptors: it may get better when connections end.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn attend(self, stream: TcpStream, peer: SocketAddr, seat: Seat) {
        let seat = Arc::new(seat);
        tokio::select! {
            () = self.greet(stream, peer, &seat) => {}
            () = seat.lost() => {}
        }
    }

    async fn greet(&self, stream: TcpStream, peer: SocketAddr, seat: &Arc<Seat>) {
        let _ = stream.set_nodelay(true);
        let stream = Impatient::new(stream, STALLED);
        match self.tls.as_ref().map(|tls| tls.acceptor()) {
            None => self.serve(stream, peer, seat).await,
            Some(acceptor) => {
                let greeting = timeout(SLOWEST_HEADERS, acceptor.accept(stream)).await;
                if let Ok(Ok(stream)) = greeting {
                    self.serve(stream, peer, seat).await;
                }
            }
        }
    }

    async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: SocketAddr,
        seat: &Arc<Seat>,
    ) {
        let (router, seat) = (self.router.clone(), seat.clone());
        let service = tower::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            seat.has_asked();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer.ip()));
            let answer = router.clone().oneshot(request);
            async move {
                let answer = timeout(SLOWEST_ANSWER, answer).await;
                let late = |_| Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
                answer.unwrap_or_else(late) as Result<_, Infallible>
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(SLOWEST_HEADERS)
            .max_headers(MOST_HEADERS)
            .max_buf_size(LONGEST_HEADERS)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = std::pin::pin!(connection);
        // How a connection ended matters to nobody but its client.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(GRACE, connection).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// The first words of an answer; none where the connection is closed at once.
    async fn ask(address: SocketAddr) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let asked = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        drop(asked.await);
        let mut words = [0; 12];
        let read = stream.read_exact(&mut words).await;
        let words = String::from_utf8_lossy(&words).into_owned();
        (stream, read.map(|_| words).unwrap_or_default())
    }

    #[tokio::test]
    async fn a_socket_without_a_free_seat_keeps_nobody_out_of_another() {
        let mut connections = Connections::new(None, CancellationToken::new());
        connections.seats = 1;
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let pages = connections.listen(anywhere, Router::new()).await.unwrap();
        let hooks = connections.listen(anywhere, Router::new()).await.unwrap();
        let (_held, answer) = ask(pages).await;
        assert_eq!(answer, "HTTP/1.1 404");
        assert_eq!(ask(pages).await.1, "");
        assert_eq!(ask(hooks).await.1, "HTTP/1.1 404");
    }

    /// Connects from an address of this machine and says something.
    async fn say_from(address: [u8; 4], to: SocketAddr, words: &str) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((address, 0))).unwrap();
        let mut stream = socket.connect(to).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn half_sent_requests_of_one_address_keep_no_other_out() {
        const SEATS: usize = 8;
        let mut connections = Connections::new(None, CancellationToken::new());
        connections.seats = SEATS;
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = connections.listen(anywhere, Router::new()).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..SEATS + 3 {
            let words = "GET / HTTP/1.1\r\nHost: x\r\n";
            held.push(say_from([127, 0, 0, 1], address, words).await);
        }
        for _ in 0..SEATS / 2 {
            let words = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
            let mut stream = say_from([127, 0, 0, 2], address, words).await;
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 404");
            held.push(stream);
        }
    }
}
