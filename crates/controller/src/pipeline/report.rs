//! Writes a pipeline's status: one merge patch of what changed, nothing when nothing did.

use std::sync::Arc;

use api::{Pipeline, pipeline::PipelineStatus};

use crate::{
    Shared,
    keys::ObjectKey,
    status::{self, Error, Written},
};

/// Writes the status if it differs from the one that was read, and tells people what is new.
pub(super) async fn write(
    shared: &Arc<Shared>,
    pipeline: &Pipeline,
    status: PipelineStatus,
) -> Result<(), Error> {
    let key = ObjectKey::of(&pipeline.metadata);
    let before = pipeline.status.as_ref();
    let change = (before, &status);
    match status::write(&shared.hub, &shared.telemetry, pipeline, change).await? {
        Written::Same => shared.telemetry.shown(&key),
        Written::Done(written) => {
            shared.telemetry.shown(&key);
            shared
                .telemetry
                .tell(pipeline, planner::pipeline_events(before, &status));
            shared.pipelines.keep(written);
        }
        Written::Overtaken(newest) => {
            shared.pipelines.keep(newest);
            shared.wake(key);
        }
        Written::Gone => {}
    }
    Ok(())
}
