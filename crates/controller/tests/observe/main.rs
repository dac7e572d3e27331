//! The pipeline loop against an in-process hub and leaf clusters, under a paused clock.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod canaries;
mod changes;
mod counts;
mod failing_clusters;
mod labelled;
mod resource_sets;
mod rights;
mod signatures;
mod sources;
mod stories;
mod tracking;
mod waves;
mod world;
