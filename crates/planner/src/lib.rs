//! What should happen next: pure functions from what was seen to what is to be done, and why not.
//!
//! | function | question |
//! | --- | --- |
//! | [`fold()`] | what is known about a pipeline after another look at its targets |
//! | [`plan()`] | which promotions start, which end, and why the others wait |
//! | [`apply`] | the status that says so |
//! | [`look`], [`attempt()`], [`conclude`] | what comes next for one promotion |
//! | [`change`] | what comes next for a file that is to be proposed in git |
//! | [`hook`] | what a webhook call means, and what came of it |
//! | [`explain()`] | all of that as text for people |
//! | [`environment_state`], [`settled`] | the same in one word |
//! | [`adopt`] | how a Pipeline of the first proposal's group and its copy are kept equal |
//! | [`lint()`] | what is wrong with a pipeline before it runs |
//! | [`approvable`], [`request_annotation`] | what people can ask for, and how |
//!
//! Never does I/O, never reads a clock, never draws at random: `now` and the seed of a jitter are
//! arguments. Promises that the same input gives the same answer, so that everything which shows a
//! plan shows the one that is carried out.
#![warn(missing_docs)]

mod access;
mod adoption;
mod asking;
mod attempt;
mod backwards;
pub mod change;
mod conditions;
mod evidence;
mod explain;
mod fold;
mod glance;
mod hold;
pub mod hook;
mod lint;
mod moment;
mod news;
mod order;
mod place;
mod plan;
mod release;
mod rights;
mod seen;
mod validity;

pub use access::{refuse_cluster, refuse_group, refuse_hub_namespace};
pub use adoption::{Adoption, Wishes, adopt};
pub use asking::{InTheWay, approvable, previous_revision, request_annotation};
pub use attempt::{
    Act, BRANCH_CHANGED_BY_OTHERS, DEPLOY_FAILED, Failure, Look, MERGE_NOT_ALLOWED, NOT_MERGEABLE,
    NOTHING_REPORTS, Next, Outcome, PullRequestSeen, Remedy, STRATEGY_CHANGED, Surroundings,
    Trouble, attempt, conclude, lies_in_repository, look, not_seen, trouble, unseen,
};
pub use evidence::is_reported;
pub use explain::{explain, explain_environment, promotion_lines};
pub use fold::{fold, needs_images};
pub use glance::{Settled, State, environment_state, settled, target_state};
pub use hold::{Hold, HoldReason};
pub use lint::{Complaint, lint};
pub use moment::Timestamp;
pub use news::{News, news};
pub use place::{
    RELEASE_REPORT, cluster_key, environment_report_key, marker, place_of, places, target_name,
    target_report_key, targets_of,
};
pub use plan::{
    EnvironmentPlan, Plan, Step, apply, plan, successor, superseded_by, surplus, version_for,
};
pub use release::{failed_release, failed_revision, failure_message, release};
pub use rights::{
    Writer, refuse_change, refuse_pipeline, refuse_pipeline_deletion, refuse_promotion,
};
pub use seen::{Seen, SeenApp, SeenCanaries, SeenEnvironment, SeenSource, SeenTarget, TargetState};
