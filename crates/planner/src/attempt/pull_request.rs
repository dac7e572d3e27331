//! What a promotion does about its pull request: follows it, asks for its merge, or notes that it was merged or
//! closed.

use std::ops::ControlFlow;

use api::promotion::Phase;

use super::{
    AttemptPlan, BRANCH_CHANGED_BY_OTHERS, ExternalAction,
    context::ObservedPullRequest,
    lifecycle::{Attempt, FOLLOW, stay},
    outcome::WAITS_TO_BE_MERGED,
};
use crate::time::{later, stored};

impl Attempt<'_> {
    /// Acts on the pull request, also on one that a crash left unrecorded.
    pub(super) fn follow_pull_request(mut self) -> ControlFlow<AttemptPlan, Self> {
        let next = match self.context.input.pull_request.clone() {
            ObservedPullRequest::Merged { url, .. } => {
                self.note_merge();
                self.status.url = Some(url);
                self.deploy()
            }
            ObservedPullRequest::Closed { url } => self.abandon(url),
            // Commits of others on the branch are not overwritten.
            ObservedPullRequest::Open {
                url,
                is_current,
                changed_by_others,
                ..
            } if is_current || changed_by_others => {
                self.status.url = Some(url);
                self.wait_for_merge(changed_by_others)
            }
            _ => return ControlFlow::Continue(self),
        };
        ControlFlow::Break(next)
    }

    /// A person closed the pull request, which rejects the revision.
    pub(super) fn abandon(mut self, url: String) -> AttemptPlan {
        self.status.url = Some(url);
        let message = "its pull request was closed without being merged".to_owned();
        self.end(Phase::Abandoned, "Closed", message)
    }

    fn wait_for_merge(mut self, changed_by_others: bool) -> AttemptPlan {
        let may_merge = !changed_by_others && self.context.may_merge();
        let cancels = !may_merge && self.may_be_merged_by_itself();
        if let Some(requeue_at) = self.too_early().filter(|_| cancels) {
            return AttemptPlan {
                requeue_at: Some(requeue_at),
                ..stay(self.status)
            };
        }
        self.status.next_attempt = None;
        let (reason, message) = match (changed_by_others, self.context.merge_hold()) {
            (true, _) => (
                BRANCH_CHANGED_BY_OTHERS,
                "somebody else pushed to the branch; it is followed and not pushed to any more"
                    .to_owned(),
            ),
            (false, Some(hold)) => {
                let message = format!("it is not merged now: {}", hold.message());
                (hold.reason.word(), message)
            }
            (false, None) => ("WaitingForMerge", WAITS_TO_BE_MERGED.to_owned()),
        };
        // Keep the notes from when it was opened, such as a reviewer whom the forge does not know.
        let before = self.status.message.take();
        let before = before.filter(|before| before.starts_with(&message));
        let message = before.unwrap_or(message);
        self.set(Phase::WaitingForMerge, reason, message);
        AttemptPlan {
            action: match (may_merge, self.status.merge_scheduled) {
                (true, true) => ExternalAction::ScheduleMerge,
                (true, false) => ExternalAction::AskForMerge,
                (false, _) if cancels => ExternalAction::CancelScheduledMerge,
                (false, _) => ExternalAction::Nothing,
            },
            requeue_at: Some(later(self.now, FOLLOW)),
            ..stay(self.status)
        }
    }

    /// Whether the forge may merge the pull request without asking a gate: we scheduled that, or it
    /// shows so. Where people merge, it is theirs.
    pub(super) fn may_be_merged_by_itself(&self) -> bool {
        let shows_it = matches!(
            self.context.input.pull_request,
            ObservedPullRequest::Open {
                is_merge_scheduled: true,
                ..
            }
        );
        self.status.merge_scheduled || shows_it && self.context.is_automatic()
    }

    /// A pull request is open.
    pub(super) fn follow(self) -> AttemptPlan {
        let attempt = match self.follow_pull_request() {
            ControlFlow::Break(plan) => return plan,
            ControlFlow::Continue(attempt) => attempt,
        };
        match attempt.context.input.pull_request {
            ObservedPullRequest::NotQueried | ObservedPullRequest::Unanswered => AttemptPlan {
                requeue_at: Some(later(attempt.now, FOLLOW)),
                ..stay(attempt.status)
            },
            _ => attempt.run(),
        }
    }

    /// Whether its pull request is open, or may be.
    pub(super) fn is_open(&self) -> bool {
        matches!(
            self.context.input.pull_request,
            ObservedPullRequest::Open { .. } | ObservedPullRequest::Unanswered
        )
    }

    /// Names a pull request that was not queried and may be open, so that people close it.
    pub(super) fn with_open_pull_request(&self, message: String) -> String {
        let is_merged = self.status.merged_at.is_some();
        match (&self.context.input.pull_request, &self.status.url) {
            (ObservedPullRequest::NotQueried, Some(url)) if !is_merged => {
                format!("{message}; its pull request may still be open, close it: {url}")
            }
            _ => message,
        }
    }

    /// Records that the change is in git.
    pub(super) fn note_merge(&mut self) {
        let ObservedPullRequest::Merged { commit, .. } = &self.context.input.pull_request else {
            return;
        };
        let now = stored(self.now);
        self.status.merged_at.get_or_insert(now);
        self.status.next_attempt = None;
        if commit.is_some() {
            self.status.commit.clone_from(commit);
        }
    }
}
