//! `/api/v1`: what people and programs ask and do with a bearer token.
//!
//! Who asks is what the API server says of the token; whether they may is what its roles say of
//! `pipelines`, or of `pipelines/<environment>`, and the verbs `get`, `list`, `promote`, `approve`
//! and `suspend`; for files to be proposed in git, of `changes` and `get`, `list` and `create`. Who did what, when and why is kept where the controller finds it.

pub(crate) mod access;
pub(crate) mod act;
pub(crate) mod changes;
mod etag;
mod openapi;
mod path;
mod problem;
mod running;
mod show;
mod tree;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::{Door, random};

pub(crate) use access::Access;
pub(crate) use problem::Problem;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest body that is read.
const LONGEST_BODY: usize = 64 << 10;

/// What is served for REST.
pub fn router(door: Arc<Door>) -> Router {
    const PIPELINE: &str = "/api/v1/pipelines/{namespace}/{name}";
    let no_such_path = async || Problem::new(StatusCode::NOT_FOUND, "there is nothing here");
    Router::new()
        .route("/api/v1/pipelines", get(show::all_pipelines))
        .route("/api/v1/pipelines/{namespace}", get(show::pipelines))
        .route(PIPELINE, get(show::pipeline))
        .route(&format!("{PIPELINE}/environments"), get(show::environments))
        .route(&format!("{PIPELINE}/promotions"), get(show::promotions))
        .route(&format!("{PIPELINE}/history"), get(show::promotions))
        .route(&format!("{PIPELINE}/triggers"), get(show::triggers_of))
        .route(
            "/api/v1/changes/{namespace}",
            get(changes::all)
                .post(changes::create)
                .layer(DefaultBodyLimit::max(changes::LONGEST_BODY)),
        )
        .route("/api/v1/changes/{namespace}/{name}", get(changes::one))
        .route("/api/v1/clusters", get(show::clusters))
        .route("/api/v1/triggers", get(show::all_triggers))
        .route("/api/v1/versions", get(running::versions))
        .route("/api/v1/images", get(running::images))
        .route("/api/openapi.json", get(openapi::document))
        .route(&format!("{PIPELINE}/explain"), get(show::explanation))
        .route(&format!("{PIPELINE}/suspend"), post(act::suspend))
        .route(&format!("{PIPELINE}/resume"), post(act::resume))
        .route(
            &format!("{PIPELINE}/environments/{{environment}}/tree"),
            get(tree::tree),
        )
        .route(
            &format!("{PIPELINE}/environments/{{environment}}/{{verb}}"),
            post(act::on_environment),
        )
        .layer(middleware::from_fn(etag::compare))
        .merge(crate::dashboard::router())
        .fallback(no_such_path)
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "that method does nothing here",
            )
        })
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::from_fn_with_state(door.clone(), attend))
        .with_state(door)
}

/// Gives each request an id, its own where it brings a plain one; counts and logs the answer.
async fn attend(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let brought = request.headers().get(REQUEST_ID);
    let brought = brought
        .and_then(|id| id.to_str().ok())
        .filter(|id| is_plain(id));
    let id = brought.map_or_else(random::id, str::to_owned);
    let method = match request.method().as_str() {
        "GET" => "get",
        "POST" => "post",
        _ => "other",
    };
    let path = request.uri().path().chars().take(512).collect::<String>();
    let mut response = next.run(request).await;
    let code = response.status().as_u16();
    door.metrics.count_request(method, code);
    tracing::info!(method, path, code, request = id, "REST");
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = problem.about(&id).into_response();
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    let no_store = HeaderValue::from_static("no-store");
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

fn is_plain(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&id.len()) && id.bytes().all(is_plain)
}
