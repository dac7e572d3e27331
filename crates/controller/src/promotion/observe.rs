//! Observes a promotion: its pull request where that matters, and whether somebody edited what it failed
//! on.

use std::sync::Arc;

use api::Promotion;
use planner::{AttemptInput, Failure, ObservedPullRequest, PullRequestLookup, Timestamp};

use super::{PromotionContext, PromotionReconciler};
use crate::failure_dependencies::RECHECK_DEPENDENCIES;

/// What was observed.
pub(super) struct PromotionObservation {
    pull_request: ObservedPullRequest,
    edited: bool,
    /// Why the pull request could not be read.
    pub(super) failure: Option<Failure>,
    /// The promotion with what it changes, if that was read.
    with_change: Option<Promotion>,
    /// Why it is not known what the promotion changes, and what an edit would have to change.
    pub(super) unread_change: Option<(Failure, String)>,
    /// When to observe again at the latest.
    latest: Option<Timestamp>,
}

impl PromotionObservation {
    pub(super) fn attempt_input<'a>(&self, context: &PromotionContext<'a>) -> AttemptInput<'a> {
        AttemptInput {
            pipeline: Some(context.pipeline),
            promotions: context.promotions,
            pull_request: self.pull_request.clone(),
            edited: self.edited,
        }
    }

    /// The promotion with the newest that is known about what it changes.
    pub(super) fn promotion<'a>(&'a self, context: &PromotionContext<'a>) -> &'a Promotion {
        self.with_change.as_ref().unwrap_or(context.promotion)
    }

    /// The earlier of that time and when to observe again.
    pub(super) fn sooner(&self, wake: Option<Timestamp>) -> Option<Timestamp> {
        [wake, self.latest].into_iter().flatten().min()
    }
}

/// Observes everything that matters for the next action.
pub(super) async fn everything(
    reconciler: &Arc<PromotionReconciler>,
    context: &PromotionContext<'_>,
) -> PromotionObservation {
    let now = reconciler.clock.now();
    let mut observation = PromotionObservation {
        pull_request: ObservedPullRequest::NotQueried,
        edited: false,
        failure: None,
        with_change: None,
        unread_change: None,
        latest: None,
    };
    let status = context.promotion.status.as_ref();
    let due = status.and_then(|status| status.next_attempt.as_ref());
    if due.is_some_and(|due| now < due.0) {
        let uid = context
            .promotion
            .metadata
            .uid
            .as_deref()
            .unwrap_or_default();
        let dependencies = reconciler.strategies.dependencies(context.task());
        observation.edited = reconciler
            .failure_dependencies
            .are_edited(uid, dependencies)
            .await;
        let again = RECHECK_DEPENDENCIES.min(reconciler.settings.follow_every);
        observation.latest = now.saturating_add(again).ok();
    }
    read_change(reconciler, context, &mut observation).await;
    let input = observation.attempt_input(context);
    let how = planner::pull_request_lookup(observation.promotion(context), &input, now);
    match how {
        PullRequestLookup::Skip => {}
        PullRequestLookup::Postponed => observation.pull_request = ObservedPullRequest::Unanswered,
        PullRequestLookup::Cached | PullRequestLookup::Fresh => {
            let mut again_in = reconciler.settings.follow_every;
            match reconciler.strategies.observe(context.task(), how).await {
                Ok(looked) => {
                    observation.pull_request = looked.pull_request;
                    again_in = again_in.min(looked.recheck_after);
                }
                Err(failure) => observation.lookup_failed(context, failure),
            }
            // Counted from the response: a list that was fetched meanwhile is stale only then.
            let again = reconciler.clock.now().saturating_add(again_in).ok();
            observation.latest = observation.sooner(again);
        }
    }
    observation
}

/// Reads what the promotion changes, where people approve it: the first time, and when something it is
/// computed from has changed.
async fn read_change(
    reconciler: &Arc<PromotionReconciler>,
    context: &PromotionContext<'_>,
    observation: &mut PromotionObservation,
) {
    let (task, now) = (context.task(), reconciler.clock.now());
    let input = observation.attempt_input(context);
    if !planner::must_read_change(context.promotion, &input, now) {
        return;
    }
    let again = now.saturating_add(reconciler.settings.follow_every).ok();
    observation.latest = observation.sooner(again);
    let uid = task.promotion.metadata.uid.as_deref().unwrap_or_default();
    let inputs = reconciler.strategies.change_inputs(task).await;
    let newest = std::future::ready(inputs.clone());
    let is_edited = reconciler.change_inputs.are_edited(uid, newest).await;
    let status = context.promotion.status.as_ref();
    let is_known = status.is_some_and(|status| status.change.is_some());
    if is_known && !is_edited {
        return;
    }
    // Read before they are used: an edit in the meantime must not go unnoticed.
    let dependencies = reconciler.strategies.dependencies(task).await;
    match reconciler.strategies.read_change(task).await {
        Ok(change) => {
            reconciler.change_inputs.record(uid, Some(inputs));
            observation.with_change = Some(planner::with_change(context.promotion, change));
        }
        // It is compared again before anything is pushed.
        Err(failure) if is_known => {
            let because = &failure.message;
            tracing::warn!(
                promotion = task.promotion.metadata.name,
                because,
                "could not read what the promotion changes"
            );
        }
        Err(failure) => observation.unread_change = Some((failure, dependencies)),
    }
}

impl PromotionObservation {
    fn lookup_failed(&mut self, context: &PromotionContext<'_>, failure: Failure) {
        let (name, because) = (&context.promotion.metadata.name, &failure.message);
        tracing::warn!(promotion = name, because, "could not read the pull request");
        self.pull_request =
            planner::observed_after_failed_lookup(context.promotion, context.pipeline, &failure);
        self.failure = Some(failure);
    }
}
