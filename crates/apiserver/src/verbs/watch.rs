//! The verb watch: the store's events as lines of JSON, read at the client's pace.
//!
//! At most one batch is buffered for a slow client. A client that falls behind the history gets
//! `410 Expired` and has to list again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use http::header;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ObjectRequest, read};
use crate::{
    Server,
    query::Query,
    representation::Representation,
    resource::Resource,
    schema::FieldError,
    selector::Selector,
    status::{ApiError, Result},
    store::{RevisionExpired, RevisionReceiver, StoreEvent, StoreRevision, StoredObject},
};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
const BATCH_SIZE: usize = 256;

pub(super) fn watch(request: ObjectRequest<'_>) -> Result<Response> {
    let start = WatchStart::parse(&request.query)?;
    let selector = read::selector(&request)?;
    let now = Instant::now();
    let timeout = request.query.timeout_seconds.filter(|seconds| *seconds > 0);
    let mut watcher = Watcher {
        server: request.server.clone(),
        resource: request.target.resource.clone(),
        prefix: read::prefix(&request),
        selector,
        representation: request.representation(),
        has_sent_columns: false,
        revision: 0,
        initial_events: None,
        lines: VecDeque::new(),
        lines_left: request.faults.watch_lines,
        bookmarks: request.query.allow_bookmarks,
        next_bookmark: now + BOOKMARK_INTERVAL,
        deadline: now + timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
        revision_watch: request.server.store().revision_watch(),
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

/// Where a watch starts.
struct WatchStart {
    /// Whether the current objects are sent before the events.
    sends_initial_events: bool,
    /// Whether an annotated bookmark follows the current objects.
    sends_end_bookmark: bool,
    revision: StoreRevision,
}

impl WatchStart {
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
            sends_initial_events: initial.unwrap_or(revision == 0),
            sends_end_bookmark: initial == Some(true) && query.allow_bookmarks,
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
    ApiError::invalid_kind("ListOptions", "meta.k8s.io", "", &errors)
}

struct Watcher {
    server: Server,
    resource: Arc<Resource>,
    prefix: String,
    selector: Selector,
    representation: Representation,
    /// Whether the column definitions of a table were sent; they are sent once.
    has_sent_columns: bool,
    /// Events up to this revision were handled.
    revision: StoreRevision,
    /// Set until the current objects are sent.
    initial_events: Option<WatchStart>,
    lines: VecDeque<Bytes>,
    /// How many lines are sent before an injected fault ends the watch.
    lines_left: Option<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    revision_watch: RevisionReceiver,
    is_over: bool,
}

impl Watcher {
    fn begin(&mut self, start: WatchStart) {
        self.revision = start.revision;
        if start.sends_initial_events {
            self.initial_events = Some(start);
        } else if start.revision > 0 && start.revision < self.resource.since {
            self.expire(self.resource.since);
        } else if start.revision == 0 {
            self.revision = self.server.store().revision();
        }
    }

    /// Sends the current objects, once the requested revision is reached.
    async fn send_initial_events(&mut self, start: WatchStart) {
        if let Err(error) = read::wait_for_revision(&self.server, start.revision).await {
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
        if start.sends_end_bookmark {
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
            self.read_events().await;
        }
    }

    async fn read_events(&mut self) {
        if let Some(start) = self.initial_events.take() {
            return self.send_initial_events(start).await;
        }
        self.revision_watch.update();
        match self.server.store().events(self.revision, BATCH_SIZE) {
            Err(RevisionExpired { oldest }) => self.expire(oldest),
            Ok(events) if events.is_empty() => self.wait().await,
            Ok(events) => {
                for event in events {
                    self.revision = event.revision;
                    self.push_event(&event);
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
            biased;
            () = tokio::time::sleep_until(wake) => self.tick(),
            changed = self.revision_watch.changed() => self.is_over |= changed.is_err(),
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.is_over |= now >= self.deadline;
        self.next_bookmark = now + BOOKMARK_INTERVAL;
        if self.bookmarks {
            self.push_bookmark(Value::Null);
        }
    }

    fn push_event(&mut self, event: &StoreEvent) {
        let is_watched =
            event.key.resource == self.resource.storage && event.key.path.starts_with(&self.prefix);
        if !is_watched {
            return;
        }
        let selected = |object: &Option<Arc<StoredObject>>| {
            let is_selected = |object: &&Arc<StoredObject>| {
                let selector = &self.selector;
                selector.selects(&self.resource, &event.key, object)
            };
            object.as_ref().filter(is_selected).cloned()
        };
        let before = selected(&event.previous);
        let after = selected(&event.object);
        match (before, after) {
            (None, Some(object)) => self.push_stored("ADDED", &object),
            (Some(_), Some(object)) => self.push_stored("MODIFIED", &object),
            (Some(last), None) => {
                // The last state that matched, at the revision at which it stopped matching.
                let mut last = self.resource.read_with_managed_fields(&last);
                last["metadata"]["resourceVersion"] = json!(event.revision.to_string());
                self.push("DELETED", &last);
            }
            (None, None) => {}
        }
    }

    fn push_stored(&mut self, kind: &str, stored: &StoredObject) {
        if self.representation != Representation::Whole {
            return self.push(kind, &self.resource.read_with_managed_fields(stored));
        }
        let object = self
            .representation
            .encode(&self.server, &self.resource, stored);
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

    fn expire(&mut self, oldest: StoreRevision) {
        let message = format!("too old resource version: {} ({oldest})", self.revision);
        self.fail(&ApiError::expired(message));
    }

    fn fail(&mut self, error: &ApiError) {
        self.push_line("ERROR", &error.status());
        self.is_over = true;
    }

    fn push(&mut self, kind: &str, object: &Value) {
        let mut shown = self.representation.of(&self.server, &self.resource, object);
        if matches!(self.representation, Representation::Table(_)) {
            if self.has_sent_columns {
                shown["columnDefinitions"] = Value::Null;
            }
            if kind == "BOOKMARK" {
                shown["rows"] = json!([]);
            }
            self.has_sent_columns = true;
        }
        self.push_line(kind, &shown);
    }

    fn push_line(&mut self, kind: &str, object: &Value) {
        let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        self.lines.push_back(line.into());
    }
}
