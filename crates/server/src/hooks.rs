//! The webhooks `/promotion`, `/approval`, `/release` and `/check`, and `/inputs` for clusters that ask what to
//! run.
//!
//! Paths, order of checks, codes, texts and `Location` of the first two are those of the Weave
//! pipeline-controller. Rate limit, size and signature are checked before a body is parsed. A request
//! answered with 2xx is stored.

mod approval;
mod body_budget;
mod check;
mod inputs;
mod promotion;
mod release;
mod request;
mod response;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
    routing::any,
};

use crate::AppState;
pub(crate) use body_budget::BodyBudget;
pub(crate) use check::refusal_code;
pub(crate) use inputs::InputsAccess;

/// The routes of the hooks.
pub fn router(app_state: Arc<AppState>) -> Router {
    let mut router = Router::new().route("/healthz", any(async || "ok"));
    for path in ["/promotion", "/promotion/", "/promotion/{*rest}"] {
        router = router.route(path, any(promotion::handle));
    }
    for path in ["/approval", "/approval/", "/approval/{*rest}"] {
        router = router.route(path, any(approval::handle));
    }
    for path in ["/release", "/release/", "/release/{*rest}"] {
        router = router.route(path, any(release::handle));
    }
    for path in ["/check", "/check/", "/check/{*rest}"] {
        router = router.route(path, any(check::handle));
    }
    for path in ["/inputs", "/inputs/", "/inputs/{*rest}"] {
        router = router.route(path, any(inputs::handle));
    }
    router
        .fallback(async || response::not_found_page())
        .layer(middleware::from_fn_with_state(
            app_state.clone(),
            log_request,
        ))
        .with_state(app_state)
}

/// Counts and logs each request.
async fn log_request(
    State(app_state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let route = match path.split('/').nth(1) {
        Some("promotion") => "promotion",
        Some("approval") => "approval",
        Some("release") => "release",
        Some("check") => "check",
        Some("inputs") => "inputs",
        Some("healthz") => return next.run(request).await,
        _ => "other",
    };
    let response = next.run(request).await;
    let code = response.status().as_u16();
    app_state.metrics.count_hook(route, code);
    let path = path.chars().take(512).collect::<String>();
    if route == "inputs" && code == 200 {
        tracing::debug!(route, path, code, "answered a hook request");
        return response;
    }
    tracing::info!(route, path, code, "answered a hook request");
    response
}
