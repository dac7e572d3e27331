//! Observes a Change: whether it may be proposed at all, its pull request where that matters, and whether
//! somebody edited what it failed on.

use api::Change;
use planner::{Failure, ObservedPullRequest, PullRequestLookup, Timestamp};

use super::{ChangeReconciler, uid};
use crate::failure_dependencies::RECHECK_DEPENDENCIES;

/// What was observed.
pub(super) struct ChangeObservation {
    /// Why the file may not be proposed.
    pub(super) refused: Option<Failure>,
    pub(super) seen: ObservedPullRequest,
    /// Why the pull request could not be read.
    pub(super) failure: Option<Failure>,
    /// The dependencies of the lookup, if there was one.
    pub(super) dependencies: Option<String>,
    /// When to observe again at the latest.
    pub(super) latest: Option<Timestamp>,
}

/// Observes everything that matters for the next action.
pub(super) async fn everything(
    reconciler: &ChangeReconciler,
    change: &Change,
) -> ChangeObservation {
    let now = reconciler.clock.now();
    let soon = |delay| reconciler.clock.now().saturating_add(delay).ok();
    let folders = reconciler
        .settings
        .authoring
        .as_ref()
        .map(|to| to.folders.as_slice());
    let mut observation = ChangeObservation {
        refused: planner::change::refuse(change, folders),
        seen: ObservedPullRequest::NotQueried,
        failure: None,
        dependencies: None,
        latest: None,
    };
    if observation.refused.is_some() {
        return observation;
    }
    let due = change.status.clone().and_then(|status| status.next_attempt);
    let is_early = due.is_some_and(|due| now < due.0);
    let dependencies = reconciler.strategies.change_dependencies();
    let edited = is_early
        && reconciler
            .failure_dependencies
            .are_edited(uid(change), dependencies)
            .await;
    if is_early {
        observation.latest = soon(RECHECK_DEPENDENCIES.min(reconciler.settings.follow_every));
    }
    let how = planner::change::pull_request_lookup(change, edited, now);
    if how == PullRequestLookup::Skip {
        return observation;
    }
    observation.dependencies = Some(reconciler.strategies.change_dependencies().await);
    let mut again_in = reconciler.settings.follow_every;
    match reconciler.strategies.observe_change(change, how).await {
        Ok(looked) => {
            observation.seen = looked.pull_request;
            again_in = again_in.min(looked.recheck_after);
        }
        Err(failure) => observation.failure = Some(failure),
    }
    if how == PullRequestLookup::Cached {
        observation.latest = soon(again_in);
    }
    observation
}
