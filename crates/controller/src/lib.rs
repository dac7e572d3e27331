//! The loops: each observes, lets `planner` plan, acts, and reports.

pub mod trigger;
