//! Whether the forge must be queried for a promotion's pull request, and how.

use api::{Pipeline, Promotion, promotion::Phase};

use super::{
    BRANCH_CHANGED_BY_OTHERS, Failure, ObservedPullRequest, Remedy,
    context::{AttemptContext, AttemptInput},
};
use crate::time::Timestamp;

/// How to query the forge for a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRequestLookup {
    /// Do not query: there is none, or it does not matter any more.
    Skip,
    /// Do not query yet: the last query failed and the retry is not due. What was observed is
    /// [`ObservedPullRequest::Unanswered`](super::ObservedPullRequest::Unanswered).
    Postponed,
    /// A cached list of open pull requests is recent enough.
    Cached,
    /// Query the forge now, closed pull requests included: a side effect is about to happen.
    Fresh,
}

/// What counts as observed after a failed query. After a transient failure the query is repeated,
/// unless the strategy was corrected before anything was opened: a mistyped forge never answers. A
/// failure that only an edit resolves must not keep a promotion from ending, unless there is a pull
/// request and its successor would wait for the same edit.
pub fn observed_after_failed_lookup(
    promotion: &Promotion,
    pipeline: &Pipeline,
    failure: &Failure,
) -> ObservedPullRequest {
    let settings = pipeline.spec.promotion_into(&promotion.spec.environment);
    let is_current = settings.is_some_and(|it| it.strategy == promotion.spec.strategy);
    let url = promotion.status.as_ref().and_then(|it| it.url.as_ref());
    let is_waited_for = match failure.remedy {
        Remedy::WaitForEdit => is_current && url.is_some(),
        _ => is_current || url.is_some(),
    };
    match is_waited_for {
        true => ObservedPullRequest::Unanswered,
        false => ObservedPullRequest::NotQueried,
    }
}

/// How to query the forge for a promotion's pull request before [`attempt`](super::attempt). What
/// `input` says about the pull request is ignored.
pub fn pull_request_lookup(
    promotion: &Promotion,
    input: &AttemptInput<'_>,
    now: Timestamp,
) -> PullRequestLookup {
    let Some(pipeline) = input.live_pipeline() else {
        return PullRequestLookup::Skip;
    };
    let context = AttemptContext::new(promotion, pipeline, input, now);
    let status = promotion.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or(Phase::AwaitingApproval);
    let is_settled = phase.is_terminal() || matches!(phase, Phase::Deploying | Phase::Verifying);
    let is_settled = is_settled || context.has_lost_its_end();
    if is_settled || promotion.spec.strategy.pull_request.is_none() {
        return PullRequestLookup::Skip;
    }
    // Nothing was opened before the approval.
    let is_untouched = phase == Phase::AwaitingApproval && context.lacks_approval();
    if is_untouched {
        return PullRequestLookup::Skip;
    }
    let due = status.next_attempt.as_ref().map(|time| time.0);
    let is_early = due.is_some_and(|due| now < due) && !input.edited;
    let is_ending = promotion.spec.withdrawn.is_some() || promotion.spec.rejection.is_some();
    if is_ending || context.is_deployed() {
        // While no pull request is known to be open, backoff must not delay the end.
        let may_be_open = status.url.is_some() || phase == Phase::WaitingForMerge;
        return match is_early && may_be_open {
            true => PullRequestLookup::Postponed,
            false => PullRequestLookup::Fresh,
        };
    }
    if phase == Phase::WaitingForMerge {
        return PullRequestLookup::Cached;
    }
    let waits = is_early || context.refusal().is_some() || context.hold().is_some();
    if !waits {
        return PullRequestLookup::Fresh;
    }
    let is_foreign = status.reason.as_deref() == Some(BRANCH_CHANGED_BY_OTHERS);
    match is_foreign || status.url.is_some() {
        true => PullRequestLookup::Cached,
        false => PullRequestLookup::Skip,
    }
}
