//! The crate against real git: edits, runs, mirrors, proposals.
#![expect(clippy::panic, reason = "a check that cannot go on ends the test")]

#[path = "suite/damaged_files.rs"]
mod damaged_files;
#[path = "suite/damaged_forges.rs"]
mod damaged_forges;
#[path = "suite/edits.rs"]
mod edits;
#[path = "suite/found.rs"]
mod found;
#[path = "suite/mirrors.rs"]
mod mirrors;
#[path = "suite/propose.rs"]
mod propose;
#[path = "suite/runs.rs"]
mod runs;
#[path = "suite/signing.rs"]
mod signing;
#[path = "suite/support.rs"]
mod support;
