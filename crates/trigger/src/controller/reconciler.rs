//! Reconciles one PipelineTrigger: observe, plan, act, report.

use std::{sync::Arc, time::Duration};

use api::PipelineTrigger;
use kube::Client;
use runtime::{
    Clock, EventRecorder, LabelFilter, LeaderGuard, ObjectCache, ObjectKey, RequeueAction,
    StatusWriter, Workers,
};

use super::{
    FIELD_MANAGER, NAME, TriggerContext, TriggerMetrics, act,
    api_call::{ApiCallError, CALL_TIMEOUT},
    dependency_cache::DependencyCache,
    observe, report,
    trigger_state::TriggerStates,
};
use crate::plan;

/// The delay of a trigger that was skipped because the lease is about to expire.
const REQUEUE_WHILE_LEASE_EXPIRES: Duration = Duration::from_millis(250);

/// Reconciles triggers during one term of leadership.
pub(super) struct TriggerReconciler {
    pub(super) client: Client,
    pub(super) metrics: TriggerMetrics,
    pub(super) events: EventRecorder,
    pub(super) status_writer: StatusWriter,
    pub(super) workers: Arc<Workers<ObjectKey>>,
    pub(super) triggers: Arc<ObjectCache<PipelineTrigger>>,
    pub(super) states: TriggerStates,
    pub(super) dependencies: Arc<DependencyCache>,
    /// Only triggers with these labels are reconciled.
    labels: Option<LabelFilter>,
    leader: LeaderGuard,
    clock: Clock,
}

/// Why a trigger could not be reconciled. Trying again may help.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReconcileError {
    #[error("cannot write the trigger's status")]
    WriteStatus(#[source] ApiCallError),
    #[error("cannot read the trigger")]
    ReadTrigger(#[source] ApiCallError),
}

impl ReconcileError {
    /// A fixed word for logs.
    fn reason(&self) -> &'static str {
        match self {
            Self::WriteStatus(ApiCallError::Timeout) | Self::ReadTrigger(ApiCallError::Timeout) => {
                "Slow"
            }
            Self::WriteStatus(_) => "StatusNotWritten",
            Self::ReadTrigger(_) => "TriggerNotRead",
        }
    }
}

impl TriggerReconciler {
    pub(super) fn new(
        context: &TriggerContext,
        labels: Option<LabelFilter>,
        leader: LeaderGuard,
        events: EventRecorder,
    ) -> Self {
        let workers = Arc::new(Workers::new(
            context.worker_metrics.clone(),
            Some(context.health.progress(NAME)),
            context.settings.concurrency,
        ));
        let client = context.client.clone();
        Self {
            status_writer: StatusWriter::new(client.clone(), leader.clone(), FIELD_MANAGER),
            client,
            metrics: context.metrics.clone(),
            events,
            triggers: context.triggers.clone(),
            states: TriggerStates::default(),
            dependencies: Arc::new(DependencyCache::new(workers.clone())),
            workers,
            labels,
            leader,
            clock: Clock::start(),
        }
    }

    /// Whether the lease is held for as long as one API call may take.
    pub(super) fn leads_for_one_call(&self) -> bool {
        self.leader.permit(CALL_TIMEOUT).is_ok()
    }

    /// Caches what the API server returned to a read or write of ours.
    pub(super) fn confirm(&self, trigger: &PipelineTrigger) {
        self.states.mark_certain(trigger);
        self.triggers.wrote(NAME, trigger.clone());
    }

    /// Forgets a trigger that was deleted or is no longer ours.
    fn remove(&self, key: &ObjectKey) {
        self.states.remove(key);
        self.dependencies.remove_references(key);
        self.workers.forget(key);
        self.metrics.remove(key);
    }

    /// The trigger, unless it was deleted or another process reconciles it.
    fn own_trigger(&self, key: &ObjectKey) -> Option<Arc<PipelineTrigger>> {
        let trigger = self.triggers.get(key)?;
        let labels = trigger.metadata.labels.as_ref();
        let is_own = |filter: &LabelFilter| filter.matches(labels);
        self.labels.as_ref().is_none_or(is_own).then_some(trigger)
    }

    /// Brings one trigger closer to what its spec asks for.
    pub(super) async fn reconcile(&self, key: &ObjectKey) -> RequeueAction {
        match self.try_reconcile(key).await {
            Ok(action) => action,
            Err(error) => {
                let reason = error.reason();
                tracing::warn!(trigger = %key, reason, ?error, "could not reconcile the trigger");
                RequeueAction::RetryError(self.states.next_backoff(key))
            }
        }
    }

    async fn try_reconcile(&self, key: &ObjectKey) -> Result<RequeueAction, ReconcileError> {
        let Some(mut trigger) = self.own_trigger(key) else {
            self.remove(key);
            return Ok(RequeueAction::AwaitChange);
        };
        // First: what changes from now on enqueues the trigger again.
        self.dependencies.set_references(&trigger);
        if trigger.metadata.deletion_timestamp.is_some() {
            return Ok(RequeueAction::AwaitChange);
        }
        if !self.leads_for_one_call() {
            return Ok(RequeueAction::After(REQUEUE_WHILE_LEASE_EXPIRES));
        }
        let Some(observed) = observe::observe(self, &trigger).await else {
            return Ok(RequeueAction::AwaitChange);
        };
        let now = self.clock.now();
        let mut plan = plan::plan(&observed.of_trigger(&trigger, now));
        // Run names depend on the status, so runs are created only from a status that is certain.
        if !plan.actions.is_empty() && !self.states.is_certain(&trigger) {
            trigger = observe::read_trigger(self, &trigger).await?;
            plan = plan::plan(&observed.of_trigger(&trigger, now));
        }
        let failures = act::carry_out(self, &trigger, &plan).await;
        if !self.leads_for_one_call() {
            return Ok(RequeueAction::After(REQUEUE_WHILE_LEASE_EXPIRES));
        }
        let observed = observed.of_trigger(&trigger, now);
        report::report(self, &observed, &plan, &failures).await?;
        if !failures.is_empty() {
            let backoff = self.states.next_backoff(key);
            return Ok(RequeueAction::RetryIncomplete(backoff));
        }
        self.states.reset_backoff(key);
        let requeue = plan.requeue_after.map(RequeueAction::After);
        Ok(requeue.unwrap_or(RequeueAction::AwaitChange))
    }
}
