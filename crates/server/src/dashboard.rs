//! Pages for people, on the port of REST: rendered here, readable without script, kept up to date by
//! a little script of ours.
//!
//! | part | what for |
//! | --- | --- |
//! | `page` | which page an address names, and the parts it is made of |
//! | `list`, `pipeline`, `objects`, `approvals`, `clusters`, `changes` | each page's parts |
//! | `apps` | a page that asks clusters, and is not kept up to date |
//! | `create` | a new pipeline, proposed in git |
//! | `live` | sends the parts that changed |
//! | `act` | forms |
//! | `sign_in` | who looks |
//! | `html`, `layout`, `words` | what pages are made of |
//!
//! Shows what is watched, in `planner`'s words, to who may see it. Everything a page shows is
//! escaped, nothing in it runs, and every form carries the session's own token.

mod act;
mod approvals;
mod apps;
mod assets;
mod changes;
mod clusters;
mod create;
mod html;
mod layout;
mod list;
mod live;
mod objects;
mod page;
mod pipeline;
mod sign_in;
mod words;
mod yaml;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};

use crate::{Door, rest::Problem, session::forget_told};

pub(crate) use list::Rows;
use page::Page;
use sign_in::Viewer;

/// Nothing runs or is loaded but what this process serves itself, and nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What is served to browsers.
pub(crate) fn router() -> Router<Arc<Door>> {
    const PIPELINE: &str = "/pipelines/{namespace}/{name}";
    Router::new()
        .route("/", get(async || Redirect::to("/pipelines")))
        .route("/login", get(sign_in::form).post(sign_in::enter))
        .route("/logout", post(sign_in::leave))
        .route("/pipelines", get(show))
        .route(PIPELINE, get(show))
        .route(&format!("{PIPELINE}/objects"), get(show))
        .route(&format!("{PIPELINE}/yaml"), get(yaml::show))
        .route(&format!("{PIPELINE}/act"), post(act::act))
        .route("/approvals", get(show))
        .route("/clusters", get(show))
        .route("/apps", get(apps::show))
        .route("/create", get(create::form).post(create::submit))
        .route("/create/preview", post(create::preview))
        .route("/changes", get(show))
        .route("/changes/{namespace}/{name}", get(show))
        .route("/live", get(live::follow))
        .route("/assets/{name}", get(assets::serve))
        .layer(middleware::from_fn(guard))
}

async fn show(
    State(door): State<Arc<Door>>,
    viewer: Viewer,
    headers: HeaderMap,
    address: Uri,
) -> Result<Response, Failure> {
    let page = Page::parse(&address).ok_or_else(|| Problem::not_found("that page"))?;
    let parts = page.parts(&door, &viewer).await?;
    let told = door.sessions.told(&headers).await;
    let has_told = told.is_some();
    let mut response = layout::page(&page, &viewer, &parts, told).into_response();
    if has_told {
        let cookies = response.headers_mut();
        cookies.append(header::SET_COOKIE, forget_told());
    }
    Ok(response)
}

/// What browsers are told about every answer.
async fn guard(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A problem as a page.
struct Failure(Problem);

impl<P: Into<Problem>> From<P> for Failure {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (code, sentence) = self.0.parts();
        (code, layout::failure(code, sentence)).into_response()
    }
}

impl From<crate::session::Error> for Problem {
    fn from(error: crate::session::Error) -> Self {
        tracing::error!(%error, source = ?std::error::Error::source(&error), "no session");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}
