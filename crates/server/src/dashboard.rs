//! The dashboard: server-rendered pages that work without JavaScript, and a script that keeps them
//! up to date.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `page` | the page of an address, and its parts |
//! | `list`, `pipeline`, `objects`, `approvals`, `freezes`, `checks`, `clusters`, `triggers`, `changes` | the parts of each page |
//! | `apps` | all apps, read from clusters; not kept up to date |
//! | `create` | the form for a new pipeline, which is proposed in git |
//! | `find` | what the command palette finds |
//! | `live` | server-sent events with the parts that changed |
//! | `actions` | the forms that act on pipelines |
//! | `sign_in`, `oidc_sign_in` | sessions of viewers, from a token or from the OpenID provider |
//! | `shared_targets` | warnings of targets that two pipelines promote into |
//! | `decision` | the card on which a person decides about a promotion |
//! | `html`, `layout`, `components`, `icons`, `version` | markup |
//!
//! A page shows cached objects that the viewer may see. All text is escaped, no inline script runs,
//! and every form carries the CSRF token of the session.

mod actions;
mod approvals;
mod apps;
mod assets;
mod changes;
mod checks;
mod clusters;
mod components;
mod create;
mod decision;
mod find;
mod freezes;
mod html;
mod icons;
mod layout;
mod list;
mod live;
mod objects;
mod oidc_sign_in;
mod page;
mod pipeline;
mod shared_targets;
mod sign_in;
mod triggers;
mod version;
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

use crate::{AppState, oidc::CALLBACK, problem::Problem, session::clear_flash_cookie};

pub(crate) use list::PipelineRows;
use page::DashboardPage;
use sign_in::Viewer;

/// Only scripts, styles and images of this server, no inline code, and no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The routes of the dashboard.
pub(crate) fn router() -> Router<Arc<AppState>> {
    const PIPELINE: &str = "/pipelines/{namespace}/{name}";
    Router::new()
        .route("/", get(async || Redirect::to("/pipelines")))
        .route("/login", get(sign_in::form).post(sign_in::sign_in))
        .route("/login/oidc", get(oidc_sign_in::start))
        .route(CALLBACK, get(oidc_sign_in::finish))
        .route("/logout", post(sign_in::sign_out))
        .route("/pipelines", get(show))
        .route(PIPELINE, get(show))
        .route(&format!("{PIPELINE}/objects"), get(show))
        .route(&format!("{PIPELINE}/yaml"), get(yaml::show))
        .route(&format!("{PIPELINE}/act"), post(actions::act))
        .route("/approvals", get(show))
        .route("/freezes", get(show))
        .route("/freezes/act", post(freezes::act))
        .route("/checks", get(show))
        .route("/clusters", get(show))
        .route("/triggers", get(show))
        .route("/apps", get(apps::show))
        .route("/create", get(create::form).post(create::submit))
        .route("/create/preview", post(create::preview))
        .route("/changes", get(show))
        .route("/changes/{namespace}/{name}", get(show))
        .route("/live", get(live::follow))
        .route("/find", get(find::show))
        .route("/assets/{name}", get(assets::serve))
        .layer(middleware::from_fn(add_security_headers))
}

async fn show(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    headers: HeaderMap,
    address: Uri,
) -> Result<Response, ErrorPage> {
    let Some(page) = DashboardPage::parse(&address) else {
        let problem = Problem::not_found("a page at this address");
        return framed_problem(&app_state, &viewer, problem).await;
    };
    let parts = match page.parts(&app_state, &viewer).await {
        Ok(parts) => parts,
        Err(problem) => return framed_problem(&app_state, &viewer, problem).await,
    };
    let message = app_state.sessions.flash_message(&headers).await;
    let has_message = message.is_some();
    let mut response = layout::page(&page, &viewer, &parts, message).into_response();
    if has_message {
        let cookies = response.headers_mut();
        cookies.append(header::SET_COOKIE, clear_flash_cookie());
    }
    Ok(response)
}

/// A problem within the frame of the pages.
async fn framed_problem(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    problem: Problem,
) -> Result<Response, ErrorPage> {
    let (code, _) = problem.parts();
    let page = layout::framed_error(app_state, viewer, &problem).await?;
    Ok((code, page).into_response())
}

/// The answer to an address that leads nowhere: a page for people with a browser.
pub(crate) async fn not_found(app_state: &Arc<AppState>, headers: &HeaderMap) -> Response {
    let problem = Problem::not_found("a page at this address");
    let viewer = sign_in::authenticate(app_state, headers).await;
    let page = match viewer.ok().flatten() {
        Some(viewer) => framed_problem(app_state, &viewer, problem).await,
        None => Err(ErrorPage(problem)),
    };
    with_security_headers(page.into_response())
}

/// Adds the security headers to every response.
async fn add_security_headers(request: Request, next: Next) -> Response {
    with_security_headers(next.run(request).await)
}

fn with_security_headers(mut response: Response) -> Response {
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

/// A problem, rendered as a page.
struct ErrorPage(Problem);

impl<P: Into<Problem>> From<P> for ErrorPage {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let (code, sentence) = self.0.parts();
        (code, layout::error_page(code, sentence)).into_response()
    }
}

impl From<crate::session::Error> for Problem {
    fn from(error: crate::session::Error) -> Self {
        use crate::session::Error;
        tracing::error!(%error, source = ?std::error::Error::source(&error), "could not use sessions");
        let code = match error {
            Error::TooLong | Error::TooManyGroups => StatusCode::FORBIDDEN,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}
