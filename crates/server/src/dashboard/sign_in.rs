//! The sign-in page, sign-in with a bearer token, and sign-out.

use std::sync::Arc;

use axum::{
    Form,
    extract::{FromRequestParts, Query, State},
    http::request::Parts,
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, Method, StatusCode, header};
use serde::Deserialize;

use super::{
    ErrorPage,
    components::{hidden_field, percent_encoded},
    html::{Element, Html, tag},
    layout, oidc_sign_in,
};
use crate::{
    AppState,
    access::{Caller, check_token_attempts},
    client::{Peer, rate_limit_key},
    problem::Problem,
    session::{Identity, Session, clear_session_cookie},
};

const MAX_TOKEN_LENGTH: usize = 16 << 10;
/// The longest path to return to: it is stored in a cookie.
const MAX_PATH_LENGTH: usize = 1024;

/// A user who has signed in.
pub(crate) struct Viewer {
    pub(super) caller: Caller,
    pub(super) session: Session,
}

impl Viewer {
    /// Fails unless a form carries the CSRF token of this session.
    pub(super) fn check_csrf(&self, csrf: &str) -> Result<(), Problem> {
        if self.session.has_csrf_token(csrf) {
            return Ok(());
        }
        let detail = "this form belongs to another session; reload the page and try again";
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    }
}

impl FromRequestParts<Arc<AppState>> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        app_state: &Arc<AppState>,
    ) -> Result<Self, Response> {
        let viewer = authenticate(app_state, &parts.headers).await;
        if let Some(viewer) = viewer.map_err(|problem| ErrorPage(problem).into_response())? {
            return Ok(viewer);
        }
        let is_page =
            parts.method == Method::GET && !["/live", "/find"].contains(&parts.uri.path());
        if !is_page {
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "sign in again");
            return Err(ErrorPage(problem).into_response());
        }
        let here = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        Err(Redirect::to(&format!("/login?next={}", percent_encoded(here))).into_response())
    }
}

pub(super) async fn authenticate(
    app_state: &Arc<AppState>,
    headers: &HeaderMap,
) -> Result<Option<Viewer>, Problem> {
    let Some(session) = app_state.sessions.read(headers).await? else {
        return Ok(None);
    };
    let caller = Caller::of_session(app_state, &session).await?;
    Ok(caller.map(|caller| Viewer { caller, session }))
}

/// The address to go to after signing in.
#[derive(Deserialize)]
pub(super) struct SignInQuery {
    next: Option<String>,
}

impl SignInQuery {
    pub(super) fn to(next: Option<String>) -> Self {
        Self { next }
    }

    /// A path of this server, whatever was requested.
    pub(super) fn path(&self) -> &str {
        let next = self.next.as_deref().unwrap_or_default();
        let is_local = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
        let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic());
        if is_local && is_plain && next.len() <= MAX_PATH_LENGTH {
            next
        } else {
            "/pipelines"
        }
    }
}

pub(super) async fn form(
    State(app_state): State<Arc<AppState>>,
    headers: HeaderMap,
    Query(next): Query<SignInQuery>,
) -> Result<Response, ErrorPage> {
    sign_in_page(&app_state, &headers, &next, None).await
}

pub(super) async fn sign_in_page(
    app_state: &AppState,
    headers: &HeaderMap,
    next: &SignInQuery,
    error: Option<&str>,
) -> Result<Response, ErrorPage> {
    // A link to this page must not sign anybody out.
    let session = app_state.sessions.read(headers).await?;
    let session = session.filter(|session| session.identity.is_some());
    let session = session.unwrap_or_else(|| app_state.sessions.start(None));
    let cookie = app_state
        .sessions
        .session_cookie(&session, is_secure(app_state, headers))
        .await;
    let cookie = cookie.map_err(Problem::from)?;
    let provider = app_state.oidc.is_some();
    let provider = provider.then(|| oidc_sign_in::link(next.path()));
    let form = sign_in_form(&session, next.path(), error, provider);
    let page = layout::bare("Sign in", form);
    Ok(([(header::SET_COOKIE, cookie)], page).into_response())
}

