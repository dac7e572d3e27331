//! Writes a change's status: one merge patch of what differs, nothing when nothing does; tells people
//! about it; and removes changes that have been over for long.

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

use super::Author;
use crate::reconcile::Reconciled;
use runtime::{
    ObjectKey,
    status::{StatusError, StatusPatch},
};

/// Writes the status if it differs from the one that was read.
pub(super) async fn write(
    author: &Author,
    change: &Change,
    status: ChangeStatus,
    again: Option<Timestamp>,
) -> Result<Reconciled, StatusError> {
    let (before, key) = (change.status.as_ref(), ObjectKey::of(&change.metadata));
    let written = author.status.patch(change, before, &status);
    match written.await? {
        StatusPatch::Unchanged => return Ok(Reconciled::Unchanged { again }),
        StatusPatch::Patched(written) => {
            tell(author, change, &status);
            author.keep(written);
        }
        StatusPatch::Conflict(newest) => author.keep(newest),
        StatusPatch::NotFound => author.forget(&key),
    }
    Ok(Reconciled::Changed)
}

/// Tells that a change got into another phase, or failed for another reason.
fn tell(author: &Author, change: &Change, status: &ChangeStatus) {
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
    tracing::info!(change = %key, phase = ?phase, url, message, "change");
    let url = url.as_ref().map(|url| format!(" {url}"));
    let news = PipelineEvent {
        is_warning: phase == ChangePhase::Failed || status.next_attempt.is_some(),
        reason: reason(status).unwrap_or(format!("{phase:?}")),
        message: format!("{message}{}", url.unwrap_or_default()),
        environment: None,
        revision: None,
    };
    let telemetry = &author.telemetry;
    telemetry.tell_about(&change.object_ref(&()), "Propose", vec![news]);
}

/// Removes the changes of a namespace that need not be kept.
pub(super) async fn remove_surplus(author: &Author, namespace: &str) -> Result<(), StatusError> {
    let all = author.changes.of(namespace);
    let all: Vec<&Change> = all.iter().map(|change| &**change).collect();
    let limit = author.settings.history_limit;
    for change in planner::change::surplus(&all, limit, author.clock.now()) {
        if !author.telemetry.may_write() {
            return Err(StatusError::NotLeading);
        }
        let key = ObjectKey::of(&change.metadata);
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: change.uid(),
                resource_version: change.resource_version(),
            }),
            ..DeleteParams::default()
        };
        match author.api(namespace).delete(&key.name, &parameters).await {
            Ok(_) => {
                tracing::info!(change = %key, "change removed: it has been over for long");
                author.forget(&key);
            }
            Err(kube::Error::Api(refusal)) if refusal.code == 404 => author.forget(&key),
            // It is not what it was; whatever it is now comes by the watch.
            Err(kube::Error::Api(refusal)) if refusal.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
