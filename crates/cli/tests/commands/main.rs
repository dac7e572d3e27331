//! The binary against the embedded API on a loopback socket, as users and scripts run it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing case is a panic, as in any other test"
)]

mod cluster;
mod hooks;
mod objects;
mod offline;
mod read_only;
mod requests;
