//! Writes Kubernetes Events of `events.k8s.io/v1`.

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

use super::{DeliveryError, EventReporter, EventSeverity, EventSink, PendingEvent};

/// What the API accepts at most.
const NOTE_BYTES: usize = 1024;
const FIELD_BYTES: usize = 128;
/// The namespace of Events about objects without one.
const FALLBACK_NAMESPACE: &str = "default";

pub(super) struct KubernetesWriter {
    client: Client,
    reporter: EventReporter,
}

impl KubernetesWriter {
    pub(super) fn new(client: Client, reporter: EventReporter) -> Self {
        Self { client, reporter }
    }

    fn event(&self, entry: &PendingEvent) -> Event {
        let event = &entry.event;
        let annotations = event.all_metadata();
        Event {
            metadata: ObjectMeta {
                namespace: Some(namespace(entry).to_owned()),
                name: Some(entry.repeat.name.clone()),
                annotations: (!annotations.is_empty()).then_some(annotations),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(entry.at)),
            type_: Some(event_type(event.severity).to_owned()),
            reason: Some(truncate(&event.reason, FIELD_BYTES)),
            action: Some(truncate(&event.action, FIELD_BYTES)),
            note: Some(truncate(&event.note, NOTE_BYTES)),
            regarding: Some(event.regarding.clone()),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(truncate(&self.reporter.instance, FIELD_BYTES)),
            series: series(entry.repeat.count, entry.at),
            ..Event::default()
        }
    }

    async fn update_count(
        &self,
        events: &Api<Event>,
        entry: &PendingEvent,
    ) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"series": series(entry.repeat.count, entry.at)}));
        let name = &entry.repeat.name;
        let patched = events.patch(name, &PatchParams::default(), &patch).await;
        match patched {
            // The first one has expired or was never stored.
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.create(events, entry).await
            }
            result => result.map(drop),
        }
    }

    async fn create(&self, events: &Api<Event>, entry: &PendingEvent) -> Result<(), kube::Error> {
        let event = self.event(entry);
        match events.create(&PostParams::default(), &event).await {
            // An earlier attempt was stored although it seemed to fail.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            result => result.map(drop),
        }
    }
}

impl EventSink for KubernetesWriter {
    async fn send(&self, entry: &PendingEvent) -> Result<(), DeliveryError> {
        let events = Api::namespaced(self.client.clone(), namespace(entry));
        let sent = match entry.repeat.count {
            1 => self.create(&events, entry).await,
            _ => self.update_count(&events, entry).await,
        };
        sent.map_err(|error| DeliveryError {
            because: error.to_string(),
            is_retryable: is_retryable(&error),
        })
    }
}

fn is_retryable(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || matches!(status.code, 409 | 429),
        _ => true,
    }
}

fn namespace(entry: &PendingEvent) -> &str {
    let namespace = entry.event.regarding.namespace.as_deref();
    namespace.unwrap_or(FALLBACK_NAMESPACE)
}

fn event_type(severity: EventSeverity) -> &'static str {
    match severity {
        EventSeverity::Info => "Normal",
        EventSeverity::Error => "Warning",
    }
}

/// A series begins with the second occurrence.
fn series(count: i32, last: Timestamp) -> Option<EventSeries> {
    (count > 1).then_some(EventSeries {
        count,
        last_observed_time: MicroTime(last),
    })
}

/// Truncates to a number of bytes, at a character boundary.
fn truncate(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let ellipsis = '…';
    let end = text.floor_char_boundary(limit - ellipsis.len_utf8());
    format!("{}{ellipsis}", &text[..end])
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn refusals_are_final_and_everything_else_is_tried_again() {
        let is_retryable = |code: u16| {
            let status = Status::failure("refused", "Refused").with_code(code);
            super::is_retryable(&kube::Error::Api(Box::new(status)))
        };
        let codes = [400, 403, 404, 409, 422, 429, 499, 500, 503];
        let retryable: Vec<u16> = codes.into_iter().filter(|it| is_retryable(*it)).collect();
        assert_eq!(retryable, [409, 429, 500, 503]);
        assert!(super::is_retryable(&kube::Error::TlsRequired));
    }

    #[test]
    fn texts_are_truncated_at_a_character() {
        for (text, limit, expected) in [
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abc…"),
            ("abüdefg", 6, "ab…"),
        ] {
            assert_eq!(truncate(text, limit), expected);
        }
    }
}
