//! The binary with everything around it, from an applied manifest to a running release.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

mod stories;
