//! Writes a pipeline's status as one merge patch, or nothing when nothing changed, and records events.

use std::sync::Arc;

use super::reconciler::NAME;
use api::{Pipeline, pipeline::PipelineStatus};

use crate::{PipelineReconciler, reconciler_base::StatusWrite};
use runtime::{ObjectKey, status::StatusError};

/// Writes the status if it differs from the one that was read, and records what is new.
pub(super) async fn write(
    reconciler: &Arc<PipelineReconciler>,
    pipeline: &Pipeline,
    status: PipelineStatus,
) -> Result<(), StatusError> {
    let key = ObjectKey::of(&pipeline.metadata);
    let before = pipeline.status.as_ref();
    let status = planner::summarised(pipeline, status);
    let (cache, telemetry) = (&reconciler.caches.pipelines, &reconciler.telemetry);
    let written = reconciler.write_status(cache, NAME, pipeline, &status);
    match written.await? {
        StatusWrite::Unchanged => telemetry.status_is_current(&key),
        StatusWrite::Written => {
            telemetry.status_is_current(&key);
            telemetry.record(pipeline, planner::pipeline_events(before, &status));
        }
        // The cache may have had its newest state already, and then told nobody.
        StatusWrite::Outdated => reconciler.enqueue(key),
    }
    Ok(())
}
