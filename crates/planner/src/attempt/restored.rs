//! What a promotion may do on a hub that was restored without statuses.

use api::pipeline::TargetStatus;

use super::context::AttemptContext;
use crate::{
    fold::is_absence,
    promotion_phase::{creation_order, phase_of},
};

impl AttemptContext<'_> {
    /// Whether it is known what the site runs. A hub that was restored without statuses has old promotions that
    /// look new: before their pipeline is reconciled, no gate could keep them from bringing back what they once
    /// brought. An environment that the pipeline no longer has is never reconciled.
    pub(super) fn may_begin(&self) -> bool {
        let has_begun = phase_of(self.promotion).is_some();
        let is_reconciled = self.status().is_some() || self.environment().is_none();
        is_reconciled && (has_begun || !self.has_unread_target())
    }

    /// Whether it ended before the statuses were lost. Every promotion ends before the next one of its site
    /// begins, so that only the last may still be under way. A rollout cannot go on: nobody knows any more which
    /// of its targets were started.
    pub(super) fn has_lost_its_end(&self) -> bool {
        let status = self.pipeline.status.as_ref();
        let rebuilt_at = status.and_then(|status| status.rebuilt_at.as_ref());
        let created = self.promotion.metadata.creation_timestamp.as_ref();
        // Both have whole seconds: one of the same second was created because of the rebuilt status.
        let is_older = rebuilt_at.is_some_and(|at| created.is_some_and(|it| it.0 < at.0));
        let is_untold = phase_of(self.promotion).is_none();
        let own = creation_order(self.promotion);
        let mut others = self.other_promotions();
        is_older
            && is_untold
            && self.promotion.spec.withdrawn.is_none()
            && (others.any(|other| creation_order(other) > own) || self.has_lost_its_batches())
    }

    fn has_lost_its_batches(&self) -> bool {
        self.promotion.spec.rollout.is_some() && !self.is_deployed()
    }

    /// Whether a target was never read, so that nobody knows what runs there. Rollouts go on without it, and
    /// people may know better.
    fn has_unread_target(&self) -> bool {
        let spec = &self.promotion.spec;
        let is_unread = |target: &&TargetStatus| {
            let is_unreadable = target.problem.is_some_and(|it| !is_absence(it));
            is_unreadable && target.revision.is_none()
        };
        let is_planned = spec.request.is_none() && spec.rollout.is_none();
        is_planned && self.site.unreadable().iter().any(is_unread)
    }
}
