//! What every controller in this workspace needs and none should write again: work queue and workers,
//! leader election, events, status patches, health and clock.
//!
//! Knows no kinds of ours and decides nothing about them. Time is tokio's, so that everything here
//! can run under a paused clock.

pub mod clock;
pub mod events;
pub mod health;
pub mod leader;
mod merge_patch;
mod object_key;
mod random;
pub mod status;
mod tasks;
mod ttl_cache;
mod work_queue;
pub mod worker_metrics;
mod workers;

pub use clock::Clock;
pub use events::{EventRecorder, ReliableSender};
pub use health::Health;
pub use leader::LeaderGuard;
pub use merge_patch::merge_patch;
pub use object_key::ObjectKey;
pub use random::Random;
pub use status::StatusWriter;
pub use tasks::spawn;
pub use ttl_cache::TtlCache;
pub use work_queue::WorkQueue;
pub use worker_metrics::WorkerMetrics;
pub use workers::{RequeueAction, Workers};
