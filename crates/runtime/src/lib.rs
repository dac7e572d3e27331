//! What every controller in this workspace needs and none should write again: object cache, work queue
//! and workers, leader election, events, status patches, health, TTL cache and clock.
//!
//! Knows no kinds of ours and decides nothing about them. Time is tokio's, so that everything here
//! can run under a paused clock.

pub mod cache;
mod clock;
pub mod events;
pub mod health;
mod label_filter;
pub mod leader;
mod merge_patch;
mod object_key;
mod random;
mod resource_version;
pub mod status;
mod tasks;
mod ttl_cache;
pub mod wall_clock;
mod work_queue;
pub mod worker_metrics;
mod workers;

pub use cache::{CacheConfig, CacheEvent, CacheIndex, ObjectCache, Subscription};
pub use clock::Clock;
pub use events::{EventRecorder, ReliableSender};
pub use health::Health;
pub use label_filter::{InvalidLabelFilter, LabelFilter};
pub use leader::LeaderGuard;
pub use merge_patch::merge_patch;
pub use object_key::ObjectKey;
pub use random::Random;
pub use resource_version::ResourceVersion;
pub use status::StatusWriter;
pub use tasks::spawn;
pub use ttl_cache::TtlCache;
pub use work_queue::WorkQueue;
pub use worker_metrics::WorkerMetrics;
pub use workers::{RequeueAction, Workers};
