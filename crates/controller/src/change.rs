//! The change reconciler: proposes each Change as a pull request in the one repository that is configured
//! for that, follows it to its end, and deletes Changes that ended long ago.
//!
//! `planner::change` decides what comes next; `strategy` carries it out.

mod observe;
mod report;

use std::{ops::Deref, sync::Arc, time::Duration};

use api::{
    Change,
    change::{ChangePhase, ChangeStatus},
};
use kube::Client;
use runtime::{LeaderGuard, ObjectKey, RequeueAction, Subscription, Workers, status::StatusError};
use tokio::task::JoinSet;

use crate::{
    Settings,
    failure_dependencies::FailureDependencies,
    keys::seed,
    reconcile::Reconciled,
    reconciler_base::{ReconcilerBase, enqueue_all},
    strategy::{self, Strategies},
};
use observe::ChangeObservation;

/// Under this name the change reconciler writes to the caches and reads its metrics.
const NAME: &str = "change";
/// How long a Change waits after a failed write.
const RETRY: Duration = Duration::from_secs(5);

/// Runs the reconciler until dropped.
pub async fn run(reconciler: Arc<ChangeReconciler>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(reconciler.feed_caches());
    tasks.spawn(reconcile_all(reconciler));
    tasks.join_all().await;
}

/// Reconciles every Change, and again whenever it changes.
async fn reconcile_all(reconciler: Arc<ChangeReconciler>) {
    reconciler.caches.changes.synced().await;
    let _subscription = reconciler.subscribe();
    let workers = reconciler.workers.clone();
    let reconcile = move |key: ObjectKey| {
        let reconciler = reconciler.clone();
        async move { reconcile_key(&reconciler, &key).await }
    };
    workers.run(reconcile).await;
}

/// Proposes Changes.
pub struct ChangeReconciler {
    base: ReconcilerBase,
    workers: Arc<Workers<ObjectKey>>,
    strategies: Arc<Strategies>,
    failure_dependencies: FailureDependencies,
}

impl Deref for ChangeReconciler {
    type Target = ReconcilerBase;

    fn deref(&self) -> &ReconcilerBase {
        &self.base
    }
}

impl ChangeReconciler {
    /// A reconciler on its own, with caches and metrics of its own. It acts only while `leader` leads.
    pub fn new(
        hub: Client,
        settings: Settings,
        leader: LeaderGuard,
    ) -> Result<Arc<Self>, strategy::Error> {
        let base = ReconcilerBase::alone(hub, settings, leader);
        let strategies = base.strategies()?;
        Ok(Self::with(base, strategies))
    }

    pub(crate) fn with(base: ReconcilerBase, strategies: Arc<Strategies>) -> Arc<Self> {
        Arc::new(Self {
            workers: base.telemetry.workers(NAME, base.settings.concurrent),
            strategies,
            failure_dependencies: FailureDependencies::default(),
            base,
        })
    }

    fn subscribe(self: &Arc<Self>) -> Subscription {
        let this = self.clone();
        let forget = move |change: &Change| this.failure_dependencies.forget(uid(change));
        enqueue_all(&self.caches.changes, NAME, &self.workers, forget)
    }
}

async fn reconcile_key(reconciler: &ChangeReconciler, key: &ObjectKey) -> RequeueAction {
    let Some(change) = reconciler.caches.changes.get(key) else {
        return RequeueAction::AwaitChange;
    };
    let reconciled = async {
        let reconciled = reconcile_change(reconciler, &change).await?;
        if matches!(reconciled, Reconciled::Unchanged { .. }) {
            report::delete_surplus(reconciler, &key.namespace).await?;
        }
        Ok::<_, StatusError>(reconciled)
    };
    match reconciled.await {
        Ok(Reconciled::Changed) => RequeueAction::After(Duration::ZERO),
        Ok(Reconciled::Unchanged { again: None }) => RequeueAction::AwaitChange,
        Ok(Reconciled::Unchanged { again: Some(again) }) => {
            RequeueAction::After(reconciler.clock.until(again))
        }
        Err(error) => {
            tracing::warn!(change = %key, %error, "could not reconcile the Change");
            RequeueAction::RetryError(RETRY)
        }
    }
}

/// Reconciles one Change: observes, plans, proposes and reports.
async fn reconcile_change(
    reconciler: &ChangeReconciler,
    change: &Change,
) -> Result<Reconciled, StatusError> {
    let observation = observe::everything(reconciler, change).await;
    let now = reconciler.clock.now();
    let next = planner::change::plan(change, observation.refused.as_ref(), &observation.seen, now);
    let again = [next.requeue_at, observation.latest]
        .into_iter()
        .flatten()
        .min();
    let (before, seed) = (next.status, seed(&change.metadata));
    let status = match &observation.failure {
        Some(failure) => {
            planner::change::status_after_failed_lookup(change, before, failure, now, seed)
        }
        None if next.propose => {
            let outcome = reconciler.strategies.propose_change(change).await;
            planner::change::conclude(change, before, outcome, reconciler.clock.now(), seed)
        }
        None => before,
    };
    record_dependencies(reconciler, change, &observation, &status);
    report::write(reconciler, change, status, again).await
}

/// Records which dependencies an edit would have to change, as they were before they were used.
fn record_dependencies(
    reconciler: &ChangeReconciler,
    change: &Change,
    observation: &ChangeObservation,
    status: &ChangeStatus,
) {
    if let Some(dependencies) = observation.dependencies.clone() {
        let waits = status.phase == Some(ChangePhase::Failed);
        let dependencies = waits.then_some(dependencies);
        reconciler
            .failure_dependencies
            .record(uid(change), dependencies);
    }
}

fn uid(change: &Change) -> &str {
    change.metadata.uid.as_deref().unwrap_or_default()
}
