//! The hooks: `/promotion`, `/approval` and `/release`.
//!
//! Paths, order of checks, codes, texts and `Location` of the first two are the ancestor's. Size,
//! signature and limits come before anything is parsed. What was answered with 2xx is stored.

mod answer;
mod approval;
mod promotion;
mod release;
mod room;
mod signed;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
    routing::any,
};

use crate::Door;
pub(crate) use room::Rooms;

/// What is served for hooks.
pub fn router(door: Arc<Door>) -> Router {
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
    router
        .fallback(async || answer::no_such_page())
        .layer(middleware::from_fn_with_state(door.clone(), count))
        .with_state(door)
}

/// Counts and logs each answer.
async fn count(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let route = match path.split('/').nth(1) {
        Some("promotion") => "promotion",
        Some("approval") => "approval",
        Some("release") => "release",
        Some("healthz") => return next.run(request).await,
        _ => "other",
    };
    let response = next.run(request).await;
    let code = response.status().as_u16();
    door.metrics.count_hook(route, code);
    let path = path.chars().take(512).collect::<String>();
    tracing::info!(route, path, code, "hook");
    response
}
