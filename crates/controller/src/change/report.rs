//! Writes a Change's status as one merge patch, or nothing when nothing changed; records events; and
//! deletes Changes that ended long ago.

use api::{
    Change,
    change::{ChangePhase, ChangeStatus},
    conditions::{self, READY},
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use planner::{PipelineEvent, Timestamp};

use super::{ChangeReconciler, NAME};
use crate::{reconcile::Reconciled, reconciler_base::StatusWrite};
use runtime::{ObjectKey, status::StatusError};

/// Writes the status if it differs from the one that was read.
pub(super) async fn write(
    reconciler: &ChangeReconciler,
    change: &Change,
    status: ChangeStatus,
    again: Option<Timestamp>,
) -> Result<Reconciled, StatusError> {
    let cache = &reconciler.caches.changes;
    match reconciler
        .write_status(cache, NAME, change, &status)
        .await?
    {
        StatusWrite::Unchanged => return Ok(Reconciled::Unchanged { again }),
        StatusWrite::Written => record_phase(reconciler, change, &status),
        StatusWrite::Outdated => {}
    }
    Ok(Reconciled::Changed)
}

/// Records an event when a Change enters another phase or fails for another reason.
fn record_phase(reconciler: &ChangeReconciler, change: &Change, status: &ChangeStatus) {
    let reason = |status: &ChangeStatus| {
        let ready = conditions::find(&status.conditions, READY);
        ready.map(|ready| ready.reason.clone())
    };
    let before = change.status.clone().unwrap_or_default();
    let is_same = before.phase == status.phase && reason(&before) == reason(status);
    let Some(phase) = status.phase.filter(|_| !is_same) else {
        return;
    };
    let message = status.message.as_deref().unwrap_or_default();
    let (key, url) = (ObjectKey::of(&change.metadata), &status.url);
    tracing::info!(change = %key, phase = ?phase, url, message, "the Change changed its phase or reason");
    let url = url.as_ref().map(|url| format!(" {url}"));
    let event = PipelineEvent {
        is_warning: phase == ChangePhase::Failed || status.next_attempt.is_some(),
        reason: reason(status).unwrap_or(format!("{phase:?}")),
        message: format!("{message}{}", url.unwrap_or_default()),
        environment: None,
        revision: None,
    };
    let telemetry = &reconciler.telemetry;
    telemetry.record_about(&change.object_ref(&()), "Propose", vec![event]);
}

/// Deletes the Changes of a namespace that need not be kept.
pub(super) async fn delete_surplus(
    reconciler: &ChangeReconciler,
    namespace: &str,
) -> Result<(), StatusError> {
    let mut all = reconciler.caches.changes.all();
    all.retain(|change| change.metadata.namespace.as_deref() == Some(namespace));
    let all: Vec<&Change> = all.iter().map(|change| &**change).collect();
    let limit = reconciler.settings.history_limit;
    for change in planner::change::surplus(&all, limit, reconciler.clock.now()) {
        if !reconciler.telemetry.leader.may_write() {
            return Err(StatusError::NotLeading);
        }
        let key = ObjectKey::of(&change.metadata);
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: change.resource_version(),
                ..Preconditions::default()
            }),
            ..DeleteParams::default()
        };
        tracing::info!(change = %key, "deleting a Change that ended long ago");
        let cache = &reconciler.caches.changes;
        reconciler.delete(cache, change, parameters).await?;
    }
    Ok(())
}
