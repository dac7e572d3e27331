//! Gate `suspended`: nothing starts while the pipeline or the environment is suspended.

use api::pipeline::{Environment, PipelineSpec};

/// Whether promotions into an environment are suspended.
pub(crate) fn is_suspended(pipeline: &PipelineSpec, environment: &Environment) -> bool {
    pipeline.suspend || environment.suspend
}
