//! What a promotion changes, where people approve it: when that is read, and what counts as the change
//! that they approve.

use api::{
    Promotion,
    promotion::{Phase, PromotionChange, PromotionStatus},
};

use super::context::{AttemptContext, AttemptInput};
use crate::time::Timestamp;

/// Whether what a promotion changes must be read before [`attempt`](super::attempt): where people approve
/// it, as long as it is not pushed.
pub fn must_read_change(promotion: &Promotion, input: &AttemptInput<'_>, now: Timestamp) -> bool {
    let Some(pipeline) = input.live_pipeline() else {
        return false;
    };
    let context = AttemptContext::new(promotion, pipeline, input, now);
    if !context.needs_approval() || promotion.spec.withdrawn.is_some() {
        return false;
    }
    let status = promotion.status.clone().unwrap_or_default();
    // What the targets of a rollout need is computed once, before the first of them.
    if status.rollout.is_some() && status.phase != Some(Phase::AwaitingApproval) {
        return false;
    }
    let is_untouched = match status.phase.unwrap_or(Phase::AwaitingApproval) {
        Phase::AwaitingApproval => true,
        Phase::Running => status.branch.is_none() && status.url.is_none(),
        _ => false,
    };
    let is_early = status.next_attempt.is_some_and(|due| now < due.0) && !input.edited;
    is_untouched && !is_early && context.refusal().is_none() && !context.is_deployed()
}

/// The promotion with what was read. A change that git has already does not replace the one that people
/// approved: it was pushed, or somebody else made it.
pub fn with_change(promotion: &Promotion, read: PromotionChange) -> Promotion {
    let mut promotion = promotion.clone();
    let status = promotion.status.get_or_insert_default();
    let known = status.change.take();
    if known.is_none() {
        // What failed before was reading it.
        status.next_attempt = None;
        status.attempts = 0;
    }
    let is_in_git = read.edits.is_empty() && read.more_edits == 0;
    status.change = known.filter(|_| is_in_git).or(Some(read));
    promotion
}

/// The status without the change once the promotion has ended.
pub(super) fn dropped_at_end(mut status: PromotionStatus) -> PromotionStatus {
    if status.phase.is_some_and(Phase::is_terminal) {
        status.change = None;
    }
    status
}

#[cfg(test)]
mod tests {
    use api::promotion::FieldEdit;

    use super::*;

    fn change(digest: &str, edits: usize) -> PromotionChange {
        PromotionChange {
            digest: digest.to_owned(),
            edits: vec![FieldEdit::default(); edits],
            ..PromotionChange::default()
        }
    }

    fn digest_after(known: Option<PromotionChange>, read: PromotionChange) -> String {
        let status = PromotionStatus {
            change: known,
            ..PromotionStatus::default()
        };
        let promotion = Promotion {
            status: Some(status),
            ..Promotion::default()
        };
        let status = with_change(&promotion, read).status;
        status.and_then(|it| it.change).expect("a change").digest
    }

    #[test]
    fn what_was_read_counts_unless_git_has_it_already() {
        assert_eq!(digest_after(None, change("a", 1)), "a");
        assert_eq!(digest_after(None, change("a", 0)), "a");
        assert_eq!(digest_after(Some(change("a", 1)), change("b", 1)), "b");
        assert_eq!(digest_after(Some(change("a", 1)), change("b", 0)), "a");
    }

    #[test]
    fn it_is_dropped_at_the_end() {
        for phase in [Phase::AwaitingApproval, Phase::Deploying, Phase::Failed] {
            let status = PromotionStatus {
                phase: Some(phase),
                change: Some(change("a", 1)),
                ..PromotionStatus::default()
            };
            let kept = dropped_at_end(status).change.is_some();
            assert_eq!(kept, !phase.is_terminal(), "{phase:?}");
        }
    }
}
