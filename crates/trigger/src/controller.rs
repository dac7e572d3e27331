//! The controller of PipelineTriggers: creates Tekton PipelineRuns for the events of Flux sources.
//!
//! `watch` follows triggers, which the process caches for the server too, and watches sources, Tekton
//! Pipelines and runs, in whichever API version is served; kinds that are not installed are waited for. A change enqueues the triggers that it concerns, and
//! each is reconciled: observe, plan, act, report. [`crate::plan`] decides. A replica that does not
//! lead writes nothing.

mod act;
mod api_call;
mod dependency_cache;
mod metrics;
mod observe;
mod reconciler;
mod report;
mod trigger_state;
mod watch;

use std::{sync::Arc, time::Duration};

use api::PipelineTrigger;
use kube::Client;
use runtime::{
    EventRecorder, Health, LabelFilter, LeaderGuard, ObjectCache, WorkerMetrics,
    events::{EventMetrics, EventReporter, FluxEventFilter, FluxReceiver},
    leader::{LeaderElection, LeaseTiming},
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub use metrics::TriggerMetrics;

use reconciler::TriggerReconciler;

/// The name of the work queue in metrics, as the trigger operator's.
pub const NAME: &str = "pipelinetrigger";
/// The field manager of status writes, as the operator's.
const FIELD_MANAGER: &str = "pipelinetrigger-controller";
/// The reporting controller of Kubernetes events, as the operator's.
const REPORTER: &str = "PipelineTrigger";
/// The operator's Lease. While it is held, a replica of the operator in the same namespace does nothing.
const OPERATOR_LEASE: &str = "bb9e0b30.jquad.rocks";
/// How long the last events may take to be delivered.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// Which triggers are reconciled, and how.
#[derive(Clone, Debug, Default)]
pub struct TriggerSettings {
    /// Only triggers in this namespace; all namespaces without it.
    pub namespace: Option<String>,
    /// Only triggers with these labels; all without it.
    pub label_selector: Option<String>,
    /// How many triggers are reconciled at the same time.
    pub concurrency: usize,
    /// The election of this process, if there is one.
    pub election: Option<LeaderElection>,
    /// The address of Flux's notification-controller, and which events are sent to it.
    pub flux: Option<(String, FluxEventFilter)>,
}

/// What the controller needs from its process. Cloning shares it.
#[derive(Clone)]
pub struct TriggerContext {
    /// The client of the cluster with the triggers.
    pub client: Client,
    /// All triggers of the namespace. The process feeds it.
    pub triggers: Arc<ObjectCache<PipelineTrigger>>,
    /// Which triggers are reconciled, and how.
    pub settings: TriggerSettings,
    /// Whether this process leads.
    pub leader: LeaderGuard,
    /// Counts lost events.
    pub event_metrics: EventMetrics,
    /// The metrics of the work queue [`NAME`].
    pub worker_metrics: WorkerMetrics,
    /// The gauge of conditions.
    pub metrics: TriggerMetrics,
    /// Where progress is reported.
    pub health: Health,
    /// Cancelled when the controller is to end.
    pub stop: CancellationToken,
}

/// Runs the controller until it is told to stop.
pub async fn run(context: TriggerContext) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let labels = context.settings.label_selector.as_deref();
    let labels = labels.map(LabelFilter::parse).transpose()?;
    let (events, deliveries) = start_events(&context)?;
    let release = CancellationToken::new();
    let release_on_drop = release.clone().drop_guard();
    let (leader, election) = elect_for_operator_lease(&context, release);
    tokio::select! {
        () = context.stop.cancelled() => {}
        () = run_while_leader(&context, labels, &leader, &events) => {}
    }
    context.metrics.clear();
    drop(release_on_drop);
    if let Some(election) = election {
        election.await?;
    }
    drop(events);
    // Events are for people; losing the last ones is no failure.
    let _ = timeout(LAST_EVENTS_TIMEOUT, futures::future::join_all(deliveries)).await;
    Ok(())
}

type StartedEvents = (EventRecorder, Vec<JoinHandle<()>>);

fn start_events(
    context: &TriggerContext,
) -> Result<StartedEvents, Box<dyn std::error::Error + Send + Sync>> {
    let election = context.settings.election.as_ref();
    let instance = election.map_or(REPORTER, |election| &election.identity);
    let reporter = EventReporter {
        controller: REPORTER.to_owned(),
        instance: instance.to_owned(),
    };
    let flux = context.settings.flux.as_ref();
    let flux = flux.map(|(address, filter)| FluxReceiver { address, filter });
    let (client, metrics) = (context.client.clone(), context.event_metrics.clone());
    Ok(EventRecorder::start(client, reporter, flux, metrics)?)
}

/// Also competes for the operator's Lease, with the operator's timing, which is controller-runtime's.
/// Not for a shard: the operator has one Lease for all triggers.
fn elect_for_operator_lease(
    context: &TriggerContext,
    release: CancellationToken,
) -> (LeaderGuard, Option<JoinHandle<()>>) {
    let settings = &context.settings;
    let is_shard = settings.namespace.is_some() || settings.label_selector.is_some();
    let Some(own) = settings.election.as_ref().filter(|_| !is_shard) else {
        return (context.leader.clone(), None);
    };
    let election = LeaderElection {
        name: OPERATOR_LEASE.to_owned(),
        timing: LeaseTiming::default(),
        ..own.clone()
    };
    let client = context.client.clone();
    let (leader, election) = context.leader.elect_below(client, election, release);
    (leader, Some(election))
}

async fn run_while_leader(
    context: &TriggerContext,
    labels: Option<LabelFilter>,
    leader: &LeaderGuard,
    events: &EventRecorder,
) {
    loop {
        leader.acquired().await;
        // The previous leader may have written, so nothing in the cache is certain.
        let (leader, events) = (leader.clone(), events.clone());
        let reconciler = TriggerReconciler::new(context, labels.clone(), leader.clone(), events);
        tokio::select! {
            () = run_tasks(context, Arc::new(reconciler)) => {}
            () = leader.lost() => {}
        }
    }
}

async fn run_tasks(context: &TriggerContext, reconciler: Arc<TriggerReconciler>) {
    let mut tasks = JoinSet::new();
    watch::spawn_all(&mut tasks, context, &reconciler);
    let workers = reconciler.workers.clone();
    tasks.spawn(workers.run(move |key| {
        let reconciler = reconciler.clone();
        async move { reconciler.reconcile(&key).await }
    }));
    tasks.join_all().await;
}
