//! The built binary as people and scripts run it, against the embedded API on a loopback socket.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing case is a panic, as in any other test"
)]

mod asking;
mod hooks;
mod looking;
mod objects;
mod offline;
mod world;
