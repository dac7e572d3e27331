//! HTTP requests to the API of a forge, as one credential.
//!
//! Obeys the rate limits of the forge, bounds time and size, and turns every response that is not a
//! success into an [`Error`] that says what was attempted.

use std::sync::Arc;

use ::http::header::{ACCEPT, AUTHORIZATION, IF_NONE_MATCH};
use ::http::{HeaderMap, HeaderValue, Method, StatusCode};
use net::{AddressError, HttpClient, HttpError, HttpRequest, OutboundHttp, RateLimiter};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::Error;
use crate::credentials::Credentials;

/// The largest response body that is read.
const MAX_BODY: usize = 8 << 20;

/// One request to the API.
pub(super) struct ApiRequest<'a> {
    /// Completes "cannot …".
    pub(super) attempted: &'static str,
    pub(super) method: Method,
    pub(super) path: Vec<&'a str>,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
    /// The `ETag` of an earlier response, to be told if nothing has changed.
    pub(super) if_none_match: Option<&'a str>,
}

impl<'a> ApiRequest<'a> {
    pub(super) fn new(attempted: &'static str, method: Method, path: &[&'a str]) -> Self {
        let path = path.to_vec();
        Self {
            attempted,
            method,
            path,
            query: Vec::new(),
            body: None,
            if_none_match: None,
        }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(super) fn if_none_match(mut self, etag: &'a str) -> Self {
        self.if_none_match = Some(etag);
        self
    }
}

/// The response to a request, whatever its status.
pub(super) struct ApiResponse {
    pub(super) attempted: &'static str,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
}

impl ApiResponse {
    /// Parses the JSON body of a successful response.
    pub(super) fn parse<T: DeserializeOwned>(self) -> Result<T, Error> {
        let attempted = self.attempted;
        let body = self.success()?.body;
        serde_json::from_slice(&body).map_err(|_| Error::Unreadable {
            attempted,
            because: "unexpected JSON",
        })
    }

    /// Turns a response that is not a success into the error for its status.
    pub(super) fn success(self) -> Result<Self, Error> {
        let attempted = self.attempted;
        let message = || self.message();
        Err(match self.status.as_u16() {
            200..=299 => return Ok(self),
            401 => Error::Unauthorized { attempted },
            403 => Error::Forbidden {
                attempted,
                message: message(),
            },
            404 | 410 => Error::NotFound { attempted },
            status @ (408 | 425 | 500..=599) => Error::Unavailable { attempted, status },
            300..=399 => Error::Refused {
                attempted,
                message: "the API has moved".to_owned(),
            },
            _ => Error::Refused {
                attempted,
                message: message(),
            },
        })
    }

    /// The error messages in the body, shortened; the status if there are none.
    pub(super) fn message(&self) -> String {
        let body = self.json();
        let mut parts = Vec::new();
        for field in ["message", "error", "errors"] {
            collect_messages(&body[field], &mut parts);
        }
        let text = parts.join("; ");
        let text: String = text.chars().filter(|c| !c.is_control()).take(300).collect();
        if text.is_empty() {
            format!("status {}", self.status.as_u16())
        } else {
            text
        }
    }

    /// The body as JSON; null if it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether the `Link` header names another page.
    pub(super) fn has_next_page(&self) -> bool {
        let links = self
            .headers
            .get_all("link")
            .iter()
            .filter_map(|link| link.to_str().ok());
        links
            .flat_map(|link| link.split(','))
            .any(|link| link.contains("rel=\"next\""))
    }

    pub(super) fn etag(&self) -> Option<String> {
        self.headers.get("etag")?.to_str().ok().map(str::to_owned)
    }
}

/// Collects the texts of an error: a string, a list, an object with a message, or fields with texts.
fn collect_messages<'a>(error: &'a Value, parts: &mut Vec<&'a str>) {
    match error {
        Value::String(text) => parts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_messages(item, parts)),
        Value::Object(fields) if fields.contains_key("message") => {
            for field in ["message", "detail", "fields", "vetoes"] {
                collect_messages(&error[field], parts);
            }
        }
        Value::Object(fields) => fields
            .values()
            .for_each(|field| collect_messages(field, parts)),
        _ => {}
    }
}

/// Sends requests to one API as one credential.
pub(super) struct ApiClient {
    http: HttpClient,
    base: Url,
    rate_limiter: Arc<RateLimiter>,
}

