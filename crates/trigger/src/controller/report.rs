//! Reports how a plan was carried out: one status write of what differs, the gauge and the events.

use std::collections::BTreeMap;

use api::{PipelineTrigger, trigger::PipelineTriggerStatus};
use kube::Resource;
use runtime::{
    ObjectKey,
    events::{EventSeverity, ObjectEvent},
    status::StatusPatch,
};

use super::{
    api_call::with_timeout,
    reconciler::{ReconcileError, TriggerReconciler},
};
use crate::plan::{
    CreateFailures, KubernetesEvent, ObservedTrigger, TriggerPlan, condition_samples,
    kubernetes_events, status,
};

/// Writes the status, updates the gauge and records the events.
pub(super) async fn report(
    reconciler: &TriggerReconciler,
    observed: &ObservedTrigger<'_>,
    plan: &TriggerPlan,
    failures: &CreateFailures,
) -> Result<(), ReconcileError> {
    let trigger = observed.trigger;
    let status = status(observed, plan, failures);
    let source = &trigger.spec.source;
    let samples = condition_samples(&status, &source.name);
    let key = ObjectKey::of(&trigger.metadata);
    reconciler.metrics.set(&key, source.kind, &samples);
    // Recorded before the status is written, so that a crash repeats events instead of losing them.
    for event in kubernetes_events(observed, plan, failures, &status) {
        record(reconciler, trigger, event);
    }
    write_status(reconciler, trigger, &status).await
}

async fn write_status(
    reconciler: &TriggerReconciler,
    trigger: &PipelineTrigger,
    status: &PipelineTriggerStatus,
) -> Result<(), ReconcileError> {
    let patch = reconciler
        .status_writer
        .patch(trigger, trigger.status.as_ref(), status);
    match with_timeout(patch).await {
        Ok(StatusPatch::Unchanged | StatusPatch::NotFound) => {}
        Ok(StatusPatch::Patched(trigger)) => reconciler.confirm(&trigger),
        Ok(StatusPatch::Conflict(newest)) => {
            // Somebody else wrote: plan again from the newest state.
            reconciler.confirm(&newest);
            reconciler.workers.enqueue(ObjectKey::of(&newest.metadata));
        }
        Err(error) => {
            let key = ObjectKey::of(&trigger.metadata);
            reconciler.states.mark_uncertain(&key);
            return Err(ReconcileError::WriteStatus(error));
        }
    }
    Ok(())
}

fn record(reconciler: &TriggerReconciler, trigger: &PipelineTrigger, event: KubernetesEvent) {
    reconciler.events.record(ObjectEvent {
        regarding: trigger.object_ref(&()),
        severity: match event.is_warning {
            true => EventSeverity::Error,
            false => EventSeverity::Info,
        },
        reason: event.reason.to_owned(),
        action: "Reconcile".to_owned(),
        note: event.note,
        metadata: BTreeMap::new(),
    });
}
