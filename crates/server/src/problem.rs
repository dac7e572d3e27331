//! Errors as `application/problem+json` (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// Why a request failed: a status code, and a sentence that says what to do.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: StatusCode,
    detail: String,
    request_id: Option<String>,
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(code: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            request_id: None,
            retry_after: None,
        }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{what} does not exist"))
    }

    /// The request is well-formed, but what it asks for cannot be done.
    pub(crate) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(crate) fn too_many_requests(seconds: u64) -> Self {
        let detail = "too many requests without a valid token; wait, then send a valid one";
        Self {
            retry_after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail)
        }
    }

    /// The status code and the sentence.
    pub(crate) fn parts(&self) -> (StatusCode, &str) {
        (self.code, &self.detail)
    }

    /// The same, with the id of the request.
    pub(crate) fn with_request_id(mut self, id: &str) -> Self {
        self.request_id = Some(id.to_owned());
        self
    }
}

/// Callers see why the API server refused a request of theirs; other errors are only logged.
impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        tracing::error!(%error, "a request to the Kubernetes API failed");
        match error {
            kube::Error::Api(refusal)
                if matches!(refusal.code, 400 | 404 | 409 | 410 | 413 | 422) =>
            {
                let code = StatusCode::from_u16(refusal.code);
                Self::new(code.unwrap_or(StatusCode::BAD_REQUEST), refusal.message)
            }
            _ => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "a request to the Kubernetes API failed; try again, or see the log of Sluice",
            ),
        }
    }
}

impl From<crate::actions::DecisionError> for Problem {
    fn from(error: crate::actions::DecisionError) -> Self {
        use crate::actions::DecisionError;
        match error {
            DecisionError::Api(error) => error.into(),
            not_stored => Self::new(StatusCode::CONFLICT, not_stored.to_string()),
        }
    }
}

impl From<crate::record::Error> for Problem {
    fn from(error: crate::record::Error) -> Self {
        use crate::record::Error;
        match error {
            Error::Gone => Self::not_found("the pipeline"),
            Error::Conflict => Self::new(StatusCode::CONFLICT, format!("{error}; try again")),
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
        if let Some(id) = &self.request_id {
            body["requestId"] = json!(id);
        }
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.code, content_type, body.to_string()).into_response();
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
        // The middleware that knows the id of the request renders the problem again with it.
        if self.request_id.is_none() {
            response.extensions_mut().insert(self);
        }
        response
    }
}
