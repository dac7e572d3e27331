//! What goes wrong: crashes before and after every effect, forges, people, replicas, Secrets, API
//! servers and clocks. Nothing is lost, nothing doubled.
//!
//! Both loops, a hub, a forge and real git, as in the suite `promote`, whose world this is. Faults of
//! the same kind that need no gate between the loops and the world are in `promote/faults.rs` and
//! `promote/people.rs`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod ancestor;
mod crashes;
mod gate;
mod hooks;
mod hub;
mod journeys;
mod outages;
mod people;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../promote/receiver.rs"]
mod receiver;
mod replicas;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../promote/world.rs"]
mod world;
