//! The binary with a hub, Flux and a forge, from an applied manifest to a running release.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

mod stories;
