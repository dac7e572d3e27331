//! Sends the parts of a page that changed, as server-sent events.
//!
//! The browser sends the digest of the parts that it has, so that it gets only what changed, also
//! after it was disconnected. Access is checked again for every message, so that a stream ends with
//! its session.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{Query, State},
    response::{IntoResponse, Response},
};
use futures::Stream;
use http::{HeaderMap, Uri, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    ErrorPage,
    page::{DashboardPage, PageParts},
    sign_in::Viewer,
};
use crate::{AppState, access::Caller, problem::Problem};

/// How long changes are collected before they are sent.
const BATCH_DELAY: Duration = Duration::from_millis(150);
/// How often something is sent if nothing changes: proxies keep the connection open, closed
/// connections are noticed, and access is checked again.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The page that a browser shows, and the digest of the parts that it has.
#[derive(Deserialize)]
pub(super) struct LiveQuery {
    page: String,
    digest: Option<String>,
}

pub(super) async fn follow(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(query): Query<LiveQuery>,
) -> Result<Response, ErrorPage> {
    let page = query.page.parse::<Uri>().ok();
    let page = page.and_then(|address| DashboardPage::parse(&address));
    let page = page.ok_or_else(|| Problem::not_found("this page"))?;
    let resumed = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let mut sent = SentParts {
        digest: resumed.map(str::to_owned).or(query.digest),
        ..SentParts::default()
    };
    let changes = changes_of(&page, &app_state);
    // A page that cannot be shown is an error response, not a stream that ends.
    let parts = page.parts(&app_state, &viewer).await?;
    let first = sent
        .message(&parts)
        .unwrap_or_else(|| ": up to date\n\n".to_owned());
    let stream = stream(app_state, viewer, page, (changes, sent), first);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(stream)).into_response())
}

fn stream(
    app_state: Arc<AppState>,
    viewer: Viewer,
    page: DashboardPage,
    (changes, sent): (watch::Receiver<()>, SentParts),
    first: String,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let state = (app_state, viewer, page, changes, sent, Some(first));
    futures::stream::unfold(state, async |state| {
        let (app_state, viewer, page, mut changes, mut sent, mut first) = state;
        let message = match first.take() {
            Some(first) => first,
            None => {
                tokio::select! {
                    () = app_state.stop.cancelled() => return None,
                    _ = timeout(HEARTBEAT, changes.changed()) => {}
                }
                sleep(BATCH_DELAY).await;
                changes.mark_unchanged();
                next_message(&app_state, &viewer, &page, &mut sent).await?
            }
        };
        let state = (app_state, viewer, page, changes, sent, None);
        Some((Ok(Bytes::from(message)), state))
    })
}

/// What changed; nothing once the session has ended or the page does not exist any more.
async fn next_message(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    page: &DashboardPage,
    sent: &mut SentParts,
) -> Option<String> {
    if !app_state.sessions.is_valid(&viewer.session).await.ok()? {
        return None;
    }
    Caller::of_session(app_state, &viewer.session)
        .await
        .ok()??;
    let parts = page.parts(app_state, viewer).await.ok()?;
    let message = sent.message(&parts);
    Some(message.unwrap_or_else(|| ": unchanged\n\n".to_owned()))
}

/// Is changed when the page may have changed.
fn changes_of(page: &DashboardPage, app_state: &AppState) -> watch::Receiver<()> {
    match page {
        DashboardPage::Pipeline(key)
        | DashboardPage::Objects(key, _)
        | DashboardPage::Change(key) => app_state.objects.follow(key),
        _ => app_state.objects.follow_all(),
    }
}

/// The parts that a browser has.
#[derive(Default)]
struct SentParts {
    digest: Option<String>,
    versions: HashMap<Arc<str>, u64>,
    /// Nothing before the first message: the browser may have rows that are not there any more.
    order: Option<Vec<Arc<str>>>,
}

impl SentParts {
    /// The message that brings the browser up to date; nothing if it is.
    fn message(&mut self, parts: &PageParts) -> Option<String> {
        let digest = parts.digest();
        let is_unchanged = self.digest.as_ref() == Some(&digest);
        self.digest = Some(digest.clone());
        let mut set = Map::new();
        let fixed = parts.fixed.iter().map(|(id, part)| (id, part));
        for (id, part) in fixed.chain(parts.rows.iter().map(|(id, part)| (id, &**part))) {
            let before = self.versions.insert(id.clone(), part.version);
            if before != Some(part.version) && !is_unchanged {
                set.insert(id.to_string(), json!(part.html.as_str()));
            }
        }
        let mut body = json!({"set": Value::Object(set)});
        if let Some(order) = self.changed_order(parts) {
            body["order"] = order;
        }
        let message = || format!("id: {digest}\nevent: change\ndata: {body}\n\n");
        (!is_unchanged).then(message)
    }

    /// The ids of the rows, if their order changed.
    fn changed_order(&mut self, parts: &PageParts) -> Option<Value> {
        let order = || parts.rows.iter().map(|(id, _)| id);
        let known = self.order.as_ref();
        if known.is_some_and(|known| known.iter().eq(order())) {
            return None;
        }
        self.order = Some(order().cloned().collect());
        let fixed = parts.fixed.iter().map(|(id, _)| id);
        let shown: HashSet<&Arc<str>> = fixed.chain(order()).collect();
        self.versions.retain(|id, _| shown.contains(id));
        Some(order().map(|id| json!(&**id)).collect())
    }
}
