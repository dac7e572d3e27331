//! The check reconciler: measures CheckRuns and writes their verdicts.
//!
//! `planner::measure_at` says when a check run is measured and `planner::judge` what the measurement means.
//! What was measured is kept in memory: the hub is written when the verdict changes and never otherwise. After
//! a restart counting starts again, which can delay a verdict but not invent one.

pub(crate) mod http;
mod job;
mod report;

use std::{collections::HashMap, ops::Deref, sync::Arc, time::Duration};

use api::{CheckRun, Pipeline, check_run::CheckVerdict};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use planner::{Measurement, MeasurementProgress};
use runtime::{
    CacheEvent, LeaderGuard, ObjectKey, RequeueAction, Subscription, Workers, status::StatusError,
};
use tokio::task::JoinSet;

use crate::{
    Context, Settings,
    caches::PipelineShard,
    controllers::ControllerError,
    keys::seed,
    reconciler_base::{ReconcilerBase, StatusWrite, enqueue_all},
};
use http::HttpMeasurer;

/// Under this name the check reconciler writes to the caches and reads its metrics.
const NAME: &str = "check";
/// How many check runs are measured at the same time. Most of that time is spent waiting for answers.
const CONCURRENT: usize = 128;
/// How long a check run waits after a failed write.
const RETRY: Duration = Duration::from_secs(5);
/// How long a check run waits while too many others ask the same host.
const BUSY: Duration = Duration::from_secs(1);

/// Runs the reconciler until dropped.
pub async fn run(reconciler: Arc<CheckReconciler>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(reconciler.feed_caches());
    tasks.spawn(reconcile_all(reconciler));
    tasks.join_all().await;
}

/// Runs the reconciler of the process until it is told to stop.
pub(crate) async fn serve(context: Context) -> Result<(), ControllerError> {
    let reconciler = CheckReconciler::with(ReconcilerBase::of(&context));
    tokio::select! {
        biased;
        () = run(reconciler) => Ok(()),
        () = context.stop.cancelled() => Ok(()),
    }
}

/// Reconciles every check run when it is due, and when it changes.
async fn reconcile_all(reconciler: Arc<CheckReconciler>) {
    reconciler.caches.pipelines.synced().await;
    reconciler.caches.check_runs.synced().await;
    let _subscriptions = reconciler.subscribe();
    let workers = reconciler.workers.clone();
    let reconcile = move |key: ObjectKey| {
        let reconciler = reconciler.clone();
        async move { reconcile_key(&reconciler, &key).await }
    };
    workers.run(reconcile).await;
}

/// Measures check runs.
pub struct CheckReconciler {
    base: ReconcilerBase,
    pipelines: PipelineShard,
    workers: Arc<Workers<ObjectKey>>,
    http: HttpMeasurer,
    /// By uid: what was measured so far.
    progress: Mutex<HashMap<String, MeasurementProgress>>,
}

impl Deref for CheckReconciler {
    type Target = ReconcilerBase;

    fn deref(&self) -> &ReconcilerBase {
        &self.base
    }
}

impl CheckReconciler {
    /// A reconciler on its own, with caches and metrics of its own. It acts only while `leader` leads.
    pub fn new(hub: Client, settings: Settings, leader: LeaderGuard) -> Arc<Self> {
        Self::with(ReconcilerBase::alone(hub, settings, leader))
    }

    pub(crate) fn with(base: ReconcilerBase) -> Arc<Self> {
        Arc::new(Self {
            workers: base.telemetry.workers(NAME, CONCURRENT),
            pipelines: PipelineShard::new(&base.caches, base.settings.label_selector.as_deref()),
            http: HttpMeasurer::new(base.hub.clone(), &base.settings),
            progress: Mutex::default(),
            base,
        })
    }

    /// Enqueues check runs as they or their pipelines change, until the subscriptions are dropped.
    fn subscribe(self: &Arc<Self>) -> [Subscription; 2] {
        let this = self.clone();
        let pipelines = self.caches.pipelines.subscribe(NAME, move |event| {
            if let CacheEvent::Applied { key, .. } = event {
                this.enqueue_pipeline(key);
            }
        });
        let this = self.clone();
        let forget = move |run: &CheckRun| drop(this.progress.lock().remove(uid(run)));
        let runs = enqueue_all(&self.caches.check_runs, NAME, &self.workers, forget);
        [pipelines, runs]
    }

    /// Whether a check that has passed is measured on can change with its pipeline.
    fn enqueue_pipeline(&self, pipeline: &ObjectKey) {
        for run in self.caches.check_runs.children(pipeline) {
            if run.spec.check.interval.is_some() {
                self.workers.enqueue(ObjectKey::of(&run.metadata));
            }
        }
    }

