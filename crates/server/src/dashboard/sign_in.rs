//! Who looks: a token is given once and then kept in the browser, in a cookie that only we can read.

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
    Failure,
    html::{Element, Html, tag},
    layout,
    words::{encoded, hidden},
};
use crate::{
    Door,
    client::{Peer, bucket},
    rest::{
        Problem,
        access::{Caller, may_try},
    },
    session::{Session, forget},
};

const LONGEST_TOKEN: usize = 16 << 10;

/// Somebody who has signed in.
pub(crate) struct Viewer {
    pub(super) caller: Caller,
    pub(super) session: Session,
}

impl Viewer {
    /// Fails unless a form was made for this session.
    pub(super) fn must_have_given(&self, csrf: &str) -> Result<(), Problem> {
        if self.session.gave(csrf) {
            return Ok(());
        }
        Err(foreign_form())
    }
}

fn foreign_form() -> Problem {
    let detail = "that form is from another session; go back, reload the page and try again";
    Problem::new(StatusCode::FORBIDDEN, detail)
}

impl FromRequestParts<Arc<Door>> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door>) -> Result<Self, Response> {
        let found = find(door, &parts.headers).await;
        if let Some(viewer) = found.map_err(|problem| Failure(problem).into_response())? {
            return Ok(viewer);
        }
        let is_page = parts.method == Method::GET && parts.uri.path() != "/live";
        if !is_page {
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "sign in again");
            return Err(Failure(problem).into_response());
        }
        let here = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        Err(Redirect::to(&format!("/login?next={}", encoded(here))).into_response())
    }
}

async fn find(door: &Arc<Door>, headers: &HeaderMap) -> Result<Option<Viewer>, Problem> {
    let Some(session) = door.sessions.read(headers).await? else {
        return Ok(None);
    };
    let Some(token) = &session.token else {
        return Ok(None);
    };
    let caller = Caller::find(door, token).await?;
    Ok(caller.map(|caller| Viewer { caller, session }))
}

/// Where to go after signing in.
#[derive(Deserialize)]
pub(super) struct Next {
    next: Option<String>,
}

impl Next {
    /// A path of ours, whatever was asked for.
    fn path(&self) -> &str {
        let asked = self.next.as_deref().unwrap_or_default();
        let is_ours = asked.starts_with('/') && !asked.starts_with("//") && !asked.contains('\\');
        let is_plain = asked.bytes().all(|byte| byte.is_ascii_graphic());
        if is_ours && is_plain {
            asked
        } else {
            "/pipelines"
        }
    }
}

pub(super) async fn form(
    State(door): State<Arc<Door>>,
    headers: HeaderMap,
    Query(next): Query<Next>,
) -> Result<Response, Failure> {
    ask(&door, &headers, &next, None).await
}

async fn ask(
    door: &Door,
    headers: &HeaderMap,
    next: &Next,
    error: Option<&str>,
) -> Result<Response, Failure> {
    let session = Session::new(None);
    let cookie = door.sessions.keep(&session, is_secure(door, headers)).await;
    let cookie = cookie.map_err(Problem::from)?;
    let page = layout::bare("Sign in", question(&session, next.path(), error));
    Ok(([(header::SET_COOKIE, cookie)], page).into_response())
}

fn question(session: &Session, next: &str, error: Option<&str>) -> Html {
    let error: Option<Element> = error.map(|error| {
        tag("p")
            .id("error")
            .class("told bad")
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
        .set("autofocus", true);
    let hint = tag("p")
        .id("hint")
        .class("dim")
        .text("Any token that the Kubernetes API knows, such as what ")
        .child(tag("code").text("kubectl create token NAME"))
        .text(" prints. It stays in this browser, encrypted, for at most eight hours.");
    let form = tag("form")
        .class("sign-in")
        .with("method", "post")
        .link("/login")
        .child(hidden("csrf", &session.csrf))
        .child(hidden("next", next))
        .child(tag("label").with("for", "token").text("Token"))
        .child(token)
        .child(hint)
        .child(tag("button").class("main").text("Sign in"));
    Html::all([
        Html::from(tag("h1").text("Sluice")),
        error.into(),
        form.into(),
    ])
}

/// What the form says.
#[derive(Deserialize)]
pub(super) struct Given {
    csrf: String,
    token: String,
    next: Option<String>,
}

pub(super) async fn enter(
    State(door): State<Arc<Door>>,
    peer: Option<axum::Extension<Peer>>,
    headers: HeaderMap,
    Form(given): Form<Given>,
) -> Result<Response, Failure> {
    let peer = peer.map(|it| it.0).unwrap_or_default();
    let address = bucket(peer, &headers, &door.settings.trusted_proxies);
    may_try(&door, &address, given.token.trim())?;
    let next = Next { next: given.next };
    let session = door.sessions.read(&headers).await?;
    if !session.is_some_and(|session| session.gave(&given.csrf)) {
        return ask(
            &door,
            &headers,
            &next,
            Some("The form was too old. Try again."),
        )
        .await;
    }
    let token = given.token.trim();
    let is_token = !token.is_empty() && token.len() <= LONGEST_TOKEN;
    let caller = match is_token {
        true => Caller::find(&door, token).await?,
        false => None,
    };
    if caller.is_none() {
        let counted = door.guests.count(address, 1);
        counted.map_err(|it| Problem::too_many(it.retry_after.as_secs() + 1))?;
        let error = "The Kubernetes API does not know that token. It may have expired.";
        return ask(&door, &headers, &next, Some(error)).await;
    }
    let session = Session::new(Some(token.to_owned()));
    let cookie = door.sessions.keep(&session, is_secure(&door, &headers));
    let cookie = cookie.await.map_err(Problem::from)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(next.path())).into_response())
}

/// What the button to leave says.
#[derive(Deserialize)]
pub(super) struct Leave {
    csrf: String,
}

pub(super) async fn leave(
    State(door): State<Arc<Door>>,
    viewer: Viewer,
    Form(said): Form<Leave>,
) -> Result<Response, Failure> {
    viewer.must_have_given(&said.csrf)?;
    let ended = door.sessions.end(&viewer.session).await;
    ended.map_err(Problem::from)?;
    Ok(([(header::SET_COOKIE, forget())], Redirect::to("/login")).into_response())
}

/// Whether the browser speaks TLS to us, or to whoever is in front of us.
pub(super) fn is_secure(door: &Door, headers: &HeaderMap) -> bool {
    let proxy = headers.get("x-forwarded-proto");
    door.settings.tls.is_some() || proxy.is_some_and(|it| it == "https")
}
