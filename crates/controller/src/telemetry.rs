//! Metrics, events, health and the leader guard of a reconciler.

use std::{collections::HashMap, fmt::Debug, hash::Hash, sync::Arc};

use api::Pipeline;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use parking_lot::Mutex;
use runtime::{
    EventRecorder, Health, LeaderGuard, ObjectKey, Workers,
    events::{EventSeverity, ObjectEvent},
};
use tokio::time::Instant;

use crate::{Context, Metrics, keys::ClusterKey};

/// Where a reconciler reports what it does.
pub(crate) struct Telemetry {
    pub(crate) metrics: Metrics,
    events: Option<EventRecorder>,
    /// Where people reach the dashboard.
    dashboard: Option<String>,
    health: Option<Health>,
    pub(crate) leader: LeaderGuard,
    /// When the first app event came that a pipeline's status does not show yet.
    unreported_since: Mutex<HashMap<ObjectKey, Instant>>,
    /// When each cluster last answered.
    answered: Mutex<HashMap<ClusterKey, Instant>>,
}

impl Telemetry {
    /// Metrics of its own, without events and health.
    pub(crate) fn alone() -> Self {
        Self {
            metrics: Metrics::new(),
            events: None,
            dashboard: None,
            health: None,
            leader: LeaderGuard::without_election(),
            unreported_since: Mutex::default(),
            answered: Mutex::default(),
        }
    }

    /// The same, as the leader by this guard only.
    pub(crate) fn led_by(self, leader: LeaderGuard) -> Self {
        Self { leader, ..self }
    }

    /// The metrics, events and health of the process.
    pub(crate) fn of(context: &Context) -> Self {
        Self {
            metrics: context.metrics.clone(),
            events: Some(context.events.clone()),
            dashboard: context.settings.dashboard_url.clone(),
            health: Some(context.health.clone()),
            leader: context.leader.clone(),
            ..Self::alone()
        }
    }

    /// A work queue and workers that report under this name.
    pub(crate) fn workers<K>(&self, name: &'static str, concurrency: usize) -> Arc<Workers<K>>
    where
        K: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static,
    {
        let metrics = self.metrics.of_controller(name, concurrency);
        let progress = self.health.as_ref().map(|health| health.progress(name));
        Arc::new(Workers::new(metrics, progress, concurrency))
    }

    /// An app of a pipeline changed.
    pub(crate) fn app_changed(&self, pipeline: &ObjectKey) {
        self.unreported_since
            .lock()
            .entry(pipeline.clone())
            .or_insert_with(Instant::now);
    }

    /// The pipeline's status shows everything that was observed.
    pub(crate) fn status_is_current(&self, pipeline: &ObjectKey) {
        if let Some(since) = self.unreported_since.lock().remove(pipeline) {
            self.metrics.observe_leaf_event_to_status(since.elapsed());
        }
    }

    /// A cluster answered.
    pub(crate) fn answered(&self, cluster: &ClusterKey) {
        self.answered.lock().insert(cluster.clone(), Instant::now());
    }

    /// A cluster is no longer watched.
    pub(crate) fn forget(&self, cluster: &ClusterKey) {
        self.answered.lock().remove(cluster);
    }

    /// Updates the metric of the cluster that has not answered for longest.
    pub(crate) fn report_oldest_observation(&self) {
        let oldest = self.answered.lock().values().min().copied();
        self.metrics.set_oldest_observation(oldest);
    }

    /// Records events about a pipeline.
    pub(crate) fn record(&self, pipeline: &Pipeline, events: Vec<planner::PipelineEvent>) {
        self.record_about(&pipeline.object_ref(&()), "Observe", events);
    }

    /// The page of a pipeline, where people also approve.
    fn page_of(&self, regarding: &ObjectReference) -> Option<String> {
        let home = self.dashboard.as_deref()?.trim_end_matches('/');
        let is_pipeline = regarding.kind.as_deref() == Some("Pipeline");
        let namespace = regarding.namespace.as_deref().filter(|_| is_pipeline)?;
        let name = regarding.name.as_deref()?;
        Some(format!("{home}/pipelines/{namespace}/{name}"))
    }

    /// Records events about an object.
    pub(crate) fn record_about(
        &self,
        regarding: &ObjectReference,
        action: &str,
        events: Vec<planner::PipelineEvent>,
    ) {
        let Some(recorder) = &self.events else {
            return;
        };
        for event in events {
            let values = [
                ("environment", event.environment),
                ("revision", event.revision),
                ("link", self.page_of(regarding)),
            ];
            recorder.record(ObjectEvent {
                regarding: regarding.clone(),
                severity: if event.is_warning {
                    EventSeverity::Error
                } else {
                    EventSeverity::Info
                },
                reason: event.reason,
                action: action.to_owned(),
                note: event.message,
                metadata: values
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                    .collect(),
            });
        }
    }
}

impl Telemetry {
    /// Records events about requests of a pipeline that cannot be understood.
    pub(crate) fn record_warnings(&self, pipeline: &Pipeline, warnings: &[String]) {
        let events = warnings.iter().map(|warning| planner::PipelineEvent {
            is_warning: true,
            reason: "InvalidRequest".to_owned(),
            message: warning.clone(),
            environment: None,
            revision: None,
        });
        self.record(pipeline, events.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_about_pipelines_link_to_their_page() {
        let telemetry = Telemetry {
            dashboard: Some("https://sluice.example.com/".to_owned()),
            ..Telemetry::alone()
        };
        let about = |kind: &str| ObjectReference {
            kind: Some(kind.to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some("app".to_owned()),
            ..ObjectReference::default()
        };
        let page = "https://sluice.example.com/pipelines/shop/app";
        assert_eq!(telemetry.page_of(&about("Pipeline")).as_deref(), Some(page));
        assert_eq!(telemetry.page_of(&about("Change")), None);
        assert_eq!(Telemetry::alone().page_of(&about("Pipeline")), None);
    }
}
