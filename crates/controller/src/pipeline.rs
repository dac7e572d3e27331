//! The pipeline loop: follows pipelines, promotions and clusters on the hub, brings the status of
//! each pipeline up to date with what its targets run, and starts and ends promotions as planned.

mod act;
mod observe;
mod report;
mod source;

use std::{collections::HashSet, sync::Arc, time::Duration};

use api::{GitopsCluster, Pipeline, pipeline::PipelineStatus};
use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Resource,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use planner::Timestamp;
use tokio::task::JoinSet;

use crate::{
    Context, Shared,
    clusters::conditions,
    loops::Failure,
    namespaces,
    promotions::{self, Change, pipeline_of},
    telemetry,
};
use runtime::{ObjectKey, worker_metrics::ReconcileResult};

/// How long a pipeline waits for which something could not be written.
const RETRY: Duration = Duration::from_secs(5);
/// How long to wait at most for what wakes the pipeline anyway once it is there.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a pipeline that is held for what its apps follow waits at most, where sources may not be
/// watched.
const SOURCES_AGAIN: Duration = Duration::from_secs(300);

/// Runs the loop as part of the process, until it is told to stop.
pub(crate) async fn serve(context: Context) -> Result<(), Failure> {
    let shared = Shared::of(&context);
    tokio::select! {
        () = run(shared) => Ok(()),
        () = context.stop.cancelled() => Ok(()),
    }
}

/// Runs the loop until dropped.
pub async fn run(shared: Arc<Shared>) {
    let _end = shared.end();
    let mut tasks = JoinSet::new();
    tasks.spawn(telemetry::count(shared.clone()));
    tasks.spawn(follow_pipelines(shared.clone()));
    tasks.spawn(follow_clusters(shared.clone()));
    tasks.spawn(namespaces::follow(shared.clone()));
    tasks.spawn(follow_promotions(shared.clone()));
    tasks.spawn(conditions::reset_unused(shared.clone()));
    for _ in 0..shared.settings.concurrent.max(1) {
        tasks.spawn(work(shared.clone()));
    }
    tasks.join_all().await;
}

async fn work(shared: Arc<Shared>) {
    loop {
        let (key, waited) = shared.queue.next().await;
        let telemetry = &shared.telemetry;
        let pass = telemetry.work.begin(waited);
        let outcome = match reconcile(&shared, &key).await {
            Next::Change => ReconcileResult::Success,
            Next::After(delay) => {
                shared.queue.add_after(key.clone(), delay);
                ReconcileResult::RequeueAfter
            }
            Next::Retry => {
                telemetry.work.retried();
                shared.queue.add_after(key.clone(), shared.jittered(RETRY));
                ReconcileResult::Error
            }
        };
        shared.queue.done(&key);
        pass.finish(outcome);
        telemetry.made_progress();
        telemetry.waits(shared.queue.depth());
    }
}

/// When a pipeline is looked at again.
enum Next {
    /// When something changes.
    Change,
    After(Duration),
    /// It failed.
    Retry,
}

/// Brings one pipeline up to date.
async fn reconcile(shared: &Arc<Shared>, key: &ObjectKey) -> Next {
    let Some(pipeline) = shared.pipelines.get(key) else {
        return Next::Change;
    };
    if pipeline.metadata.deletion_timestamp.is_some() {
        return Next::Change;
    }
    let mut wants = observe::wants(shared, &pipeline);
    wants.extend(source::want(&pipeline));
    wants.extend(observe::held_sources(shared, &pipeline));
    shared.need(key, wants, observe::selects(&pipeline));
    if !shared.promotions.are_known() {
        return Next::After(PATIENCE);
    }
    let mut seen = match observe::everything(shared, &pipeline).await {
        observe::Sight::Complete(seen) => seen,
        observe::Sight::TooEarly(wait) => return Next::After(wait),
    };
    seen.source = source::look(shared, &pipeline);
    let model = planner::fold(&pipeline, &seen, shared.clock.now());
    promote(shared, &pipeline, model).await
}

/// Plans from what is known, carries the plan out and says so.
async fn promote(shared: &Arc<Shared>, pipeline: &Pipeline, model: PipelineStatus) -> Next {
    let key = ObjectKey::of(&pipeline.metadata);
    let now = shared.clock.now();
    let promotions = shared.promotions.of(&key);
    let plan = planner::plan(pipeline, &model, &promotions, now);
    let mut steps = plan.steps.clone();
    steps.extend(planner::surplus(
        pipeline,
        &promotions,
        shared.settings.history_limit,
        now,
    ));
    let acted = act::carry_out(shared, pipeline, &promotions, &steps).await;
    let status = match acted {
        act::Outcome::Done => planner::apply(&plan, &model, now),
        act::Outcome::Stale => return Next::After(Duration::ZERO),
        // What was planned and not done is not said; what was seen is.
        act::Outcome::Failed => model,
    };
    let is_held = observe::is_held_for_source(&status);
    let written = report::write(shared, pipeline, status).await;
    let known = pipeline.status.as_ref();
    if written.is_ok() && is_held && !known.is_some_and(observe::is_held_for_source) {
        shared.wake(key.clone()); // the next pass has the sources watched
    }
    shared.telemetry.warn(pipeline, &plan.warnings);
    match (written, acted, plan.requeue_at) {
        (Err(error), ..) => {
            tracing::warn!(pipeline = %key, %error, "status not written");
            Next::Retry
        }
        (Ok(()), act::Outcome::Failed, _) => Next::Retry,
        (Ok(()), _, wake) => {
            let wake = wake.map(|wake| until(wake, shared.clock.now()));
            let again = is_held.then(|| shared.jittered(SOURCES_AGAIN));
            let next = [wake, again].into_iter().flatten().min();
            next.map_or(Next::Change, Next::After)
        }
    }
}

