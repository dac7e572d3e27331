//! The dashboard in a real browser: each page, each action, names that mean harm, and a connection
//! that breaks.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod acts;
#[path = "../door/leaf.rs"]
mod leaf;
#[path = "../door/loops.rs"]
#[expect(dead_code, reason = "strategies that only the door's own tests need")]
mod loops;
mod pages;
mod world;
