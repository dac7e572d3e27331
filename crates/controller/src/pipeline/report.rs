//! Writes a pipeline's status as one merge patch, or nothing when nothing changed, and records events.

use std::sync::Arc;

use super::reconciler::NAME;
use api::{Pipeline, pipeline::PipelineStatus};

use crate::PipelineReconciler;
use runtime::{
    ObjectKey,
    status::{StatusError, StatusPatch},
};

/// Writes the status if it differs from the one that was read, and records what is new.
pub(super) async fn write(
    reconciler: &Arc<PipelineReconciler>,
    pipeline: &Pipeline,
    status: PipelineStatus,
) -> Result<(), StatusError> {
    let key = ObjectKey::of(&pipeline.metadata);
    let before = pipeline.status.as_ref();
    let status = planner::summarised(pipeline, status);
    match reconciler.status.patch(pipeline, before, &status).await? {
        StatusPatch::Unchanged => reconciler.telemetry.status_is_current(&key),
        StatusPatch::Patched(written) => {
            reconciler.telemetry.status_is_current(&key);
            reconciler
                .telemetry
                .record(pipeline, planner::pipeline_events(before, &status));
            reconciler.caches.pipelines.wrote(NAME, written);
        }
        StatusPatch::Conflict(newest) => {
            reconciler.caches.pipelines.wrote(NAME, newest);
            reconciler.enqueue(key);
        }
        StatusPatch::NotFound => {
            let uid = pipeline.metadata.uid.as_deref();
            reconciler.caches.pipelines.deleted(NAME, &key, uid);
            reconciler.forget_pipeline(&key);
        }
    }
    Ok(())
}
