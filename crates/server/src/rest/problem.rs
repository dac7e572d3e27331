//! What went wrong, as RFC 9457 has it.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// What went wrong: a code, and a sentence that says what to do.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: StatusCode,
    detail: String,
    request: Option<String>,
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(code: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            request: None,
            retry_after: None,
        }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{what} does not exist"))
    }

    pub(crate) fn too_many(seconds: u64) -> Self {
        let detail = "too many calls without a valid token; wait and use a valid one";
        Self {
            retry_after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail)
        }
    }

    /// The code and the sentence.
    pub(crate) fn parts(&self) -> (StatusCode, &str) {
        (self.code, &self.detail)
    }

    /// The same, with the id of the request it is about.
    pub(super) fn about(mut self, request: &str) -> Self {
        self.request = Some(request.to_owned());
        self
    }
}

/// What the API server refused with reason is the caller's to know; the rest is in the log.
impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        tracing::error!(%error, "REST: the Kubernetes API does not do what it is asked");
        match error {
            kube::Error::Api(refusal) if matches!(refusal.code, 404 | 409 | 413 | 422) => {
                let code = StatusCode::from_u16(refusal.code);
                Self::new(code.unwrap_or(StatusCode::BAD_REQUEST), refusal.message)
            }
            _ => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the Kubernetes API does not do what it is asked; try again, or look at the log",
            ),
        }
    }
}

impl From<crate::record::Error> for Problem {
    fn from(error: crate::record::Error) -> Self {
        use crate::record::Error;
        match error {
            Error::Gone => Self::not_found("the pipeline"),
            Error::Busy => Self::new(StatusCode::CONFLICT, format!("{error}; try again")),
            Error::Api(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.code.canonical_reason().unwrap_or("Problem");
        let mut body = json!({
            "type": "about:blank",
            "title": title,
            "status": self.code.as_u16(),
            "detail": self.detail,
        });
        if let Some(request) = &self.request {
            body["requestId"] = json!(request);
        }
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.code, kind, body.to_string()).into_response();
        if let Some(seconds) = self.retry_after {
            let seconds = HeaderValue::from(seconds);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if self.code == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, bearer);
        }
        // Whoever knows the id of the request words it again with that.
        if self.request.is_none() {
            response.extensions_mut().insert(self);
        }
        response
    }
}