fn sign_in_form(
    session: &Session,
    next: &str,
    error: Option<&str>,
    provider: Option<Element>,
) -> Html {
    let has_provider = provider.is_some();
    let error: Option<Element> = error.map(|error| {
        tag("p")
            .id("error")
            .class("notice bad")
            .with("role", "alert")
            .text(error)
    });
    let token = tag("input")
        .id("token")
        .with("name", "token")
        .with("type", "password")
        .with("autocomplete", "current-password")
        .with("aria-describedby", "hint")
        .set("required", true)
        .set("autofocus", !has_provider);
    let button = match has_provider {
        true => tag("button"),
        false => tag("button").class("main"),
    };
    let form = tag("form")
        .class("sign-in")
        .with("method", "post")
        .link("/login")
        .child(hidden_field("csrf", &session.csrf))
        .child(hidden_field("next", next))
        .child(tag("label").with("for", "token").text("Token"))
        .child(token)
        .child(token_hint())
        .child(button.text("Sign in"));
    Html::all([
        Html::from(layout::logo(40)),
        tag("h1").text("Sluice").into(),
        error.into(),
        provider.into(),
        form.into(),
    ])
}

/// Which token is needed, and how to get one.
fn token_hint() -> Element {
    let code = |text: &str| tag("code").text(text);
    tag("p")
        .id("hint")
        .class("dim")
        .text("A bearer token of a user or ServiceAccount that the Kubernetes API accepts. For a ServiceAccount, ")
        .child(code("kubectl create token NAME -n NAMESPACE"))
        .text(" prints one; ")
        .child(code("sluice standalone"))
        .text(" and ")
        .child(code("sluice demo"))
        .text(" print theirs when they start. It is stored encrypted in this browser for at most eight hours.")
}

/// The fields of the sign-in form.
#[derive(Deserialize)]
pub(super) struct SignInForm {
    csrf: String,
    token: String,
    next: Option<String>,
}

pub(super) async fn sign_in(
    State(app_state): State<Arc<AppState>>,
    peer: Option<axum::Extension<Peer>>,
    headers: HeaderMap,
    Form(form): Form<SignInForm>,
) -> Result<Response, ErrorPage> {
    let peer = peer.map(|it| it.0).unwrap_or_default();
    let address = rate_limit_key(peer, &headers, &app_state.settings.trusted_proxies);
    check_token_attempts(&app_state, &address, form.token.trim())?;
    let next = SignInQuery { next: form.next };
    let session = app_state.sessions.read(&headers).await?;
    if !session.is_some_and(|session| session.has_csrf_token(&form.csrf)) {
        return sign_in_page(
            &app_state,
            &headers,
            &next,
            Some("The form has expired. Try again."),
        )
        .await;
    }
    let token = form.token.trim();
    let is_token = !token.is_empty() && token.len() <= MAX_TOKEN_LENGTH;
    let caller = match is_token {
        true => Caller::authenticate(&app_state, token).await?,
        false => None,
    };
    if caller.is_none() {
        let counted = app_state.unauthenticated_requests.count(address, 1);
        counted.map_err(|it| Problem::too_many_requests(it.retry_after.as_secs() + 1))?;
        let error = "The Kubernetes API does not accept this token. It may have expired.";
        return sign_in_page(&app_state, &headers, &next, Some(error)).await;
    }
    let session = app_state
        .sessions
        .start(Some(Identity::Token(token.to_owned())));
    let cookie = app_state
        .sessions
        .session_cookie(&session, is_secure(&app_state, &headers));
    let cookie = cookie.await.map_err(Problem::from)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(next.path())).into_response())
}

/// The fields of the sign-out form.
#[derive(Deserialize)]
pub(super) struct SignOutForm {
    csrf: String,
}

pub(super) async fn sign_out(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    Form(form): Form<SignOutForm>,
) -> Result<Response, ErrorPage> {
    viewer.check_csrf(&form.csrf)?;
    let ended = app_state.sessions.revoke(&viewer.session).await;
    ended.map_err(Problem::from)?;
    Ok((
        [(header::SET_COOKIE, clear_session_cookie())],
        Redirect::to("/login"),
    )
        .into_response())
}

/// Whether the browser uses TLS, to this server or to a proxy in front of it.
pub(super) fn is_secure(app_state: &AppState, headers: &HeaderMap) -> bool {
    let proxy = headers.get("x-forwarded-proto");
    app_state.settings.tls.is_some() || proxy.is_some_and(|it| it == "https")
}
