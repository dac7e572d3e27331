//! The sockets of hooks, REST and dashboard: TLS or plain, with limits for clients that are many or
//! slow.
//!
//! Each socket has its own connections, so that people who follow pages keep no hook out. Bodies are
//! limited by the handlers.

mod tls;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, response::IntoResponse};
use http::StatusCode;
use listener::{ConnectionLimits, TlsCertificate};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::client::Peer;
pub(crate) use tls::load_certificate;

/// How long a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// What the clients of each socket can make the process hold.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 1000,
    header_timeout: Duration::from_secs(15),
    write_timeout: Duration::from_secs(15),
    header_count: Some(64),
    header_bytes: 32 << 10,
    grace_period: Duration::from_secs(5),
};

/// The sockets of the server and their connections.
pub(crate) struct ServerSockets(listener::Connections);

impl ServerSockets {
    pub(crate) fn new(tls: Option<Arc<TlsCertificate>>, stop: CancellationToken) -> Self {
        Self(listener::Connections::new(LIMITS, tls, stop))
    }

    /// Listens now and serves in the background. Returns where it listens.
    pub(crate) async fn listen(
        &self,
        address: SocketAddr,
        router: Router,
    ) -> io::Result<SocketAddr> {
        let socket = listener::bind(address).await?;
        let address = socket.local_addr()?;
        self.0.accept(socket, move |mut request, peer| {
            request.extensions_mut().insert(Peer(peer));
            let response = router.clone().oneshot(request);
            async move {
                match timeout(RESPONSE_TIMEOUT, response).await {
                    Ok(Ok(response)) => response,
                    Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
                }
            }
        });
        Ok(address)
    }

    /// Waits for the last connection to end.
    pub(crate) async fn ended(self) {
        self.0.closed().await;
    }
}
