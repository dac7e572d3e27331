//! New files in git, by the form of the dashboard and by `sluice scaffold`, with a forge, real git, the
//! HTTP server and the Change reconciler.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

mod form;
mod guide;
mod scaffold;
mod setup;
