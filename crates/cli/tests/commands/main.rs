//! The built binary as people and scripts run it, against the embedded API on a loopback socket.
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
