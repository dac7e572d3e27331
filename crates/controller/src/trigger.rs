//! The trigger loop: Flux sources start Tekton runs.
//!
//! `watch` follows the kinds that are served and keeps `world` up to date; every change wakes the
//! triggers it concerns, and each is reconciled: observe, plan, act, report. Kinds that are not
//! installed are looked for until they are. Nothing is written while not leading. What decides is
//! in the crate `trigger`; nothing is decided here.

mod act;
mod metrics;
mod observe;
mod report;
mod shared;
mod watch;
mod work;
mod world;

use std::{sync::Arc, time::Duration};

use api::PipelineTrigger;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{Context, loops::Failure};
use runtime::{
    EventRecorder, LeaderGuard, ObjectKey,
    events::EventReporter,
    leader::{LeaderElection, LeaseTiming},
    worker_metrics::ReconcileResult,
};

pub use metrics::Metrics;

use shared::Shared;

/// The name that status is written and events are published under, as by the operator.
const FIELD_MANAGER: &str = "pipelinetrigger-controller";
const REPORTER: &str = "PipelineTrigger";
/// The Lease of the operator. Holding it keeps a replica of the operator in our namespace still.
const OPERATOR_LEASE: &str = "bb9e0b30.jquad.rocks";
/// No single call takes longer, so that none outlives the margin of a lease.
const CALL_LIMIT: Duration = Duration::from_secs(5);
/// How long a trigger waits that was left alone because the lease is about to run out.
const LEFT_ALONE: Duration = Duration::from_millis(250);

/// How long the last events may take.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// We could not do our job; trying again may help.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write the trigger's status")]
    Report(#[source] kube::Error),
    #[error("cannot read the trigger")]
    Observe(#[source] kube::Error),
    #[error("the API server did not answer in time")]
    Slow,
}

impl Error {
    /// A fixed word for logs.
    fn reason(&self) -> &'static str {
        match self {
            Self::Report(kube::Error::Api(status)) if status.is_conflict() => "Conflict",
            Self::Report(_) => "StatusNotWritten",
            Self::Observe(_) => "TriggerNotRead",
            Self::Slow => "Slow",
        }
    }
}

/// Runs the loop as part of the process, until it is told to stop.
pub async fn serve(context: Context) -> Result<(), Failure> {
    let reporter = EventReporter {
        controller: REPORTER.to_owned(),
        instance: instance(&context),
    };
    let flux = context.settings.flux();
    let (client, metrics) = (context.client.clone(), context.metrics.events().clone());
    let (events, deliveries) = EventRecorder::start(client, reporter, flux, metrics)?;
    let release = CancellationToken::new();
    let guard = release.clone().drop_guard();
    let (leadership, campaign) = below_the_operator(&context, release);
    tokio::select! {
        () = context.stop.cancelled() => {}
        () = lead_again_and_again(&context, &leadership, &events) => {}
    }
    context.metrics.triggers().clear();
    drop(guard);
    if let Some(campaign) = campaign {
        campaign.await?;
    }
    drop(events);
    // Events are for people; losing the last ones is no failure.
    let _ = timeout(LAST_EVENTS, futures::future::join_all(deliveries)).await;
    Ok(())
}

fn instance(context: &Context) -> String {
    let election = context.settings.election.as_ref();
    election.map_or(REPORTER.to_owned(), |election| election.identity.clone())
}

/// Also runs for the operator's Lease, on its terms, which are controller-runtime's. Not where the work is shared by several
/// processes: the operator has one Lease for all triggers.
fn below_the_operator(
    context: &Context,
    release: CancellationToken,
) -> (LeaderGuard, Option<JoinHandle<()>>) {
    let settings = &context.settings;
    let is_shared = settings.namespace.is_some() || settings.label_selector.is_some();
    let Some(own) = settings.election.as_ref().filter(|_| !is_shared) else {
        return (context.leadership.clone(), None);
    };
    let election = LeaderElection {
        name: OPERATOR_LEASE.to_owned(),
        timing: LeaseTiming::default(),
        ..own.clone()
    };
    let client = context.client.clone();
    let above = &context.leadership;
    let (leadership, campaign) = above.elect_below(client, election, release);
    (leadership, Some(campaign))
}

async fn lead_again_and_again(context: &Context, leadership: &LeaderGuard, events: &EventRecorder) {
    loop {
        leadership.acquired().await;
        // Whoever led before has written meanwhile: nothing is remembered.
        let shared = Shared::new(context, leadership.clone(), events.clone());
        tokio::select! {
            () = run(shared) => {}
            () = leadership.lost() => {}
        }
    }
}

async fn run(shared: Arc<Shared>) {
    let mut tasks = JoinSet::new();
    watch::spawn_all(&mut tasks, &shared);
    for _ in 0..shared.settings.concurrent.max(1) {
        tasks.spawn(work(shared.clone()));
    }
    tasks.join_all().await;
}

async fn work(shared: Arc<Shared>) {
    loop {
        let (key, pass) = shared.work.next().await;
        let outcome = match reconcile(&shared, &key).await {
            Ok(Next::Change) => ReconcileResult::Success,
            Ok(Next::After(wait)) => {
                shared.work.add_after(&key, wait);
                ReconcileResult::RequeueAfter
            }
            Ok(Next::Retry) => {
                shared.work.retry(&key, shared.next_wait(&key));
                ReconcileResult::RequeueAfter
            }
            Err(error) => {
                tracing::warn!(trigger = %key, reason = error.reason(), error = ?error, "not reconciled");
                shared.work.retry(&key, shared.next_wait(&key));
                ReconcileResult::Error
            }
        };
        shared.work.finish(&key, pass, outcome);
    }
}

/// When a trigger is looked at again.
enum Next {
    /// When something changes.
    Change,
    After(Duration),
    /// Something could not be started.
    Retry,
}

/// Brings one trigger a step closer to what its spec asks for.
async fn reconcile(shared: &Shared, key: &ObjectKey) -> Result<Next, Error> {
    let Some(mut trigger) = shared.trigger(key) else {
        return Ok(Next::Change);
    };
    if trigger.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Change);
    }
    if !shared.may_act() {
        return Ok(Next::After(LEFT_ALONE));
    }
    let Some(observed) = observe::everything(shared, &trigger).await else {
        return Ok(Next::Change);
    };
    let now = shared.clock.now();
    let mut plan = ::trigger::plan::plan(&observed.seen(&trigger, now));
    // ObservedRun names follow from the status, so runs are started only from one that is certain.
    if !plan.actions.is_empty() && !shared.is_certain(&trigger) {
        trigger = observe::again(shared, &trigger).await?;
        plan = ::trigger::plan::plan(&observed.seen(&trigger, now));
    }
    let outcome = act::carry_out(shared, &trigger, &plan).await;
    if !shared.may_act() {
        return Ok(Next::After(LEFT_ALONE));
    }
    report::everything(shared, &observed.seen(&trigger, now), &plan, &outcome).await?;
    if !outcome.is_empty() {
        return Ok(Next::Retry);
    }
    shared.succeeded(key);
    Ok(plan.requeue_after.map_or(Next::Change, Next::After))
}

/// Resource versions are numbers on every server there is; one that is not counts as the newest.
fn version(trigger: &PipelineTrigger) -> u64 {
    let version = trigger.metadata.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(u64::MAX)
}
