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
pub mod clock;
mod clusters;
pub mod cross_dc;
pub mod difference;
pub mod events;
mod faults;
pub mod health;
mod index;
pub mod installed;
pub mod keys;
pub mod lease;
pub mod loops;
pub mod metrics;
mod namespaces;
pub mod pipeline;
mod pipelines;
pub mod promotion;
mod promotions;
pub mod queue;
pub mod run;
pub mod settings;
mod shared;
mod status;
mod strategy;
mod telemetry;
pub mod trigger;

pub use adoption::Adopter;
pub use change::Author;
pub use clusters::{
    Connector,
    kubeconfig::{KubeconfigPolicy, network_connector},
    leaves::Leaves,
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
