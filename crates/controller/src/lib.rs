//! The reconcilers of Pipelines, Promotions, Changes and GitopsClusters, each of which observes, lets
//! `planner` plan, acts and reports; and the process around them: leader election, events, metrics,
//! probes.
//!
//! [`run()`] is the process and [`controllers::all`] lists the reconcilers. [`pipeline`] reconciles pipelines,
//! [`promotion`] carries promotions out, [`change`] proposes files in git; both use `strategy` for git
//! and forges. `clusters` and `apps` watch the leaf clusters. Nothing on a leaf cluster is ever written.

pub mod adoption;
mod apps;
pub mod caches;
pub mod change;
pub mod check;
mod clusters;
pub mod controllers;
mod failure_dependencies;
mod index;
pub mod installed;
pub mod keys;
pub mod metrics;
mod namespaces;
pub mod pipeline;
mod preflight;
pub mod promotion;
mod reconcile;
mod reconciler_base;
pub mod run;
pub mod settings;
mod strategy;
mod telemetry;

pub use adoption::AdoptionReconciler;
pub use caches::Caches;
pub use change::ChangeReconciler;
pub use check::CheckReconciler;
pub use clusters::{
    Connector,
    kubeconfig::{KubeconfigPolicy, network_connector},
    leaf_clients::LeafClients,
};
pub use controllers::Context;
pub use metrics::Metrics;
pub use pipeline::PipelineReconciler;
pub use promotion::PromotionReconciler;
pub use run::run;
pub use settings::{Detect, Replacements, Settings};
pub use strategy::preview_proposal;

/// Who we are to the API server's field ownership.
pub const FIELD_MANAGER: &str = "sluice";

/// The source of our events: the name of the Weave pipeline-controller, which Alerts may filter by.
const EVENT_SOURCE: &str = "pipeline-controller";