/// How long it is until then.
pub(crate) fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

async fn follow_promotions(shared: Arc<Shared>) {
    let namespace = shared.settings.namespace.as_deref();
    let tell = |change: Change<'_>| match change {
        Change::Kept(promotion) | Change::Gone(promotion) => {
            let pipeline = pipeline_of(promotion);
            if shared.pipelines.has(&pipeline) {
                shared.wake(pipeline);
            }
        }
        Change::AllKnown => shared.wake_all(),
    };
    promotions::feed(shared.hub.clone(), namespace, &shared.promotions, tell).await;
}

async fn follow_pipelines(shared: Arc<Shared>) {
    let api: Api<DeserializeGuard<Pipeline>> = match &shared.settings.namespace {
        Some(namespace) => Api::namespaced(shared.hub.clone(), namespace),
        None => Api::all(shared.hub.clone()),
    };
    let mut config = watcher::Config::default();
    if let Some(labels) = &shared.settings.label_selector {
        config = config.labels(labels);
    }
    let events = follow(api, config);
    let mut events = std::pin::pin!(events);
    let mut seen = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Apply(pipeline) => {
                take(&shared, pipeline);
            }
            Event::Delete(pipeline) => shared.forget_pipeline(&ObjectKey::of(pipeline.meta())),
            Event::Init => seen.clear(),
            Event::InitApply(pipeline) => {
                seen.insert(take(&shared, pipeline));
            }
            Event::InitDone => {
                let known = shared.pipelines.keys();
                for gone in known.iter().filter(|key| !seen.contains(*key)) {
                    shared.forget_pipeline(gone);
                }
            }
        }
    }
}

/// Takes up a pipeline that came or changed.
fn take(shared: &Arc<Shared>, pipeline: DeserializeGuard<Pipeline>) -> ObjectKey {
    let key = ObjectKey::of(pipeline.meta());
    match pipeline.0 {
        Ok(pipeline) => {
            if shared.pipelines.keep(pipeline) {
                shared.wake(key.clone());
            }
        }
        Err(error) => tracing::warn!(pipeline = %key, %error, "cannot be read"),
    }
    key
}

async fn follow_clusters(shared: Arc<Shared>) {
    let api: Api<DeserializeGuard<GitopsCluster>> = Api::all(shared.hub.clone());
    let events = follow(api, watcher::Config::default());
    let mut events = std::pin::pin!(events);
    let mut seen = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Apply(cluster) => take_cluster(&shared, cluster),
            Event::Delete(cluster) => forget_cluster(&shared, &ObjectKey::of(cluster.meta())),
            Event::Init => seen.clear(),
            Event::InitApply(cluster) => {
                seen.insert(ObjectKey::of(cluster.meta()));
                take_cluster(&shared, cluster);
            }
            Event::InitDone => {
                for gone in shared
                    .clusters
                    .keys()
                    .iter()
                    .filter(|key| !seen.contains(*key))
                {
                    forget_cluster(&shared, gone);
                }
                shared.clusters.set_known();
                shared.wake_all();
            }
        }
    }
}

fn take_cluster(shared: &Arc<Shared>, cluster: DeserializeGuard<GitopsCluster>) {
    let key = ObjectKey::of(cluster.meta());
    match cluster.0 {
        Ok(cluster) => {
            if shared.clusters.put(Arc::new(cluster)) {
                shared.cluster_changed(&key);
            }
        }
        Err(error) => tracing::warn!(cluster = %key, %error, "cannot be read"),
    }
}

fn forget_cluster(shared: &Arc<Shared>, key: &ObjectKey) {
    if shared.clusters.remove(key) {
        shared.cluster_changed(key);
    }
}

/// The events of a kind on the hub; interruptions are logged and got over.
pub(crate) fn follow<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = Event<K>>
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    K::DynamicType: Default,
{
    watcher::watcher(api, config)
        .default_backoff()
        .flat_map(|event| match event {
            Ok(event) => stream::iter(Some(event)),
            Err(error) => {
                tracing::warn!(%error, "watch on the hub interrupted");
                stream::iter(None)
            }
        })
}
