//! Looks at what is around a change: whether it may be proposed at all, its pull request where that
//! matters, and whether somebody edited what it failed on.

use api::Change;
use planner::{Failure, ObservedPullRequest, PullRequestLookup, Timestamp};

use super::{Author, uid};
use crate::faults::LOOK_FOR_EDITS;

/// What was seen.
pub(super) struct Sight {
    /// Why the file may not be proposed.
    pub(super) refused: Option<Failure>,
    pub(super) seen: ObservedPullRequest,
    /// Why the pull request could not be looked at.
    pub(super) failure: Option<Failure>,
    /// What was used for the look, where there was one.
    pub(super) dependencies: Option<String>,
    /// When to look again at the latest.
    pub(super) latest: Option<Timestamp>,
}

/// Looks at everything that matters for what comes next.
pub(super) async fn everything(author: &Author, change: &Change) -> Sight {
    let now = author.clock.now();
    let soon = |delay| author.clock.now().saturating_add(delay).ok();
    let folders = author
        .settings
        .authoring
        .as_ref()
        .map(|to| to.folders.as_slice());
    let mut sight = Sight {
        refused: planner::change::refuse(change, folders),
        seen: ObservedPullRequest::NotQueried,
        failure: None,
        dependencies: None,
        latest: None,
    };
    if sight.refused.is_some() {
        return sight;
    }
    let due = change.status.clone().and_then(|status| status.next_attempt);
    let is_early = due.is_some_and(|due| now < due.0);
    let dependencies = author.strategies.change_dependencies();
    let edited = is_early && author.faults.is_edited(uid(change), dependencies).await;
    if is_early {
        sight.latest = soon(LOOK_FOR_EDITS.min(author.settings.follow_every));
    }
    let how = planner::change::pull_request_lookup(change, edited, now);
    if how == PullRequestLookup::Skip {
        return sight;
    }
    sight.dependencies = Some(author.strategies.change_dependencies().await);
    let mut again_in = author.settings.follow_every;
    match author.strategies.observe_change(change, how).await {
        Ok(looked) => {
            sight.seen = looked.pull_request;
            again_in = again_in.min(looked.recheck_after);
        }
        Err(failure) => sight.failure = Some(failure),
    }
    if how == PullRequestLookup::Cached {
        sight.latest = soon(again_in);
    }
    sight
}
