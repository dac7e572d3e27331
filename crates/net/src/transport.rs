//! The seam between our HTTP client and the network.
//!
//! [`HttpTransport`] sends one request and returns the response with a body that is read later.
//! Production code uses the one built on reqwest; tests and simulations supply their own.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::AddressError;

/// An error of a transport. Must not contain the URL or a credential.
pub type TransportError = Box<dyn Error + Send + Sync>;

/// Sends HTTP requests over a network, real or simulated.
pub trait HttpTransport: Send + Sync {
    /// Sends one request and returns when the headers of the response have arrived. Must not follow
    /// redirects.
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>>;
}

/// A request to be sent.
#[derive(Debug)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The absolute URL.
    pub url: Url,
    /// The headers. Values with credentials are marked sensitive.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// A request without headers and body.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Vec::new(),
        }
    }

    /// Sets a header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets the body and its content type.
    pub fn json(mut self, body: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.body = serde_json::to_vec(body)?;
        Ok(self.header(CONTENT_TYPE, HeaderValue::from_static("application/json")))
    }

    /// The host, for logs: the rest of a URL may contain a secret.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

/// Status and headers of a response, and a body that is not read yet.
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: BoxStream<'static, Result<Bytes, TransportError>>,
    time_limit: Option<(Instant, Duration)>,
}

impl HttpResponse {
    /// A response whose body arrives in parts.
    pub fn new(
        status: StatusCode,
        headers: HeaderMap,
        body: BoxStream<'static, Result<Bytes, TransportError>>,
    ) -> Self {
        Self {
            status,
            headers,
            body,
            time_limit: None,
        }
    }

    /// A response whose body is known, for simulated transports.
    pub fn with_body(status: StatusCode, headers: HeaderMap, body: impl Into<Bytes>) -> Self {
        let body = stream::iter([Ok(body.into())]);
        Self::new(status, headers, body.boxed())
    }

    /// Sets when the body must have been read, and the limit that this comes from.
    pub(crate) fn until(mut self, deadline: Instant, limit: Duration) -> Self {
        self.time_limit = Some((deadline, limit));
        self
    }

    /// Reads the body, at most `limit` bytes of it, before the deadline of the request.
    pub async fn read_body(mut self, limit: usize) -> Result<Vec<u8>, HttpError> {
        let time_limit = self.time_limit.take();
        let reading = read_all(self.body, limit);
        let Some((deadline, limit)) = time_limit else {
            return reading.await;
        };
        let read = timeout_at(deadline, reading).await;
        read.unwrap_or(Err(HttpError::TimedOut { limit }))
    }
}

async fn read_all(
    mut chunks: BoxStream<'static, Result<Bytes, TransportError>>,
    limit: usize,
) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|source| HttpError::Unreachable { source })?;
        if body.len() + chunk.len() > limit {
            return Err(HttpError::TooLarge { limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Why there is no usable response.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The connection failed or was refused.
    #[error("the host cannot be reached")]
    Unreachable {
        /// The error of the transport, without the URL.
        source: TransportError,
    },
    /// The response did not arrive in time.
    #[error("no complete response within {} seconds", limit.as_secs())]
    TimedOut {
        /// The time limit of the request.
        limit: Duration,
    },
    /// The body is longer than the caller reads.
    #[error("the response is longer than {limit} bytes")]
    TooLarge {
        /// The size limit in bytes.
        limit: usize,
    },
}

impl HttpError {
    /// The address policy's refusal, if that is what kept the request from being sent.
    pub fn refused_address(&self) -> Option<&AddressError> {
        let mut cause: Option<&(dyn Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(refused) = error.downcast_ref::<AddressError>() {
                return Some(refused);
            }
            cause = error.source();
        }
        None
    }
}
