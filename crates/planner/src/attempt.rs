//! Decides the next external action of one promotion, and its status.
//!
//! [`pull_request_lookup`] says whether the forge must be queried first; [`attempt`] says which action to
//! take, if any, and the status to write; [`conclude`] says the status after the action. They guarantee:
//! no external step while a gate is closed or an approval is missing, and none that differs from the
//! pipeline's settings; transient failures are retried with exponential backoff, without a limit.

pub(crate) mod backoff;
mod change;
mod context;
mod feedback;
mod lifecycle;
mod lookup;
mod outcome;
mod problem;
mod pull_request;
mod requested;
mod restored;
mod rollout;
mod tag;
mod verification;

use api::promotion::PromotionStatus;

use crate::time::Timestamp;

pub use change::{must_read_change, with_change};
pub(crate) use context::runs;
pub use context::{AttemptInput, ObservedPullRequest, freeze_hold};
pub use feedback::{FeedbackUpdate, WantedComment, feedback_update, is_first_refusal};
pub(crate) use lifecycle::DEPLOY_TIMEOUT;
pub use lifecycle::attempt;
pub use lookup::{PullRequestLookup, observed_after_failed_lookup, pull_request_lookup};
pub use outcome::{Failure, Outcome, Remedy, conclude, status_after_failed_lookup};
pub use problem::{PromotionProblem, is_resolved_by_repository_edit, promotion_problem};
pub use requested::{promotion_caution, skipped_gates};
pub use tag::replaceable_digests;

/// The reason of a promotion whose strategy differs from that of its pipeline.
pub const STRATEGY_CHANGED: &str = "StrategyChanged";
/// The reason of a promotion whose deployment failed or took too long.
pub const DEPLOY_FAILED: &str = "DeployFailed";

/// The reason of a promotion whose revision failed a check of its environment.
pub const CHECK_FAILED: &str = "CheckFailed";

/// The reason of a promotion that is in git and whose environment nothing reports from.
pub const NOTHING_REPORTS: &str = "NothingReports";

/// The reason of a promotion whose pull request only the merge queue of its base branch may merge.
pub const MERGE_QUEUE_REQUIRED: &str = "MergeQueueRequired";

/// The reason of a promotion whose pull request the forge was asked to merge and cannot yet.
pub const NOT_MERGEABLE: &str = "NotMergeable";

/// The reason of a promotion whose pull request Sluice may not merge although it could be merged.
pub const MERGE_NOT_ALLOWED: &str = "MergeNotAllowed";

/// The reason of a promotion that would change something else than what was approved.
pub const CHANGE_DIFFERS: &str = "ChangeDiffers";

/// The reason of a promotion whose branch somebody else pushed to.
pub const BRANCH_CHANGED_BY_OTHERS: &str = "BranchChangedByOthers";

/// The reason of a promotion whose tag somebody else moved.
pub const TAG_CHANGED_BY_OTHERS: &str = "TagChangedByOthers";

/// The reason of a strategy whose Secret does not exist.
pub const SECRET_MISSING: &str = "SecretMissing";

/// The next action of a promotion.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptPlan {
    /// The external action to take now.
    pub action: ExternalAction,
    /// The status to write; with an action, what [`conclude`] starts from.
    pub status: PromotionStatus,
    /// When to decide again even if nothing changes.
    pub requeue_at: Option<Timestamp>,
    /// The digest of the change that people approved: the action must not push another one.
    pub approved_change: Option<String>,
}

/// An idempotent side effect in git, a forge or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalAction {
    /// Nothing.
    Nothing,
    /// Carry out the strategy: open the pull request or bring it up to date, push, send.
    CarryOut,
    /// Close the promotion's pull request if it is open.
    ClosePullRequest,
    /// Merge the pull request now if the forge's conditions are met and its head is still our commit.
    AskForMerge,
    /// Put the pull request into the merge queue that its base branch demands.
    ScheduleMerge,
    /// Keep the forge from merging the pull request by itself, because a gate is closed.
    CancelScheduledMerge,
}
