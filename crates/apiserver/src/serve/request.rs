//! Handles requests from a socket: checks their `Host`, authenticates their token and limits how
//! many run at once.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use hyper::body::{Frame, SizeHint};
use listener::{ClientPermit, ClientSemaphore};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;
use crate::{
    Server, User,
    access::{self, Attributes},
    status::{ApiError, Result},
    verbs,
};

/// Answers the requests of all connections.
pub(super) struct RequestHandler {
    server: Server,
    names: Vec<String>,
    requests: Arc<ClientSemaphore>,
    watches: Arc<Semaphore>,
    limits: Limits,
}

impl RequestHandler {
    pub(super) fn new(server: Server, names: Vec<String>, limits: Limits) -> Self {
        Self {
            server,
            names,
            requests: ClientSemaphore::new(limits.requests),
            watches: Arc::new(Semaphore::new(limits.watches)),
            limits,
        }
    }

    /// Answers one request.
    pub(super) async fn handle(&self, request: Request<Body>, peer: IpAddr) -> Response {
        let response = self.checked(request, peer).await;
        response.unwrap_or_else(IntoResponse::into_response)
    }

    async fn checked(&self, request: Request<Body>, peer: IpAddr) -> Result<Response> {
        self.check_host(&request)?;
        let (parts, body) = request.into_parts();
        let user = self.authenticate(&parts.headers)?;
        let permit = self.permit(Attributes::of(&parts).verb == "watch", peer)?;
        let work = verbs::answer(self.server.clone(), user, Request::from_parts(parts, body));
        // A watch answers at once; only its body takes long.
        let work = tokio::time::timeout(self.limits.request_time, work);
        let response = tokio::select! {
            response = work => response.map_err(|_| ApiError::timeout())?,
            () = permit.revoked() => return Err(ApiError::too_many_requests()),
        };
        Ok(response.map(|body| {
            Body::new(CountedBody {
                body,
                _permit: permit,
            })
        }))
    }

    /// A permit for a request, which may be revoked where one address holds more than others.
    fn permit(&self, is_watch: bool, peer: IpAddr) -> Result<RequestPermit> {
        let permit = match is_watch {
            true => self
                .watches
                .clone()
                .try_acquire_owned()
                .ok()
                .map(RequestPermit::Watch),
            false => self.requests.acquire(peer).map(RequestPermit::Request),
        };
        permit.ok_or_else(ApiError::too_many_requests)
    }

    fn check_host(&self, request: &Request<Body>) -> Result<()> {
        let host = request.headers().get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
        let host = match request.uri().host() {
            Some(host) => host,
            None => without_port(host),
        };
        let name = host.trim_matches(['[', ']']).to_lowercase();
        if self.names.contains(&name) {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!(
                "{name:?} is not a name of this server; send a Host header with one of its names"
            ),
        ))
    }

    fn authenticate(&self, headers: &http::HeaderMap) -> Result<User> {
        let Some(given) = headers.get(header::AUTHORIZATION) else {
            return Ok(User::anonymous());
        };
        let given = given.to_str().map_err(|_| ApiError::unauthorized())?;
        let token = match given.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            _ => return Err(ApiError::unauthorized()),
        };
        let found = access::authenticate_token(&self.server, token, &[]);
        found
            .map(|it| it.user)
            .map_err(|_| ApiError::unauthorized())
    }
}

/// `host:port` or `[address]:port` without the port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, _)) if !name.contains(':') || name.ends_with(']') => name,
        _ => host,
    }
}

/// Counts one request against the limits.
enum RequestPermit {
    Request(ClientPermit),
    Watch(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit),
}

impl RequestPermit {
    /// Returns when the permit has gone to another client.
    async fn revoked(&self) {
        match self {
            Self::Request(permit) => permit.revoked().await,
            Self::Watch(_) => std::future::pending().await,
        }
    }
}

/// The body of a response, which counts as a request until it is read or dropped.
struct CountedBody {
    body: Body,
    _permit: RequestPermit,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn hosts_are_compared_without_their_port() {
        let hosts = [
            "localhost:80",
            "localhost",
            "[::1]:443",
            "[::1]",
            "127.0.0.1:1",
        ];
        let names = hosts.map(without_port);
        assert_eq!(
            names,
            ["localhost", "localhost", "[::1]", "[::1]", "127.0.0.1"]
        );
    }
}
