//! The custom resources of Sluice, and the fields that it reads of Flux, Flagger, Tekton and workloads.
//!
//! Holds data types, the names and labels derived from them, and the CustomResourceDefinitions generated
//! from them. Reading is lenient: every object that the CRDs of the older projects accepted deserialises,
//! and `planner` reports what cannot work. Nothing here talks to a cluster, reads a clock or decides what
//! happens.
#![warn(missing_docs)]

mod lenient;
mod schema;

pub mod app;
pub mod change;
pub mod check_run;
pub mod cluster;
pub mod conditions;
pub mod crds;
pub mod duration;
pub mod flagger;
pub mod flux;
pub mod freeze;
pub mod image;
pub mod json;
pub mod names;
pub mod pipeline;
pub mod promotion;
pub mod reference;
pub mod revision;
pub mod tekton;
pub mod third_party;
pub mod trigger;
pub mod wego;
pub mod workload;

pub use change::Change;
pub use check_run::CheckRun;
pub use cluster::GitopsCluster;
pub use crds::crds;
pub use duration::Duration;
pub use freeze::Freeze;
pub use json::FromJson;
pub use pipeline::Pipeline;
pub use promotion::Promotion;
pub use revision::Revision;
pub use trigger::PipelineTrigger;
pub use wego::WegoPipeline;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
