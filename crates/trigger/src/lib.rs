//! PipelineTriggers: start Tekton PipelineRuns for new revisions of Flux sources and pull requests.
//!
//! [`plan`] decides, as pure functions of what was observed.
#![warn(missing_docs)]

pub mod plan;
