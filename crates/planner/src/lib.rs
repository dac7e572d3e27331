//! What should happen next: pure functions from what was seen to what is to be done, and why not.
//!
//! | function | question |
//! | --- | --- |
//! | [`fold()`] | what is known about a pipeline after another look at its targets |
//! | [`plan()`] | which promotions start, which end, and why the others wait |
//! | [`apply`] | the status that says so |
//! | [`attempt()`], [`conclude`] | what comes next for one promotion |
//! | [`explain()`] | all of that as text for people |
//!
//! Never does I/O, never reads a clock, never draws at random: `now` and the seed of a jitter are
//! arguments. Promises that the same input gives the same answer, so that everything which shows a
//! plan shows the one that is carried out.
#![warn(missing_docs)]

mod access;
mod conditions;
mod fold;
mod moment;
mod order;
mod place;
mod seen;

pub use access::{refuse_cluster, refuse_group};
pub use fold::{fold, needs_images};
pub use moment::Timestamp;
pub use place::{RELEASE_REPORT, cluster_key, environment_report_key, place_of, target_report_key};
pub use seen::{Seen, SeenApp, SeenEnvironment, SeenSource, SeenTarget, TargetState};
