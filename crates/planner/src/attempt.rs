//! What comes next for one promotion.
//!
//! [`pull_request_lookup`] says whether the pull request must be looked at first; [`attempt`] looks at a promotion and its surroundings and says what to do, if anything, and the
//! status to write; [`conclude`] says the status once that was done or has failed. Promises: no act
//! without the approval it needs, none while an earlier promotion of the place could still merge,
//! none that differs from what the pipeline asks for; what failed for a passing reason is tried
//! again for ever, ever more slowly.

pub(crate) mod backoff;
mod context;
mod lifecycle;
mod lookup;
mod outcome;
mod problem;

use api::promotion::PromotionStatus;

use crate::time::Timestamp;

pub use context::{AttemptInput, ObservedPullRequest};
pub use lifecycle::attempt;
pub use lookup::{PullRequestLookup, observed_after_failed_lookup, pull_request_lookup};
pub use outcome::{Failure, Outcome, Remedy, conclude, status_after_failed_lookup};
pub use problem::{PromotionProblem, is_resolved_by_repository_edit, promotion_problem};

/// The reason of a promotion that is not what its pipeline asks for.
pub const STRATEGY_CHANGED: &str = "StrategyChanged";
/// The reason of a promotion whose revision did not come up in time, or failed there.
pub const DEPLOY_FAILED: &str = "DeployFailed";

/// The reason of a promotion that is in git and whose environment nothing reports from.
pub const NOTHING_REPORTS: &str = "NothingReports";

/// The reason of a promotion whose pull request the forge was asked to merge and cannot yet.
pub const NOT_MERGEABLE: &str = "NotMergeable";

/// The reason of a promotion whose pull request Sluice may not merge although it could be merged.
pub const MERGE_NOT_ALLOWED: &str = "MergeNotAllowed";

/// The reason of a promotion whose branch somebody else pushed to.
pub const BRANCH_CHANGED_BY_OTHERS: &str = "BranchChangedByOthers";

/// What comes next for a promotion.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptPlan {
    /// What to do now.
    pub action: ExternalAction,
    /// The status to write; with an action, what [`conclude`] starts from.
    pub status: PromotionStatus,
    /// When to look again even if nothing happens.
    pub requeue_at: Option<Timestamp>,
}

/// Something to do outside. Doing it twice does it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalAction {
    /// Nothing.
    Nothing,
    /// Carry out the strategy: open the pull request or bring it up to date, push, send.
    CarryOut,
    /// Close the promotion's pull request if it is open.
    ClosePullRequest,
    /// Have the forge merge the pull request, if it was not asked yet or could not when it was.
    AskForMerge,
}
