//! PipelineTriggers: start Tekton PipelineRuns for new revisions of Flux sources and pull requests.
//!
//! [`plan`] decides, as pure functions of what was observed. [`controller`] observes, carries the plan
//! out and reports. [`cross_dc`] is the lock with which of several clusters only one acts.
#![warn(missing_docs)]

pub mod controller;
#[cfg(feature = "cross-dc")]
pub mod cross_dc;
pub mod plan;