impl ApiClient {
    /// Does not connect yet.
    pub(super) fn new(
        http: &OutboundHttp,
        base: Url,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let host = base.host_str().unwrap_or_default().to_owned();
        let authority = credentials.certificate_authority.as_deref();
        let client = http.client(&host, authority);
        Ok(Self {
            http: client.map_err(|error| Error::Unusable {
                because: match error {
                    AddressError::Invalid { because } => because.to_owned(),
                    error => error.to_string(),
                },
            })?,
            base,
            rate_limiter: http.rate_limiter(&host, *credentials.fingerprint()),
        })
    }

    /// Sends one request. Any status is a response, except a refusal because of the rate limit.
    pub(super) async fn send(
        &self,
        request: ApiRequest<'_>,
        authorization: &str,
        accept: &'static str,
    ) -> Result<ApiResponse, Error> {
        let attempted = request.attempted;
        if let Some(after) = self.rate_limiter.remaining_delay() {
            return Err(Error::RateLimited { attempted, after });
        }
        let request = self.http_request(request, authorization, accept)?;
        let response = self.receive(request, attempted).await?;
        let (status, headers) = (response.status, &response.headers);
        let limiter = &self.rate_limiter;
        match limiter.record_response(status, headers, || response.message()) {
            Some(after) => Err(Error::RateLimited { attempted, after }),
            None => Ok(response),
        }
    }

    fn http_request(
        &self,
        request: ApiRequest<'_>,
        authorization: &str,
        accept: &'static str,
    ) -> Result<HttpRequest, Error> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(&request.path);
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        let mut authorization = header_value(authorization)?;
        authorization.set_sensitive(true);
        let mut prepared = HttpRequest::new(request.method, url)
            .header(AUTHORIZATION, authorization)
            .header(ACCEPT, HeaderValue::from_static(accept));
        if let Some(etag) = request.if_none_match {
            prepared = prepared.header(IF_NONE_MATCH, header_value(etag)?);
        }
        if let Some(body) = &request.body {
            prepared = prepared.json(body).expect("a JSON value can be written");
        }
        Ok(prepared)
    }

    async fn receive(
        &self,
        request: HttpRequest,
        attempted: &'static str,
    ) -> Result<ApiResponse, Error> {
        let failed = |error| from_http(attempted, error);
        let response = self.http.send(request).await.map_err(failed)?;
        let (status, headers) = (response.status, response.headers.clone());
        let body = response.read_body(MAX_BODY).await.map_err(failed)?;
        Ok(ApiResponse {
            attempted,
            status,
            headers,
            body,
        })
    }
}

fn header_value(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| Error::Unusable {
        because: "the token is not one line of plain text".to_owned(),
    })
}

fn from_http(attempted: &'static str, error: HttpError) -> Error {
    match error {
        HttpError::Unreachable { source } => Error::Unreachable { attempted, source },
        HttpError::TimedOut { limit } => Error::TimedOut { attempted, limit },
        HttpError::TooLarge { .. } => Error::Unreadable {
            attempted,
            because: "it is too long",
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_found_wherever_forges_put_them() {
        let long = "x".repeat(400);
        for (body, expected) in [
            (json!({"message": "no\nway"}), "noway"),
            (
                json!({"message": "Validation Failed", "errors": [
                    {"resource": "PullRequest", "code": "custom", "message": "No commits"},
                ]}),
                "Validation Failed; No commits",
            ),
            (
                json!({"error": {"message": "Bad", "detail": "a", "fields": {"t": ["b"]}}}),
                "Bad; a; b",
            ),
            (
                json!({"errors": {"title": ["is too long", "is odd"]}}),
                "is too long; is odd",
            ),
            (
                json!({"errors": [{"message": "Vetoed", "vetoes": [{"message": "by ann"}]}]}),
                "Vetoed; by ann",
            ),
            (json!({"message": long}), &long[..300]),
            (json!({"other": "x"}), "status 422"),
            (json!("x"), "status 422"),
        ] {
            let response = ApiResponse {
                attempted: "try",
                status: StatusCode::UNPROCESSABLE_ENTITY,
                headers: HeaderMap::new(),
                body: body.to_string().into_bytes(),
            };
            assert_eq!(response.message(), expected, "{body}");
        }
    }
}
