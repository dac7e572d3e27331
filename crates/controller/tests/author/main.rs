//! From a Change to a merged pull request: the change loop, a hub, a forge and real git; and what
//! goes wrong on the way.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod crashes;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../faults/gate.rs"]
mod gate;
mod stage;
mod stories;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../promote/world.rs"]
mod world;
