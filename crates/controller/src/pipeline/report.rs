//! Writes a pipeline's status: one merge patch of what changed, nothing when nothing did.

use std::sync::Arc;

use api::{Pipeline, pipeline::PipelineStatus};

use crate::Shared;
use runtime::{
    ObjectKey,
    status::{StatusError, StatusPatch},
};

/// Writes the status if it differs from the one that was read, and tells people what is new.
pub(super) async fn write(
    shared: &Arc<Shared>,
    pipeline: &Pipeline,
    status: PipelineStatus,
) -> Result<(), StatusError> {
    let key = ObjectKey::of(&pipeline.metadata);
    let before = pipeline.status.as_ref();
    match shared.status.patch(pipeline, before, &status).await? {
        StatusPatch::Unchanged => shared.telemetry.shown(&key),
        StatusPatch::Patched(written) => {
            shared.telemetry.shown(&key);
            shared
                .telemetry
                .tell(pipeline, planner::pipeline_events(before, &status));
            shared.pipelines.keep(written);
        }
        StatusPatch::Conflict(newest) => {
            shared.pipelines.keep(newest);
            shared.wake(key);
        }
        StatusPatch::NotFound => {}
    }
    Ok(())
}
