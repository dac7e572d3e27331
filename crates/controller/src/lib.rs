//! The loops: each observes, lets `planner` plan, acts, and reports.

pub mod cross_dc;
pub mod trigger;
