//! The loops, each of which observes, lets `planner` plan, acts, and reports; and the process around
//! them: leader election, events, metrics, probes.
//!
//! [`run()`] is the process. [`loops::all`] is where loops are plugged in.

pub mod events;
pub mod health;
pub mod installed;
pub mod lease;
pub mod loops;
pub mod metrics;
pub mod run;
pub mod settings;

pub use loops::Context;
pub use metrics::Metrics;
pub use run::run;
pub use settings::{Detect, Settings};
