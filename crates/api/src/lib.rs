//! The kinds Sluice serves and the few fields it reads of other people's.
//!
//! Holds data types, the names and labels derived from them, and the
//! CustomResourceDefinitions generated from them. AppReading is tolerant: whatever
//! an ancestor's CRD let into the cluster deserialises, and what cannot work is
//! reported later by whoever plans. Never talks to a cluster, never reads a
//! clock, never decides what should happen.
#![warn(missing_docs)]

mod lenient;
mod schema;

pub mod app;
pub mod change;
pub mod cluster;
pub mod conditions;
pub mod crds;
pub mod duration;
pub mod flagger;
pub mod flux;
pub mod image;
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
pub use cluster::GitopsCluster;
pub use crds::crds;
pub use duration::Duration;
pub use pipeline::Pipeline;
pub use promotion::Promotion;
pub use revision::Revision;
pub use trigger::PipelineTrigger;
pub use wego::WegoPipeline;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
