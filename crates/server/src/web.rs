//! The socket for people: REST and the dashboard side by side.
//!
//! Every request gets an id, is counted and logged, and has a bounded body. The id is repeated in
//! the response and in problems, so that a user can quote it.

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::{AppState, dashboard, problem::Problem, random, rest};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest body that is read, unless a route says otherwise.
const MAX_BODY: usize = 64 << 10;

/// All routes for people.
pub fn router(app_state: Arc<AppState>) -> Router {
    let method_not_allowed = async || {
        let detail = "this address does not support the method";
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    };
    Router::new()
        .merge(rest::router())
        .merge(dashboard::router())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(
            app_state.clone(),
            log_request,
        ))
        .with_state(app_state)
}

/// A page for a browser, a problem for everybody else.
async fn not_found(State(app_state): State<Arc<AppState>>, request: Request) -> Response {
    let accepts = request.headers().get(header::ACCEPT);
    let is_browser = accepts.is_some_and(|it| it.as_bytes().starts_with(b"text/html"));
    if is_browser && !request.uri().path().starts_with("/api/") {
        return dashboard::not_found(&app_state, request.headers()).await;
    }
    Problem::new(StatusCode::NOT_FOUND, "there is nothing at this address").into_response()
}

/// Counts and logs the request under an id: the client's own if it sent a plain one.
async fn log_request(
    State(app_state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let id = request.headers().get(REQUEST_ID);
    let id = id.and_then(|id| id.to_str().ok());
    let id = id.filter(|id| is_plain_id(id));
    let id = id.map_or_else(random::id, str::to_owned);
    let method = match request.method().as_str() {
        "GET" => "get",
        "POST" => "post",
        _ => "other",
    };
    let path = request.uri().path().chars().take(512).collect::<String>();
    let mut response = next.run(request).await;
    let code = response.status().as_u16();
    app_state.metrics.count_request(method, code);
    tracing::info!(method, path, code, request = id, "answered a REST request");
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = problem.with_request_id(&id).into_response();
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

fn is_plain_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&id.len()) && id.bytes().all(is_plain)
}
