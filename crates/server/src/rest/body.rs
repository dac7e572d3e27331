//! JSON bodies of requests.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::StatusCode;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// Reads a JSON body; nothing if it is empty. The problem of a body that cannot be read shows the
/// example.
pub(super) async fn read_json<T: DeserializeOwned>(
    request: Request,
    state: &(impl Send + Sync),
    example: &str,
) -> Result<Option<T>, Problem> {
    let body = Bytes::from_request(request, state).await;
    let body = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
    if body.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&body).map(Some).map_err(|error| {
        let detail = format!("{error}; send JSON such as {example}");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    })
}