    /// A check run that a pipeline of this process created, and that pipeline; others are nobody's.
    fn own(&self, key: &ObjectKey) -> Option<(Arc<CheckRun>, Arc<Pipeline>)> {
        let run = self.caches.check_runs.get(key)?;
        let pipeline = ObjectKey::new(&key.namespace, &run.spec.pipeline);
        let pipeline = self.pipelines.get(&pipeline)?;
        let is_owner = |uid: &str| pipeline.metadata.uid.as_deref() == Some(uid);
        let is_owned = run.owner_references().iter().any(|it| is_owner(&it.uid));
        let is_named = key.name == api::names::check_run_name(&run.spec);
        let is_own = is_owned && is_named && run.metadata.deletion_timestamp.is_none();
        is_own.then_some((run, pipeline))
    }

    fn progress_of(&self, run: &CheckRun) -> MeasurementProgress {
        let mut progress = self.progress.lock();
        let entry = progress.entry(uid(run).to_owned());
        let now = self.clock.now();
        entry
            .or_insert_with(|| MeasurementProgress::new(now))
            .clone()
    }
}

async fn reconcile_key(reconciler: &CheckReconciler, key: &ObjectKey) -> RequeueAction {
    let Some((run, pipeline)) = reconciler.own(key) else {
        return RequeueAction::AwaitChange;
    };
    // The pipeline's next change can let a check that has passed be measured again.
    let now = reconciler.clock.now();
    if has_passed(&run) && !planner::measures_on(&pipeline, &run, now) {
        return RequeueAction::AwaitChange;
    }
    let mut progress = reconciler.progress_of(&run);
    let Some(due) = planner::measure_at(&run, &progress, seed(&run.metadata)) else {
        return RequeueAction::AwaitChange;
    };
    if due > now {
        return RequeueAction::After(reconciler.clock.until(due));
    }
    let Some((measurement, job)) = measure(reconciler, &run).await else {
        return RequeueAction::After(BUSY);
    };
    let mut status = planner::judge(&run, &mut progress, measurement, reconciler.clock.now());
    status.job = job.or(status.job);
    if let Some(entry) = reconciler.progress.lock().get_mut(uid(&run)) {
        *entry = progress.clone();
    }
    match report::write(reconciler, &run, status).await {
        Ok(StatusWrite::Written | StatusWrite::Outdated) => RequeueAction::After(Duration::ZERO),
        Ok(StatusWrite::Unchanged) => {
            match planner::measure_at(&run, &progress, seed(&run.metadata)) {
                Some(due) => RequeueAction::After(reconciler.clock.until(due)),
                None => RequeueAction::AwaitChange,
            }
        }
        Err(StatusError::NotLeading) => RequeueAction::RetryIncomplete(RETRY),
        Err(error) => {
            tracing::warn!(check_run = %key, %error, "could not write the verdict of a check run");
            RequeueAction::RetryError(RETRY)
        }
    }
}

/// One measurement, and the Job that it was read from; nothing if it has to wait for others.
async fn measure(
    reconciler: &CheckReconciler,
    run: &CheckRun,
) -> Option<(Measurement, Option<String>)> {
    let check = &run.spec.check;
    if let Some(problem) = planner::check_problem(check) {
        let measurement = unknown("InvalidCheck", problem, true);
        return Some((measurement, None));
    }
    if let Some(job) = &check.job {
        return Some(job::measure(reconciler, run, job).await);
    }
    if check.external.is_some() {
        return Some((reported(run), None));
    }
    Some((reconciler.http.measure(run).await?, None))
}

/// What was reported about an `external` check.
fn reported(run: &CheckRun) -> Measurement {
    let Some(result) = &run.spec.result else {
        return Measurement::Pending;
    };
    let message = result.message.clone();
    match result.passed {
        true => Measurement::Passed { observed: message },
        false => Measurement::Failed {
            reason: "ReportedFailed".to_owned(),
            message: message.unwrap_or_else(|| "reported as failed".to_owned()),
            observed: None,
        },
    }
}

/// A measurement without a result.
fn unknown(reason: &str, message: impl Into<String>, needs_edit: bool) -> Measurement {
    Measurement::Unknown {
        reason: reason.to_owned(),
        message: message.into(),
        needs_edit,
    }
}

fn has_passed(run: &CheckRun) -> bool {
    let status = run.status.as_ref();
    status.is_some_and(|status| status.verdict == CheckVerdict::Passed)
}

fn uid(run: &CheckRun) -> &str {
    run.metadata.uid.as_deref().unwrap_or_default()
}
