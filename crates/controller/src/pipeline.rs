//! The pipeline reconciler: keeps the status of each pipeline up to date with what its targets run, and
//! starts and ends promotions as planned.
//!
//! A pipeline is reconciled when it, one of its promotions, a cluster it refers to or an app of it
//! changes. There is no polling in between.

mod act;
mod check_runs;
mod counts;
mod freezes;
mod observe;
mod reconciler;
mod report;
mod source;

use std::{sync::Arc, time::Duration};

use api::{CheckRun, Pipeline, pipeline::PipelineStatus};
use runtime::{ObjectKey, RequeueAction};
use tokio::task::JoinSet;

use crate::{
    Context, caches::promotions_of, clusters::conditions, controllers::ControllerError, namespaces,
};
pub use reconciler::PipelineReconciler;

/// How long a pipeline waits after a failed write, with jitter.
const RETRY: Duration = Duration::from_secs(5);

/// How long a pipeline that is held because of its apps' sources waits at most, where sources may not be
/// watched.
const SOURCES_AGAIN: Duration = Duration::from_secs(300);

/// Runs the reconciler as part of the process, until it is told to stop.
pub(crate) async fn serve(context: Context) -> Result<(), ControllerError> {
    let reconciler = PipelineReconciler::of(&context);
    tokio::select! {
        biased;
        () = run(reconciler) => Ok(()),
        () = context.stop.cancelled() => Ok(()),
    }
}

/// Runs the reconciler until dropped.
pub async fn run(reconciler: Arc<PipelineReconciler>) {
    let _close = reconciler.close_connections();
    let mut tasks = JoinSet::new();
    tasks.spawn(reconciler.feed_caches());
    tasks.spawn(counts::report(reconciler.clone()));
    tasks.spawn(namespaces::watch(reconciler.clone()));
    tasks.spawn(enqueue_all_with_clusters(reconciler.clone()));
    tasks.spawn(freezes::enqueue_all_when_listed(reconciler.clone()));
    tasks.spawn(conditions::reset_unused(reconciler.clone()));
    tasks.spawn(reconcile_all(reconciler));
    tasks.join_all().await;
}

/// Pipelines that refer to clusters wait until those are listed.
async fn enqueue_all_with_clusters(reconciler: Arc<PipelineReconciler>) {
    reconciler.clusters.synced().await;
    reconciler.enqueue_all();
}

/// Reconciles every pipeline, and again whenever something about it changes.
async fn reconcile_all(reconciler: Arc<PipelineReconciler>) {
    reconciler.caches.pipelines.synced().await;
    reconciler.caches.promotions.synced().await;
    freezes::first_listed(&reconciler).await;
    check_runs::first_listed(&reconciler).await;
    let _subscriptions = reconciler.subscribe();
    let _freezes = freezes::subscribe(&reconciler);
    let _check_runs = check_runs::subscribe(&reconciler);
    reconciler.enqueue_all();
    let workers = reconciler.workers.clone();
    let reconcile = move |key: ObjectKey| {
        let reconciler = reconciler.clone();
        async move { reconcile_pipeline(&reconciler, &key).await }
    };
    workers.run(reconcile).await;
}

/// Reconciles one pipeline: observes its targets, plans, acts and reports.
async fn reconcile_pipeline(
    reconciler: &Arc<PipelineReconciler>,
    key: &ObjectKey,
) -> RequeueAction {
    let Some(pipeline) = reconciler.pipelines.get(key) else {
        return RequeueAction::AwaitChange;
    };
    if pipeline.metadata.deletion_timestamp.is_some() || freezes::are_early(reconciler) {
        return RequeueAction::AwaitChange;
    }
    let mut required = observe::required_apps(reconciler, &pipeline);
    required.extend(source::required_app(&pipeline));
    required.extend(observe::relevant_sources(reconciler, &pipeline));
    reconciler.set_required_apps(key, required, observe::selects(&pipeline));
    let mut observed = match observe::everything(reconciler, &pipeline).await {
        observe::Observation::Complete(observed) => observed,
        observe::Observation::TooEarly(wait) => return RequeueAction::After(wait),
    };
    observed.source = source::observe(reconciler, &pipeline);
    let mut model = planner::fold(&pipeline, &observed, reconciler.clock.now());
    model.freezes = freezes::covering(reconciler, &pipeline, &model);
    let runs = check_runs::of(reconciler, key);
    let model = planner::fold_checks(&pipeline, &runs, model);
    promote(reconciler, &pipeline, model, &runs).await
}

/// Plans from what was observed, carries the plan out and writes the status.
async fn promote(
    reconciler: &Arc<PipelineReconciler>,
    pipeline: &Pipeline,
    model: PipelineStatus,
    runs: &[CheckRun],
) -> RequeueAction {
    let key = ObjectKey::of(&pipeline.metadata);
    let now = reconciler.clock.now();
    let promotions = promotions_of(&reconciler.caches, &key);
    let model = planner::rebuild(pipeline, model, &promotions, now);
    let plan = planner::plan(pipeline, &model, &promotions, now);
    let mut steps = plan.steps.clone();
    steps.extend(planner::surplus(
        pipeline,
        &promotions,
        reconciler.settings.history_limit,
        now,
    ));
    let planned = planner::apply(&plan, &model, now);
    let after = (promotions.as_slice(), steps.as_slice());
    let surplus = planner::surplus_checks(pipeline, &planned, after, runs);
    steps.extend(surplus);
    let acted = act::carry_out(reconciler, pipeline, &promotions, &steps).await;
    let status = match acted {
        act::PlanResult::Done => planned,
        act::PlanResult::Stale => return RequeueAction::After(Duration::ZERO),
        // What was observed is reported; what was planned and not done is not.
        act::PlanResult::Failed => model,
    };
    let status = planner::with_desired(pipeline, status, &promotions);
    let is_held = observe::is_held_for_source(&status);
    let written = report::write(reconciler, pipeline, status).await;
    let before = pipeline.status.as_ref();
    let changes_checks = check_runs::of(reconciler, &key) != runs;
    let is_newly_held = is_held && !before.is_some_and(observe::is_held_for_source);
    if written.is_ok() && (is_newly_held || changes_checks) {
        reconciler.enqueue(key.clone()); // the next reconcile watches the sources, or folds the checks
    }
    reconciler
        .telemetry
        .record_warnings(pipeline, &plan.warnings);
    match (written, acted, plan.requeue_at) {
        (Err(error), ..) => {
            tracing::warn!(pipeline = %key, %error, "could not write the status of the pipeline");
            RequeueAction::RetryError(reconciler.jittered(RETRY))
        }
        (Ok(()), act::PlanResult::Failed, _) => {
            RequeueAction::RetryError(reconciler.jittered(RETRY))
        }
        (Ok(()), _, requeue_at) => {
            let planned = requeue_at.map(|then| reconciler.clock.until(then));
            let recheck = is_held.then(|| reconciler.jittered(SOURCES_AGAIN));
            let delay = [planned, recheck].into_iter().flatten().min();
            delay.map_or(RequeueAction::AwaitChange, RequeueAction::After)
        }
    }
}

/// How long it was from one time to another.
pub(crate) fn elapsed(from: planner::Timestamp, to: planner::Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
