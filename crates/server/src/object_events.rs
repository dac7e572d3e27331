//! Reads the Kubernetes Events about a pipeline and its promotions from the hub, on request.
//!
//! Each read is bounded in time and size, and results are cached for some seconds. Callers check that the
//! viewer may list Events.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use api::{Pipeline, Time};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client, Resource,
    api::{ListParams, ObjectList},
};
use runtime::{ObjectKey, TtlCache};
use tokio::time::timeout;

use crate::leaf::{read_error_text, shortened};

/// How long events are cached.
const TTL: Duration = Duration::from_secs(5);
/// How many pipelines are cached.
const MAX_CACHED: usize = 1_000;
/// How long a read may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How many events of a kind are read. The API server deletes them after about an hour.
const MAX_READ: u32 = 500;

/// An event about one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecentEvent {
    /// The kind of the object.
    pub(crate) kind: String,
    /// The name of the object.
    pub(crate) name: String,
    pub(crate) is_warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// How often it happened.
    pub(crate) count: i32,
    pub(crate) last_seen: Option<Time>,
}

/// The events, newest first; or why they could not be read.
type EventsResult = Result<Arc<Vec<RecentEvent>>, String>;

/// Reads events.
pub(crate) struct ObjectEvents {
    client: Client,
    cache: TtlCache<ObjectKey, EventsResult>,
}

impl ObjectEvents {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            cache: TtlCache::new(TTL, MAX_CACHED),
        }
    }

    /// The events about a pipeline, and about all promotions of its namespace.
    pub(crate) async fn around(&self, pipeline: &ObjectKey) -> EventsResult {
        let lookup = async {
            let read = timeout(READ_TIMEOUT, self.read(pipeline)).await;
            match read {
                Ok(read) => read.map(Arc::new).map_err(|it| read_error_text(&it)),
                Err(_) => Err("the API server did not answer in time".to_owned()),
            }
        };
        self.cache.get_with(pipeline.clone(), lookup).await
    }

    async fn read(&self, pipeline: &ObjectKey) -> Result<Vec<RecentEvent>, kube::Error> {
        let of_pipeline = format!(
            "involvedObject.kind=Pipeline,involvedObject.name={}",
            pipeline.name
        );
        let of_promotions = "involvedObject.kind=Promotion".to_owned();
        let mut events = Vec::new();
        for fields in [of_pipeline, of_promotions] {
            let listed = self.list(&pipeline.namespace, &fields).await?;
            events.extend(listed.items.into_iter().filter_map(recent_event));
        }
        events.sort_by_key(|event| Reverse(event.last_seen.clone()));
        Ok(events)
    }

    async fn list(&self, namespace: &str, fields: &str) -> Result<ObjectList<Event>, kube::Error> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let parameters = ListParams::default().fields(fields).limit(MAX_READ);
        events.list(&parameters).await
    }
}

/// The event, if it is about an object of ours: Tekton has Pipelines too.
fn recent_event(event: Event) -> Option<RecentEvent> {
    let about = event.involved_object;
    let group = about.api_version.as_deref().unwrap_or_default();
    let group = group.split('/').next().unwrap_or_default();
    if group != Pipeline::group(&()) {
        return None;
    }
    let series = event.series.as_ref();
    let times = [
        series.and_then(|it| it.last_observed_time.as_ref().map(|it| it.0)),
        event.last_timestamp.map(|it| it.0),
        event.event_time.map(|it| it.0),
        event.metadata.creation_timestamp.map(|it| it.0),
    ];
    Some(RecentEvent {
        kind: about.kind.unwrap_or_default(),
        name: about.name.unwrap_or_default(),
        is_warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.unwrap_or_default(),
        message: shortened(&event.message.unwrap_or_default()),
        count: series.and_then(|it| it.count).or(event.count).unwrap_or(1),
        last_seen: times.into_iter().flatten().max().map(Time),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_events_about_our_kinds_are_shown_with_the_last_of_their_times() {
        let event = |api_version: &str| {
            let event = json!({
                "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
                "involvedObject": {"apiVersion": api_version, "kind": "Pipeline", "name": "shop"},
                "type": "Warning", "reason": "Held", "message": "x".repeat(400), "count": 1,
                "lastTimestamp": "2026-01-01T00:01:00Z",
                "series": {"count": 7, "lastObservedTime": "2026-01-01T00:02:00.000000Z"},
            });
            recent_event(serde_json::from_value(event).expect("an event"))
        };
        assert_eq!(event("tekton.dev/v1"), None);
        let shown = event("pipelines.weave.works/v1alpha1").expect("ours");
        assert_eq!((shown.count, shown.is_warning), (7, true));
        let seen = shown.last_seen.expect("a time").0.to_string();
        assert_eq!(seen, "2026-01-01T00:02:00Z");
        assert_eq!(shown.message.chars().count(), 301);
    }
}
