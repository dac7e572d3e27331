//! The loops, each of which observes, lets `planner` plan, acts, and reports; and the process around
//! them: leader election, events, metrics, probes.

pub mod lease;
pub mod settings;

pub use settings::{Detect, Settings};
