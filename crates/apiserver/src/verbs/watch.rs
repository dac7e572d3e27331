//! watch: the store's changes as lines of JSON, pulled at the reader's pace.
//!
//! Nothing is buffered for a slow reader beyond one batch; one that falls behind the history gets
//! `410 Expired` and has to list again, as on a real server.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use http::header;
use serde_json::{Value, json};
use tokio::{sync::watch::Receiver, time::Instant};

use super::{Call, read};
use crate::{
    Server,
    query::Query,
    resource::Resource,
    schema::FieldError,
    selector::Selector,
    status::{ApiError, Result},
    store::{Event, Expired, Kept, Revision},
    view::View,
};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
const BATCH: usize = 256;

pub(super) fn watch(call: Call<'_>) -> Result<Response> {
    let start = Start::parse(&call.query)?;
    let selector = read::selector(&call)?;
    let now = Instant::now();
    let timeout = call.query.timeout_seconds.filter(|seconds| *seconds > 0);
    let mut watcher = Watcher {
        server: call.server.clone(),
        resource: call.target.resource.clone(),
        prefix: read::prefix(&call),
        selector,
        view: call.view(),
        has_columns: false,
        revision: 0,
        shown_from: None,
        lines: VecDeque::new(),
        lines_left: call.verdict.watch_lines,
        bookmarks: call.query.allow_bookmarks,
        next_bookmark: now + BOOKMARK_EVERY,
        deadline: now + timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
        risen: call.server.store().risen(),
        is_over: false,
    };
    watcher.begin(start);
    let lines = futures::stream::unfold(watcher, async |mut watcher| {
        let line = watcher.next_line().await?;
        Some((Ok::<_, std::convert::Infallible>(line), watcher))
    });
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// Where a watch begins.
struct Start {
    /// The state to show first is the newest one, then changes follow.
    shows_state: bool,
    /// The end of the state is marked with an annotated bookmark.
    marks_end: bool,
    revision: Revision,
}

impl Start {
    fn parse(query: &Query) -> Result<Self> {
        let revision = read::parse_revision(&query.resource_version).map_err(ApiError::internal)?;
        let initial = query.send_initial_events;
        let matching = query.resource_version_match.as_str();
        if initial.is_some() && matching != "NotOlderThan" {
            return Err(needs_not_older_than(matching));
        }
        if initial.is_none() && !matching.is_empty() {
            return Err(read::forbidden_option(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        Ok(Self {
            shows_state: initial.unwrap_or(revision == 0),
            marks_end: initial == Some(true) && query.allow_bookmarks,
            revision,
        })
    }
}

fn needs_not_older_than(matching: &str) -> ApiError {
    let field = "resourceVersionMatch".to_owned();
    let mut errors = vec![FieldError {
        reason: "FieldValueForbidden",
        field: field.clone(),
        message:
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                .to_owned(),
    }];
    if !matching.is_empty() {
        errors.push(FieldError {
            reason: "FieldValueNotSupported",
            field,
            message: format!("Unsupported value: {matching:?}: supported values: \"NotOlderThan\""),
        });
    }
    ApiError::invalid_thing("ListOptions", "meta.k8s.io", "", &errors)
}

struct Watcher {
    server: Server,
    resource: Arc<Resource>,
    prefix: String,
    selector: Selector,
    view: View,
    /// The columns of a table are told once.
    has_columns: bool,
    /// Everything up to here was looked at.
    revision: Revision,
    /// The state must be at least this new before it is shown.
    shown_from: Option<Start>,
    lines: VecDeque<Bytes>,
    /// How many lines may still be sent before an injected end.
    lines_left: Option<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    risen: Receiver<Revision>,
    is_over: bool,
}

impl Watcher {
    fn begin(&mut self, start: Start) {
        self.revision = start.revision;
        if start.shows_state {
            self.shown_from = Some(start);
        } else if start.revision > 0 && start.revision < self.resource.since {
            self.expire(self.resource.since);
        } else if start.revision == 0 {
            self.revision = self.server.store().revision();
        }
    }

    /// Shows the objects there are, once the state is as new as was asked for.
    async fn show_state(&mut self, start: Start) {
        if let Err(error) = read::reach(&self.server, start.revision).await {
            return self.fail(&error);
        }
        let storage = self.resource.storage.clone();
        let Ok(snapshot) = self.server.store().list(&storage, &self.prefix, None) else {
            return; // the newest state is never expired
        };
        self.revision = snapshot.revision;
        for (key, stored) in &snapshot.objects {
            if self.selector.selects(&self.resource, key, stored) {
                self.push_stored("ADDED", stored);
            }
        }
        if start.marks_end {
            self.push_bookmark(json!({"k8s.io/initial-events-end": "true"}));
        }
    }

    async fn next_line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                if self.lines_left == Some(0) {
                    return None;
                }
                self.lines_left = self.lines_left.map(|left| left - 1);
                return Some(line);
            }
            if self.is_over {
                return None;
            }
            self.take_changes().await;
        }
    }

    async fn take_changes(&mut self) {
        if let Some(start) = self.shown_from.take() {
            return self.show_state(start).await;
        }
        let _ = self.risen.borrow_and_update();
        match self.server.store().changes(self.revision, BATCH) {
            Err(Expired { oldest }) => self.expire(oldest),
            Ok(changes) if changes.is_empty() => self.wait().await,
            Ok(changes) => {
                for change in changes {
                    self.revision = change.revision;
                    self.push_change(&change);
                }
            }
        }
    }

    async fn wait(&mut self) {
        let wake = if self.bookmarks {
            self.deadline.min(self.next_bookmark)
        } else {
            self.deadline
        };
        tokio::select! {
            changed = self.risen.changed() => self.is_over |= changed.is_err(),
            () = tokio::time::sleep_until(wake) => self.tick(),
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.is_over |= now >= self.deadline;
        self.next_bookmark = now + BOOKMARK_EVERY;
        if self.bookmarks {
            self.push_bookmark(Value::Null);
        }
    }

    fn push_change(&mut self, change: &Event) {
        let is_mine = change.key.resource == self.resource.storage
            && change.key.path.starts_with(&self.prefix);
        if !is_mine {
            return;
        }
        let selected = |kept: &Option<Arc<Kept>>| {
            let is_meant = |kept: &&Arc<Kept>| {
                let selector = &self.selector;
                selector.selects(&self.resource, &change.key, kept)
            };
            kept.as_ref().filter(is_meant).cloned()
        };
        let before = selected(&change.previous);
        let after = selected(&change.object);
        match (before, after) {
            (None, Some(object)) => self.push_stored("ADDED", &object),
            (Some(_), Some(object)) => self.push_stored("MODIFIED", &object),
            (Some(last), None) => {
                // The last state that matched, at the revision at which it no longer did.
                let mut last = self.resource.present(&last);
                last["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                self.push("DELETED", &last);
            }
            (None, None) => {}
        }
    }

    fn push_stored(&mut self, kind: &str, stored: &Kept) {
        if self.view != View::Whole {
            return self.push(kind, &self.resource.present(stored));
        }
        let object = self.view.text(&self.server, &self.resource, stored);
        let start = format!("{{\"type\":\"{kind}\",\"object\":");
        let line = [start.as_bytes(), &object, b"}\n"].concat();
        self.lines.push_back(line.into());
    }

    fn push_bookmark(&mut self, annotations: Value) {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if !annotations.is_null() {
            metadata["annotations"] = annotations;
        }
        let object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version(),
            "metadata": metadata,
        });
        self.push("BOOKMARK", &object);
    }

    fn expire(&mut self, oldest: Revision) {
        let message = format!("too old resource version: {} ({oldest})", self.revision);
        self.fail(&ApiError::expired(message));
    }

    fn fail(&mut self, error: &ApiError) {
        self.push_line("ERROR", &error.status());
        self.is_over = true;
    }

    fn push(&mut self, kind: &str, object: &Value) {
        let mut shown = self.view.show(&self.server, &self.resource, object);
        if matches!(self.view, View::Table(_)) {
            if self.has_columns {
                shown["columnDefinitions"] = Value::Null;
            }
            if kind == "BOOKMARK" {
                shown["rows"] = json!([]);
            }
            self.has_columns = true;
        }
        self.push_line(kind, &shown);
    }

    fn push_line(&mut self, kind: &str, object: &Value) {
        let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        self.lines.push_back(line.into());
    }
}
