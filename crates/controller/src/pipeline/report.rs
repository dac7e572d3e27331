//! Writes a pipeline's status: one merge patch of what changed, nothing when nothing did.

use std::sync::Arc;

use api::{Pipeline, pipeline::PipelineStatus};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::keep_newer;
use crate::{FIELD_MANAGER, Shared, difference, keys::ObjectKey};

/// Writes the status if it differs from the one that was read.
pub(super) async fn write(
    shared: &Arc<Shared>,
    pipeline: &Pipeline,
    status: PipelineStatus,
) -> Result<(), kube::Error> {
    let key = ObjectKey::of(&pipeline.metadata);
    let before = json!(pipeline.status.clone().unwrap_or_default());
    let Some(patch) = difference::merge_patch(&before, &json!(status)) else {
        return Ok(());
    };
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
        Ok(mut written) => {
            written.metadata.managed_fields = None;
            keep_newer(shared, &key, Arc::new(written));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            // Somebody else wrote: look at the newest state and decide again.
            if let Some(mut newest) = api.get_opt(&key.name).await? {
                newest.metadata.managed_fields = None;
                keep_newer(shared, &key, Arc::new(newest));
                shared.queue.add(key);
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}
