//! From an applied manifest to a merged pull request to an environment that runs the revision: the
//! reconcilers of pipelines and promotions, a hub, leaf clusters, a forge and real git.
//!
//! On embedded servers; `shortest_path` and `rfc_listings` also on real ones, with
//! `SLUICE_TEST_API=real`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod approved_changes;
mod artifacts;
mod checks;
mod counts;
mod faults;
mod feedback;
mod fleet;
mod freezes;
mod graph;
mod inputs;
mod people;
mod pull_request_settings;
mod real_gitea;
mod real_registry;
mod rfc_listings;
mod rollout_pull_requests;
mod rollout_strategies;
mod rollout_tags;
mod rollouts;
mod shortest_path;
mod stories;
mod strategies;
mod tagged_apps;
mod tags;
mod webhook_receiver;
mod world;
