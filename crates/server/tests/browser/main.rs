//! The dashboard in a real browser: each page, each action, names that mean harm, and a connection
//! that breaks.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod acts;
mod checks;
mod decisions;
mod drafts;
mod gallery;
mod layout;
#[path = "../http/leaf.rs"]
mod leaf;
#[path = "../http/loops.rs"]
#[expect(dead_code, reason = "strategies that only the tests in http need")]
mod loops;
mod oidc;
#[path = "../http/oidc_settings.rs"]
mod oidc_settings;
mod pages;
mod phone;
mod rollouts;
mod states;
mod world;
