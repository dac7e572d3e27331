//! From an applied manifest to a merged pull request to an environment that runs the revision: both
//! loops, a hub, leaf clusters, a forge and real git.
//!
//! On embedded servers; the shortest whole way and the listings of the proposals also on real ones,
//! with `SLUICE_TEST_API=real`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod artifacts;
mod dressing;
mod early;
mod faults;
mod fleet;
mod people;
mod receiver;
mod skeleton;
mod stories;
mod strategies;
mod world;
