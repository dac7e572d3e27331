//! Writes a change's status: one merge patch of what differs, nothing when nothing does; tells people
//! about it; and removes changes that have been over for long.

use api::{
    Change,
    change::{ChangePhase, ChangeStatus},
    conditions::{self, READY},
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use planner::{News, Timestamp};
use serde_json::json;

use super::Author;
use crate::{FIELD_MANAGER, difference, keys::ObjectKey};

/// Whether something was written.
pub(super) enum Written {
    /// There is a new state to look at.
    Changed,
    /// Nothing differs.
    Same {
        /// When to look again even if nothing happens.
        again: Option<Timestamp>,
    },
}

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The lease has too little time left.
    #[error("this process may not be leading any more")]
    NotLeading,
    /// The API server did not take it.
    #[error("cannot write to the hub: {0}")]
    Hub(#[from] kube::Error),
}

/// Writes the status if it differs from the one that was read.
pub(super) async fn write(
    author: &Author,
    change: &Change,
    status: ChangeStatus,
    again: Option<Timestamp>,
) -> Result<Written, Error> {
    let before = json!(change.status.clone().unwrap_or_default());
    let Some(patch) = difference::merge_patch(&before, &json!(status)) else {
        return Ok(Written::Same { again });
    };
    if !author.telemetry.may_write() {
        return Err(Error::NotLeading);
    }
    let key = ObjectKey::of(&change.metadata);
    let api = author.api(&key.namespace);
    let body = json!({
        "metadata": {"resourceVersion": change.metadata.resource_version},
        "status": patch,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER);
    match api
        .patch_status(&key.name, &parameters, &Patch::Merge(&body))
        .await
    {
        Ok(written) => {
            tell(author, change, &status);
            author.keep(written);
        }
        Err(kube::Error::Api(refusal)) if refusal.code == 404 => author.forget(&key),
        Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
            // Somebody else wrote: look at the newest state and decide again.
            match api.get_opt(&key.name).await? {
                Some(newest) => author.keep(newest),
                None => author.forget(&key),
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Written::Changed)
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
    let news = News {
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
pub(super) async fn remove_surplus(author: &Author, namespace: &str) -> Result<(), Error> {
    let all = author.changes.of(namespace);
    let all: Vec<&Change> = all.iter().map(|change| &**change).collect();
    let limit = author.settings.history_limit;
    for change in planner::change::surplus(&all, limit, author.clock.now()) {
        if !author.telemetry.may_write() {
            return Err(Error::NotLeading);
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
