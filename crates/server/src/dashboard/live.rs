//! Sends the parts of a page that changed, as server-sent events.
//!
//! A browser says what it has seen by the digest of its parts. While that is what there is, nothing
//! is sent; after a break it is brought up to date by the parts alone. Rights are asked about as for
//! any page, so that a stream ends with its session.

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
    Failure,
    page::{Page, Parts},
    sign_in::Viewer,
};
use crate::{
    Door,
    rest::{Problem, access::Caller},
};

/// How long changes are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(150);
/// How often something is sent when nothing changes: a proxy keeps the connection, we notice who
/// has left, and rights are looked at again.
const BEAT: Duration = Duration::from_secs(15);

/// What a browser looks at, and what it has seen of that.
#[derive(Deserialize)]
pub(super) struct Asked {
    page: String,
    seen: Option<String>,
}

pub(super) async fn follow(
    State(door): State<Arc<Door>>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Failure> {
    let page = asked.page.parse::<Uri>().ok();
    let page = page.and_then(|address| Page::parse(&address));
    let page = page.ok_or_else(|| Problem::not_found("that page"))?;
    let resumed = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let mut seen = Seen {
        digest: resumed.map(str::to_owned).or(asked.seen),
        ..Seen::default()
    };
    let changes = Changes::of(&page, &door);
    // What cannot be shown is an answer of its own, not a stream that breaks.
    let parts = page.parts(&door, &viewer).await?;
    let first = seen
        .message(&parts)
        .unwrap_or_else(|| ": up to date\n\n".to_owned());
    let stream = stream(door, viewer, page, (changes, seen), first);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(stream)).into_response())
}

fn stream(
    door: Arc<Door>,
    viewer: Viewer,
    page: Page,
    (changes, seen): (Changes, Seen),
    first: String,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let state = (door, viewer, page, changes, seen, Some(first));
    futures::stream::unfold(state, async |state| {
        let (door, viewer, page, mut changes, mut seen, mut first) = state;
        let message = match first.take() {
            Some(first) => first,
            None => {
                tokio::select! {
                    () = door.stop.cancelled() => return None,
                    _ = timeout(BEAT, changes.next()) => {}
                }
                sleep(GATHER).await;
                changes.settle();
                next(&door, &viewer, &page, &mut seen).await?
            }
        };
        let state = (door, viewer, page, changes, seen, None);
        Some((Ok(Bytes::from(message)), state))
    })
}

/// What is new; nothing once the session has ended or the page is gone.
async fn next(door: &Arc<Door>, viewer: &Viewer, page: &Page, seen: &mut Seen) -> Option<String> {
    if !door.sessions.lasts(&viewer.session).await.ok()? {
        return None;
    }
    let token = viewer.session.token.as_deref()?;
    Caller::find(door, token).await.ok()??;
    let parts = page.parts(door, viewer).await.ok()?;
    let message = seen.message(&parts);
    Some(message.unwrap_or_else(|| ": still here\n\n".to_owned()))
}

/// Tells when a page may look different.
enum Changes {
    OfPipeline(watch::Receiver<()>),
    OfAnything(watch::Receiver<u64>),
}

impl Changes {
    fn of(page: &Page, door: &Door) -> Self {
        match page {
            Page::Pipeline(key) | Page::Objects(key, _) | Page::Change(key) => {
                Self::OfPipeline(door.watched.follow(key))
            }
            _ => Self::OfAnything(door.watched.changes()),
        }
    }

    async fn next(&mut self) {
        let changed = match self {
            Self::OfPipeline(changes) => changes.changed().await,
            Self::OfAnything(changes) => changes.changed().await,
        };
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// What came until now is looked at together.
    fn settle(&mut self) {
        match self {
            Self::OfPipeline(changes) => changes.mark_unchanged(),
            Self::OfAnything(changes) => changes.mark_unchanged(),
        }
    }
}

/// What a browser has.
#[derive(Default)]
struct Seen {
    digest: Option<String>,
    versions: HashMap<Arc<str>, u64>,
    order: Vec<Arc<str>>,
}

impl Seen {
    /// What brings a browser up to date; nothing, where it is.
    fn message(&mut self, parts: &Parts) -> Option<String> {
        let digest = parts.digest();
        let is_known = self.digest.as_ref() == Some(&digest);
        self.digest = Some(digest.clone());
        let mut set = Map::new();
        let fixed = parts.fixed.iter().map(|(id, part)| (id, part));
        for (id, part) in fixed.chain(parts.rows.iter().map(|(id, part)| (id, &**part))) {
            let before = self.versions.insert(id.clone(), part.version);
            if before != Some(part.version) && !is_known {
                set.insert(id.to_string(), json!(part.html.as_str()));
            }
        }
        let mut body = json!({"set": Value::Object(set)});
        if let Some(order) = self.arrange(parts) {
            body["order"] = order;
        }
        let message = || format!("id: {digest}\nevent: change\ndata: {body}\n\n");
        (!is_known).then(message)
    }

    /// The rows in their order, where that is another one than before.
    fn arrange(&mut self, parts: &Parts) -> Option<Value> {
        let order = || parts.rows.iter().map(|(id, _)| id);
        if self.order.iter().eq(order()) {
            return None;
        }
        self.order = order().cloned().collect();
        let fixed = parts.fixed.iter().map(|(id, _)| id);
        let shown: HashSet<&Arc<str>> = fixed.chain(order()).collect();
        self.versions.retain(|id, _| shown.contains(id));
        Some(order().map(|id| json!(&**id)).collect())
    }
}
