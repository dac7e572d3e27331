//! Sign-in with the OpenID provider: the link to it, and the address that it sends the browser back to.
//!
//! What goes wrong is said on the sign-in page, where a token still works.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Query, State},
    response::{AppendHeaders, IntoResponse, Redirect, Response},
};
use http::{HeaderMap, StatusCode, header};

use super::{
    ErrorPage,
    components::percent_encoded,
    html::{Element, tag},
    sign_in::{SignInQuery, sign_in_page},
};
use crate::{
    AppState,
    client::{Peer, rate_limit_key},
    oidc::{CallbackQuery, Error, Oidc, OidcUser},
    problem::Problem,
    session::{Identity, clear_attempt_cookie},
};

/// The link on the sign-in page.
pub(super) fn link(next: &str) -> Element {
    let address = format!("/login/oidc?next={}", percent_encoded(next));
    let link = tag("a").class("button main").link(&address);
    tag("p").child(link.text("Sign in with single sign-on"))
}

/// Sends the browser to the provider.
pub(super) async fn start(
    State(app_state): State<Arc<AppState>>,
    headers: HeaderMap,
    Query(next): Query<SignInQuery>,
) -> Result<Response, ErrorPage> {
    let oidc = configured(&app_state)?;
    let started = oidc.start(next.path(), app_state.clock.now()).await;
    let (attempt, url) = match started {
        Ok(started) => started,
        Err(error) => return refused(&app_state, &headers, &next, &error).await,
    };
    let cookie = app_state
        .sessions
        .attempt_cookie(&attempt, is_https(oidc))
        .await;
    let cookie = cookie.map_err(Problem::from)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(url.as_str())).into_response())
}

/// Signs in whom the provider has sent back.
pub(super) async fn finish(
    State(app_state): State<Arc<AppState>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    Query(callback): Query<CallbackQuery>,
) -> Result<Response, ErrorPage> {
    let oidc = configured(&app_state)?;
    let peer = peer.map(|it| it.0).unwrap_or_default();
    let address = rate_limit_key(peer, &headers, &app_state.settings.trusted_proxies);
    let limited = |it: crate::rate_limiter::RateLimited| {
        Problem::too_many_requests(it.retry_after.as_secs() + 1)
    };
    let attempts = &app_state.unauthenticated_requests;
    attempts.is_exhausted(&address).map_err(limited)?;
    let attempt = app_state.sessions.sign_in_attempt(&headers).await?;
    let signed_in = match &attempt {
        Some(attempt) => oidc.finish(attempt, &callback, app_state.clock.now()).await,
        None => Err(Error::NotStarted),
    };
    let next = SignInQuery::to(attempt.map(|attempt| attempt.next));
    match signed_in {
        Ok(user) => start_session(&app_state, oidc, user, &next).await,
        Err(error) => {
            attempts.count(address, 1).map_err(limited)?;
            let mut page = refused(&app_state, &headers, &next, &error).await?;
            let cookies = page.headers_mut();
            cookies.append(header::SET_COOKIE, clear_attempt_cookie());
            Ok(page)
        }
    }
}

async fn start_session(
    app_state: &AppState,
    oidc: &Oidc,
    user: OidcUser,
    next: &SignInQuery,
) -> Result<Response, ErrorPage> {
    let groups = user.groups.len();
    tracing::info!(
        user = user.name,
        groups,
        "signed in with the OpenID provider"
    );
    let lifetime = oidc.settings.session_duration;
    let session = app_state.sessions.start_for(Identity::User(user), lifetime);
    let cookie = app_state
        .sessions
        .session_cookie(&session, is_https(oidc))
        .await;
    let cookies = AppendHeaders([
        (header::SET_COOKIE, cookie.map_err(Problem::from)?),
        (header::SET_COOKIE, clear_attempt_cookie()),
    ]);
    Ok((cookies, Redirect::to(next.path())).into_response())
}

/// The sign-in page, which says why.
async fn refused(
    app_state: &AppState,
    headers: &HeaderMap,
    next: &SignInQuery,
    error: &Error,
) -> Result<Response, ErrorPage> {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(%error, source, "a sign-in with the OpenID provider failed");
    let mut page = sign_in_page(app_state, headers, next, Some(&error.to_string())).await?;
    *page.status_mut() = match error.is_outage() {
        true => StatusCode::BAD_GATEWAY,
        false => StatusCode::FORBIDDEN,
    };
    Ok(page)
}

/// Whether browsers use TLS at the address that the provider sends them back to.
fn is_https(oidc: &Oidc) -> bool {
    oidc.settings.redirect_url.starts_with("https://")
}

fn configured(app_state: &AppState) -> Result<&Oidc, Problem> {
    let oidc = app_state.oidc.as_ref();
    oidc.ok_or_else(|| Problem::not_found("sign-in with an OpenID provider"))
}
