//! A hub that becomes unreachable and reachable again, with all watches interrupted.

use std::sync::{Arc, Mutex};

use apiserver::Server;
use axum::{Router, body::Body};
use futures::StreamExt;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt, service_fn};

#[derive(Clone)]
pub(crate) struct Hub(Arc<Mutex<Option<(Router, CancellationToken)>>>);

impl Hub {
    pub(crate) fn new(server: Server) -> Self {
        let hub = Self(Arc::default());
        hub.start(server);
        hub
    }

    pub(crate) fn start(&self, server: Server) {
        *self.0.lock().unwrap() = Some((
            server.router(apiserver::User::in_process()),
            CancellationToken::new(),
        ));
    }

    /// Ends it: no more answers, and none goes on.
    pub(crate) fn stop(&self) {
        if let Some((_, running)) = self.0.lock().unwrap().take() {
            running.cancel();
        }
    }

    /// Reaches whatever server there is.
    pub(crate) fn client(&self) -> Client {
        let hub = self.clone();
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            let server = hub.0.lock().unwrap().clone();
            async move {
                let (router, running) = server.ok_or("connection refused")?;
                let answer = router.oneshot(request.map(Body::new));
                let cut = || BoxError::from("connection reset");
                let answer = running.run_until_cancelled(answer).await.ok_or_else(cut)?;
                let answer = answer.map_err(BoxError::from)?;
                Ok::<_, BoxError>(answer.map(|body| {
                    let chunks = body.into_data_stream();
                    Body::from_stream(chunks.take_until(running.cancelled_owned()))
                }))
            }
        });
        Client::new(service, "default")
    }
}
