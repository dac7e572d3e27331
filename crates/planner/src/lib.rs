//! What should happen next: pure functions from what was seen to what is to be done, and why not.
//!
//! Never does I/O, never reads a clock, never draws at random: `now` is an argument. Empty so far.
#![warn(missing_docs)]
pub mod trigger;
