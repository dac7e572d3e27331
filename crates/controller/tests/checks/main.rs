//! Check runs measured: the check reconciler, a hub, and whom it asks; with attacks and crashes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod attacks;
mod crashes;
mod endpoint;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../faults/fault_injector.rs"]
mod fault_injector;
mod jobs;
mod measured;
mod real_jobs;
mod real_prometheus;
mod stage;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../promote/world.rs"]
mod world;
