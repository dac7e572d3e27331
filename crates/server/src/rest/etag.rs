//! Answers that a caller has already seen are not sent again.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Method, StatusCode, header};
use sha2::{Digest, Sha256};

/// Names each answer after what it says, and leaves out what the caller has.
pub(super) async fn compare(request: Request, next: Next) -> Response {
    let is_get = request.method() == Method::GET;
    let seen = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    if !is_get || response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let hash = Sha256::digest(&body);
    let name: String = hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = HeaderValue::from_str(&format!("\"{name}\"")).expect("hex is a header value");
    let again = HeaderValue::from_static("private, no-cache");
    parts.headers.insert(header::CACHE_CONTROL, again);
    parts.headers.insert(header::ETAG, name.clone());
    if seen.is_some_and(|seen| has(&seen, &name)) {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(body))
}

fn has(seen: &HeaderValue, name: &HeaderValue) -> bool {
    let (Ok(seen), Ok(name)) = (seen.to_str(), name.to_str()) else {
        return false;
    };
    let mut names = seen.split(',').map(|it| it.trim().trim_start_matches("W/"));
    names.any(|it| it == name || it == "*")
}
