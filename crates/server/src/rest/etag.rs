//! ETags: a response that the client already has is not sent again.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Method, StatusCode, header};
use sha2::{Digest, Sha256};

/// Adds an ETag to each `GET` response, and answers 304 if the client has that ETag.
pub(super) async fn add_etag(request: Request, next: Next) -> Response {
    let is_get = request.method() == Method::GET;
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    if !is_get || response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let hash = Sha256::digest(&body);
    let etag: String = hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let etag = HeaderValue::from_str(&format!("\"{etag}\"")).expect("hex is a header value");
    let revalidate = HeaderValue::from_static("private, no-cache");
    parts.headers.insert(header::CACHE_CONTROL, revalidate);
    parts.headers.insert(header::ETAG, etag.clone());
    if known.is_some_and(|known| contains_etag(&known, &etag)) {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(body))
}

fn contains_etag(known: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(known), Ok(etag)) = (known.to_str(), etag.to_str()) else {
        return false;
    };
    let mut known = known
        .split(',')
        .map(|it| it.trim().trim_start_matches("W/"));
    known.any(|it| it == etag || it == "*")
}
