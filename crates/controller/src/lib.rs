//! The loops, each of which observes, lets `planner` plan, acts, and reports; and the process around
//! them: leader election, events, metrics, probes.

pub mod events;
pub mod health;
pub mod installed;
pub mod lease;
pub mod metrics;
pub mod settings;

pub use metrics::Metrics;
pub use settings::{Detect, Settings};
