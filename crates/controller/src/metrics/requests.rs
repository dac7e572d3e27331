//! Counts the requests of Kubernetes clients, as a layer of their stack.

use std::task::{Context, Poll};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tower::{Layer, Service};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByAnswer {
    code: String,
    method: &'static str,
    host: String,
}

#[derive(Clone)]
pub(super) struct Requests(Family<ByAnswer, Counter>);

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Family::default();
        registry.register(
            "rest_client_requests",
            "Requests to Kubernetes APIs, by answer",
            Family::clone(&requests),
        );
        Self(requests)
    }

    pub(super) fn layer(&self, host: &str) -> RequestsLayer {
        RequestsLayer {
            requests: self.clone(),
            host: host.to_owned(),
        }
    }
}

/// Counts the requests of a client to one host.
#[derive(Clone)]
pub struct RequestsLayer {
    requests: Requests,
    host: String,
}

impl<S> Layer<S> for RequestsLayer {
    type Service = CountRequests<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CountRequests {
            layer: self.clone(),
            inner,
        }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub struct CountRequests<S> {
    layer: RequestsLayer,
    inner: S,
}

impl<S, In, Out> Service<Request<In>> for CountRequests<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    Out: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let method = fixed_word(request.method());
        let RequestsLayer { requests, host } = self.layer.clone();
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            let code = match &answer {
                Ok(response) => response.status().as_str().to_owned(),
                Err(_) => "<error>".to_owned(),
            };
            let by_answer = ByAnswer { code, method, host };
            requests.0.get_or_create(&by_answer).inc();
            answer
        }
        .boxed()
    }
}

fn fixed_word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
