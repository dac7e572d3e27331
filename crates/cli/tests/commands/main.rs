//! The binary against the embedded API on a loopback socket, as users and scripts run it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing case is a panic, as in any other test"
)]

mod cautions;
mod check;
mod cluster;
mod completion;
mod ended;
mod freezes;
mod habits;
mod hooks;
mod inputs;
mod install;
mod lint;
mod lint_settings;
mod objects;
mod offline;
mod one_environment;
mod read_only;
mod requests;
mod rollout;
mod widths;
