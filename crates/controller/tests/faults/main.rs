//! What goes wrong: crashes before and after every effect, forges, people, replicas, Secrets, API
//! servers and clocks. Nothing is lost, nothing doubled.
//!
//! Both loops, a hub, a forge and real git, as in the suite `promote`, whose world this is. Faults of
//! the same kind that need no fault injector are in `promote/faults.rs` and
//! `promote/people.rs`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod crashes;
mod failed_check;
mod fault_injector;
mod hooks;
mod hub;
mod journeys;
mod outages;
mod people;
mod replicas;
mod weave_defects;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../promote/webhook_receiver.rs"]
mod webhook_receiver;
#[expect(dead_code, reason = "this suite needs less of it than the other")]
#[path = "../promote/world.rs"]
mod world;
