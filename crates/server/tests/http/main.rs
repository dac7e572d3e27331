//! The door over the embedded API: hooks as Flux, CI and the ancestor's callers send them, REST as
//! people do, and what nobody should get away with.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod approval;
mod changes;
mod evidence;
mod guard;
mod leaf;
mod leaves;
mod loops;
mod names;
mod promotion;
mod races;
mod release;
mod rest;
mod running;
mod session;
mod socket;
mod world;
