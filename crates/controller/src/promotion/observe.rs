//! Looks at what is around a promotion: its pull request where that matters, and whether somebody
//! edited what it failed on.

use std::sync::Arc;

use planner::{AttemptInput, Failure, ObservedPullRequest, PullRequestLookup, Timestamp};

use super::{Promoter, Scene};
use crate::faults::LOOK_FOR_EDITS;

/// What was seen.
pub(super) struct Sight {
    pull_request: ObservedPullRequest,
    edited: bool,
    /// Why the pull request could not be looked at.
    pub(super) failure: Option<Failure>,
    /// When to look again at the latest.
    latest: Option<Timestamp>,
}

impl Sight {
    pub(super) fn surroundings<'a>(&self, scene: &Scene<'a>) -> AttemptInput<'a> {
        AttemptInput {
            pipeline: Some(scene.pipeline),
            promotions: scene.promotions,
            pull_request: self.pull_request.clone(),
            edited: self.edited,
        }
    }

    /// When to look again, given when that would be otherwise.
    pub(super) fn sooner(&self, wake: Option<Timestamp>) -> Option<Timestamp> {
        [wake, self.latest].into_iter().flatten().min()
    }
}

/// Looks at everything that matters for what comes next.
pub(super) async fn everything(promoter: &Arc<Promoter>, scene: &Scene<'_>) -> Sight {
    let now = promoter.clock.now();
    let mut sight = Sight {
        pull_request: ObservedPullRequest::NotQueried,
        edited: false,
        failure: None,
        latest: None,
    };
    let status = scene.promotion.status.as_ref();
    let due = status.and_then(|status| status.next_attempt.as_ref());
    if due.is_some_and(|due| now < due.0) {
        let uid = scene.promotion.metadata.uid.as_deref().unwrap_or_default();
        let dependencies = promoter.strategies.dependencies(scene.task());
        sight.edited = promoter.faults.is_edited(uid, dependencies).await;
        let again = LOOK_FOR_EDITS.min(promoter.settings.follow_every);
        sight.latest = now.saturating_add(again).ok();
    }
    let how = planner::pull_request_lookup(scene.promotion, &sight.surroundings(scene), now);
    match how {
        PullRequestLookup::Skip => {}
        PullRequestLookup::Postponed => sight.pull_request = ObservedPullRequest::Unanswered,
        PullRequestLookup::Cached | PullRequestLookup::Fresh => {
            let mut again_in = promoter.settings.follow_every;
            match promoter.strategies.observe(scene.task(), how).await {
                Ok(looked) => {
                    sight.pull_request = looked.pull_request;
                    again_in = again_in.min(looked.recheck_after);
                }
                Err(failure) => sight.not_answered(scene, failure),
            }
            // Counted from the answer: a list that was fetched meanwhile is stale only then.
            let again = promoter.clock.now().saturating_add(again_in).ok();
            sight.latest = sight.sooner(again);
        }
    }
    sight
}

impl Sight {
    fn not_answered(&mut self, scene: &Scene<'_>, failure: Failure) {
        let (name, because) = (&scene.promotion.metadata.name, &failure.message);
        tracing::warn!(promotion = name, because, "pull request not seen");
        self.pull_request =
            planner::observed_after_failed_lookup(scene.promotion, scene.pipeline, &failure);
        self.failure = Some(failure);
    }
}
