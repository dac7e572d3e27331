//! The loops, each of which observes, lets `planner` plan, acts, and reports; and the process around
//! them: leader election, events, metrics, probes.
//!
//! [`run()`] is the process. [`loops::all`] is where loops are plugged in. [`pipeline`] is the loop
//! over pipelines, [`promotion`] the one that carries promotions out, [`change`] the one that proposes
//! files in git; for both `strategy` speaks to
//! git and forges; `clusters` and `apps` are its eyes on the clusters behind them. Nothing on a leaf
//! cluster is ever written.

pub mod adoption;
mod apps;
pub mod change;
mod clusters;
mod faults;
mod index;
pub mod installed;
pub mod keys;
pub mod loops;
pub mod metrics;
mod namespaces;
pub mod pipeline;
mod pipelines;
pub mod promotion;
mod promotions;
mod reconcile;
pub mod run;
pub mod settings;
mod shared;
mod strategy;
mod telemetry;

pub use adoption::Adopter;
pub use change::Author;
pub use clusters::{
    Connector,
    kubeconfig::{KubeconfigPolicy, network_connector},
    leaf_clients::LeafClients,
};
pub use loops::Context;
pub use metrics::Metrics;
pub use promotion::Promoter;
pub use run::run;
pub use settings::{Detect, Settings};
pub use shared::Shared;
pub use strategy::preview_proposal;

/// Who we are to the API server's field ownership.
pub const FIELD_MANAGER: &str = "sluice";

/// The source of our events: the name of the Weave pipeline-controller, which Alerts may filter by.
const EVENT_SOURCE: &str = "pipeline-controller";
