//! What a request from a socket passes before it is one like any other: its `Host`, its token, and
//! the limits.

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
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Limits,
    seats::{Seat, Seats},
};
use crate::{
    Server, User,
    access::{self, Attributes},
    status::{ApiError, Result},
    verbs,
};

/// Lets requests in.
pub(super) struct Gate {
    server: Server,
    names: Vec<String>,
    requests: Arc<Seats>,
    watches: Arc<Semaphore>,
    limits: Limits,
}

impl Gate {
    pub(super) fn new(server: Server, names: Vec<String>, limits: Limits) -> Self {
        Self {
            server,
            names,
            requests: Seats::new(limits.requests),
            watches: Arc::new(Semaphore::new(limits.watches)),
            limits,
        }
    }

    /// Answers one request.
    pub(super) async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Response {
        let outcome = self.pass(request.map(Body::new), peer).await;
        outcome.unwrap_or_else(IntoResponse::into_response)
    }

    async fn pass(&self, request: Request<Body>, peer: IpAddr) -> Result<Response> {
        self.check_host(&request)?;
        let (mut parts, body) = request.into_parts();
        let user = self.recognise(&parts.headers)?;
        parts.extensions.insert(user);
        let place = self.place(Attributes::of(&parts).verb == "watch", peer)?;
        let work = verbs::answer(self.server.clone(), Request::from_parts(parts, body));
        // A watch answers at once; what takes its time is its body.
        let work = tokio::time::timeout(self.limits.request_time, work);
        let response = tokio::select! {
            response = work => response.map_err(|_| ApiError::timeout())?,
            () = place.lost() => return Err(ApiError::too_many_requests()),
        };
        Ok(response.map(|body| {
            Body::new(Seated {
                body,
                _place: place,
            })
        }))
    }

    /// A place for a request, which an address that has more of them may have to give up.
    fn place(&self, is_watch: bool, peer: IpAddr) -> Result<Place> {
        let place = match is_watch {
            true => self
                .watches
                .clone()
                .try_acquire_owned()
                .ok()
                .map(Place::Watch),
            false => self.requests.take(peer).map(Place::Request),
        };
        place.ok_or_else(ApiError::too_many_requests)
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
            format!("this server is not known as {name:?}; ask it under one of its names"),
        ))
    }

    fn recognise(&self, headers: &http::HeaderMap) -> Result<User> {
        let Some(given) = headers.get(header::AUTHORIZATION) else {
            return Ok(User::anonymous());
        };
        let given = given.to_str().map_err(|_| ApiError::unauthorized())?;
        let token = match given.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            _ => return Err(ApiError::unauthorized()),
        };
        let found = access::recognise(&self.server, token, &[]);
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

/// What a request takes up.
enum Place {
    Request(Seat),
    Watch(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit),
}

impl Place {
    /// Returns when the place has gone to somebody else.
    async fn lost(&self) {
        match self {
            Self::Request(seat) => seat.lost().await,
            Self::Watch(_) => std::future::pending().await,
        }
    }
}

/// The body of an answer, which counts as a request until it is read or dropped.
struct Seated {
    body: Body,
    _place: Place,
}

impl hyper::body::Body for Seated {
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
