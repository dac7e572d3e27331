//! What a pull request on a forge means for a promotion.

use git::{
    forge::{PullRequest, State},
    names::ObjectId,
};
use planner::PullRequestSeen;

use crate::strategy::{
    Task,
    words::{promotion_in, uid},
};

/// Whether a pull request is this promotion's: by the uid in its text, or, where somebody removed
/// that, by its address.
pub(super) fn is_own(task: Task<'_>, pull: &PullRequest) -> bool {
    match promotion_in(&pull.body) {
        Some(named) => named == uid(task),
        None => {
            let status = task.promotion.status.as_ref();
            let url = status.and_then(|status| status.url.as_ref());
            url == Some(&pull.url)
        }
    }
}

/// What the planner is told.
pub(super) fn seen(task: Task<'_>, pull: PullRequest) -> PullRequestSeen {
    let url = pull.url;
    match pull.state {
        State::Merged => PullRequestSeen::Merged {
            url,
            commit: pull.merge_commit.map(|commit| commit.as_str().to_owned()),
        },
        State::Closed => PullRequestSeen::Closed { url },
        State::Open => {
            let status = task.promotion.status.clone().unwrap_or_default();
            let tip = pull.head_commit.as_ref().map(ObjectId::as_str);
            let (is_current, changed_by_others) = match (&status.commit, tip) {
                (Some(ours), Some(tip)) => (ours == tip, ours != tip),
                (Some(_), None) => (true, false),
                // Nothing is known to be pushed: whether the tip is ours is for git to say.
                (None, _) => (
                    false,
                    status.reason.as_deref() == Some(planner::BRANCH_CHANGED_BY_OTHERS),
                ),
            };
            PullRequestSeen::Open {
                url,
                is_current,
                changed_by_others,
            }
        }
    }
}
