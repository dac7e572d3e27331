//! What the loops of pipelines, promotions and changes tell about themselves: metrics, events, progress, and
//! whether they may act.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::Pipeline;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Context, Metrics, Shared, keys::ClusterKey, pipelines::STATES};
use runtime::{
    EventRecorder, LeaderGuard, ObjectKey, WorkerMetrics,
    events::{EventSeverity, ObjectEvent},
    health::ReconcilerProgress,
};

/// How long a write on the hub may take.
const WRITE_TIME: Duration = Duration::from_secs(2);
/// How often what is counted over everything is counted.
const COUNT_EVERY: Duration = Duration::from_secs(15);

/// Where the loop tells what it does.
pub(crate) struct Telemetry {
    pub(crate) metrics: Metrics,
    pub(crate) work: WorkerMetrics,
    events: Option<EventRecorder>,
    progress: Option<ReconcilerProgress>,
    pub(crate) leadership: LeaderGuard,
    /// When the first app event came that a pipeline's status does not show yet.
    woken: Mutex<HashMap<ObjectKey, Instant>>,
    /// When each cluster last answered.
    answered: Mutex<HashMap<ClusterKey, Instant>>,
}

impl Telemetry {
    /// For a loop that nobody listens to.
    pub(crate) fn alone(name: &'static str, workers: usize) -> Self {
        let metrics = Metrics::new();
        Self {
            work: metrics.of_controller(name, workers),
            metrics,
            events: None,
            progress: None,
            leadership: LeaderGuard::without_election(),
            woken: Mutex::default(),
            answered: Mutex::default(),
        }
    }

    /// The same for a loop that asks this before it acts.
    pub(crate) fn led_by(self, leadership: LeaderGuard) -> Self {
        Self { leadership, ..self }
    }

    /// For a loop of the process.
    pub(crate) fn of(context: &Context, name: &'static str) -> Self {
        let workers = context.settings.concurrent;
        Self {
            work: context.metrics.of_controller(name, workers),
            metrics: context.metrics.clone(),
            events: Some(context.events.clone()),
            progress: Some(context.health.progress(name)),
            leadership: context.leadership.clone(),
            ..Self::alone(name, workers)
        }
    }

    /// Whether something may be written on the hub now.
    pub(crate) fn may_write(&self) -> bool {
        self.may_act(WRITE_TIME)
    }

    /// Whether something may be done now that takes up to so long.
    pub(crate) fn may_act(&self, time: Duration) -> bool {
        self.leadership.permit(time).is_ok()
    }

    /// A pipeline waits.
    pub(crate) fn queued(&self, depth: usize) {
        self.work.queued();
        self.waits(depth);
    }

    /// So many pipelines wait.
    pub(crate) fn waits(&self, depth: usize) {
        self.work.set_depth(depth);
        if let Some(progress) = &self.progress {
            progress.set_has_work(depth > 0);
        }
    }

    /// A pass over a pipeline ended.
    pub(crate) fn made_progress(&self) {
        if let Some(progress) = &self.progress {
            progress.made_progress();
        }
    }

    /// An app of a pipeline changed.
    pub(crate) fn app_changed(&self, pipeline: &ObjectKey) {
        self.woken
            .lock()
            .entry(pipeline.clone())
            .or_insert_with(Instant::now);
    }

    /// The pipeline's status shows everything that was seen.
    pub(crate) fn shown(&self, pipeline: &ObjectKey) {
        if let Some(since) = self.woken.lock().remove(pipeline) {
            self.metrics.observe_leaf_event_to_status(since.elapsed());
        }
    }

    /// A cluster answered.
    pub(crate) fn answered(&self, cluster: &ClusterKey) {
        self.answered.lock().insert(cluster.clone(), Instant::now());
    }

    /// A cluster is no longer looked at.
    pub(crate) fn forget(&self, cluster: &ClusterKey) {
        self.answered.lock().remove(cluster);
    }

    /// Tells people what happened to a pipeline.
    pub(crate) fn tell(&self, pipeline: &Pipeline, news: Vec<planner::PipelineEvent>) {
        self.tell_about(&pipeline.object_ref(&()), "Observe", news);
    }

    /// Tells people what happened to an object.
    pub(crate) fn tell_about(
        &self,
        regarding: &ObjectReference,
        action: &str,
        news: Vec<planner::PipelineEvent>,
    ) {
        let Some(events) = &self.events else { return };
        for news in news {
            let facts = [
                ("environment", news.environment),
                ("revision", news.revision),
            ];
            events.record(ObjectEvent {
                regarding: regarding.clone(),
                severity: if news.is_warning {
                    EventSeverity::Error
                } else {
                    EventSeverity::Info
                },
                reason: news.reason,
                action: action.to_owned(),
                note: news.message,
                metadata: facts
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                    .collect(),
            });
        }
    }
}

impl Telemetry {
    /// Tells people what could not be made sense of in a pipeline.
    pub(crate) fn warn(&self, pipeline: &Pipeline, warnings: &[String]) {
        let news = warnings.iter().map(|warning| planner::PipelineEvent {
            is_warning: true,
            reason: "InvalidRequest".to_owned(),
            message: warning.clone(),
            environment: None,
            revision: None,
        });
        self.tell(pipeline, news.collect());
    }
}

/// Counts what there is, again and again.
pub(crate) async fn count(shared: Arc<Shared>) {
    let mut clock = tokio::time::interval(COUNT_EVERY);
    loop {
        clock.tick().await;
        let telemetry = &shared.telemetry;
        for (state, count) in STATES.into_iter().zip(shared.pipelines.targets()) {
            telemetry.metrics.set_targets(state, count);
        }
        for (reason, count) in shared.pipelines.holds() {
            telemetry.metrics.promotions().set_holds(reason, count);
        }
        let oldest = telemetry.answered.lock().values().min().copied();
        telemetry.metrics.set_oldest_observation(oldest);
    }
}
