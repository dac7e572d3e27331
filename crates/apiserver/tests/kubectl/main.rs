//! The real kubectl against the embedded server, over a loopback socket.
//!
//! Needs `KUBEBUILDER_ASSETS`, the folder that `cargo xtask kube` prints. With
//! `SLUICE_TEST_API=real` the same steps run against a real server, which is where what they expect
//! was observed.

#![expect(
    clippy::unwrap_used,
    reason = "a failing step is a panic, as in any other test"
)]

mod changes;
mod reading;
mod run;
mod typed;
