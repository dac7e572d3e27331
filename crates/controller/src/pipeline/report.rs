//! Writes a pipeline's status: one merge patch of what changed, nothing when nothing did.

use std::sync::Arc;

use api::{Pipeline, pipeline::PipelineStatus};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{FIELD_MANAGER, Shared, difference, keys::ObjectKey};

/// Why a status was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The lease has too little time left.
    #[error("this process may not be leading any more")]
    NotLeading,
    /// The API server did not take it.
    #[error("cannot write to the hub: {0}")]
    Hub(#[from] kube::Error),
}

/// Writes the status if it differs from the one that was read, and tells people what is new.
pub(super) async fn write(
    shared: &Arc<Shared>,
    pipeline: &Pipeline,
    status: PipelineStatus,
) -> Result<(), Error> {
    let key = ObjectKey::of(&pipeline.metadata);
    let before = json!(pipeline.status.clone().unwrap_or_default());
    let Some(patch) = difference::merge_patch(&before, &json!(status)) else {
        shared.telemetry.shown(&key);
        return Ok(());
    };
    if !shared.telemetry.may_write() {
        return Err(Error::NotLeading);
    }
    let api: Api<Pipeline> = Api::namespaced(shared.hub.clone(), &key.namespace);
    let body: Value = json!({
        "metadata": {"resourceVersion": pipeline.metadata.resource_version},
        "status": patch,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER);
    match api
        .patch_status(&key.name, &parameters, &Patch::Merge(&body))
        .await
    {
        Ok(written) => {
            shared.telemetry.shown(&key);
            let news = planner::news(pipeline.status.as_ref(), &status);
            shared.telemetry.tell(pipeline, news);
            shared.pipelines.keep(written);
            Ok(())
        }
        Err(kube::Error::Api(refusal)) if refusal.code == 404 => Ok(()),
        Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
            // Somebody else wrote: look at the newest state and decide again.
            if let Some(newest) = api.get_opt(&key.name).await? {
                shared.pipelines.keep(newest);
                shared.wake(key);
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
