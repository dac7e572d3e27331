//! An embedded Kubernetes-compatible API for any CRD, in memory.

/// One API server. Cloning shares it.
#[derive(Clone)]
pub struct Server;

impl Server {
    /// An empty server that keeps everything in memory. Needs a running tokio runtime.
    pub fn in_memory() -> Self {
        Self
    }

    /// The HTTP side: what a socket would serve.
    pub fn router(&self) -> axum::Router {
        axum::Router::new()
    }

    /// A client whose transport is [`Server::router`]: no socket, also under a paused clock.
    pub fn client(&self) -> kube::Client {
        use tower::ServiceExt;
        let service = self
            .router()
            .map_request(|request: http::Request<kube::client::Body>| {
                request.map(axum::body::Body::new)
            });
        kube::Client::new(service, "default")
    }
}
