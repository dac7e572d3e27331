//! The HTTP server over the embedded API: hooks as Flux, CI and callers of the Weave
//! pipeline-controller send them, REST and dashboard requests of people, and requests that must be
//! refused.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod approval;
mod cautions;
mod changes;
mod checks;
mod damaged;
mod decisions;
mod events;
mod evidence;
mod freezes;
mod graph;
mod guard;
mod inputs;
mod leaf;
mod leaves;
mod loops;
mod names;
mod oidc;
mod oidc_settings;
mod promotion;
mod races;
mod real_api_server;
mod real_gitea;
mod release;
mod rest;
mod rollout;
mod running;
mod session;
mod socket;
mod world;
