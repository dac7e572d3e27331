//! The loops: each observes, lets `planner` plan, acts, and reports.
//!
//! [`pipeline`] is the loop over pipelines; `clusters` and `apps` are its eyes on the clusters
//! behind them. Nothing on a leaf cluster is ever written.

mod apps;
pub mod clock;
mod clusters;
pub mod difference;
mod index;
pub mod keys;
pub mod pipeline;
pub mod queue;
pub mod settings;
mod shared;

pub use clusters::{Connector, kubeconfig::network_connector};
pub use settings::{Detect, Settings};
pub use shared::Shared;

/// Who we are to the API server's field ownership.
pub const FIELD_MANAGER: &str = "sluice";
