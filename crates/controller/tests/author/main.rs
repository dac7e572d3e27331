//! From a Change to a merged pull request: the reconciler of Changes, a hub, a forge and real git, with
//! and without failures.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod crashes;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../faults/fault_injector.rs"]
mod fault_injector;
mod stage;
mod stories;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../promote/world.rs"]
mod world;
