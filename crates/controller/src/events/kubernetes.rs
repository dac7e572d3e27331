//! Kubernetes Events in the `events.k8s.io/v1` form.

use jiff::Timestamp;
use k8s_openapi::{
    api::events::v1::{Event, EventSeries},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::json;

use super::{Entry, Failure, Reporter, Severity, Sink};

/// What the API accepts at most.
const NOTE_BYTES: usize = 1024;
const WORD_BYTES: usize = 128;
/// Where Events about objects without a namespace live.
const FALLBACK_NAMESPACE: &str = "default";

pub(super) struct Writer {
    client: Client,
    reporter: Reporter,
}

impl Writer {
    pub(super) fn new(client: Client, reporter: Reporter) -> Self {
        Self { client, reporter }
    }

    fn event(&self, entry: &Entry) -> Event {
        let occurrence = &entry.occurrence;
        let annotations = occurrence.all_metadata();
        Event {
            metadata: ObjectMeta {
                namespace: Some(namespace(entry).to_owned()),
                name: Some(entry.repeat.name.clone()),
                annotations: (!annotations.is_empty()).then_some(annotations),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(entry.at)),
            type_: Some(event_type(occurrence.severity).to_owned()),
            reason: Some(cut(&occurrence.reason, WORD_BYTES)),
            action: Some(cut(&occurrence.action, WORD_BYTES)),
            note: Some(cut(&occurrence.note, NOTE_BYTES)),
            regarding: Some(occurrence.regarding.clone()),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(cut(&self.reporter.instance, WORD_BYTES)),
            series: series(entry.repeat.count, entry.at),
            ..Event::default()
        }
    }

    async fn count(&self, events: &Api<Event>, entry: &Entry) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"series": series(entry.repeat.count, entry.at)}));
        let name = &entry.repeat.name;
        let counted = events.patch(name, &PatchParams::default(), &patch).await;
        match counted {
            // The first one has expired or never arrived.
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.create(events, entry).await
            }
            outcome => outcome.map(drop),
        }
    }

    async fn create(&self, events: &Api<Event>, entry: &Entry) -> Result<(), kube::Error> {
        let event = self.event(entry);
        match events.create(&PostParams::default(), &event).await {
            // An earlier attempt got through after all.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

impl Sink for Writer {
    async fn send(&self, entry: &Entry) -> Result<(), Failure> {
        let events = Api::namespaced(self.client.clone(), namespace(entry));
        let outcome = match entry.repeat.count {
            1 => self.create(&events, entry).await,
            _ => self.count(&events, entry).await,
        };
        outcome.map_err(|error| Failure {
            because: error.to_string(),
            may_pass: may_pass(&error),
        })
    }
}

fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || matches!(status.code, 409 | 429),
        _ => true,
    }
}

fn namespace(entry: &Entry) -> &str {
    let namespace = entry.occurrence.regarding.namespace.as_deref();
    namespace.unwrap_or(FALLBACK_NAMESPACE)
}

fn event_type(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "Normal",
        Severity::Error => "Warning",
    }
}

/// A series begins with the second time.
fn series(count: i32, last: Timestamp) -> Option<EventSeries> {
    (count > 1).then_some(EventSeries {
        count,
        last_observed_time: MicroTime(last),
    })
}

/// At most so many bytes of it, whole characters only.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let ellipsis = '…';
    let end = text.floor_char_boundary(limit - ellipsis.len_utf8());
    format!("{}{ellipsis}", &text[..end])
}
