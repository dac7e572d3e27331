//! Which promotion under way a new revision waits for.

use api::{Promotion, pipeline::OnNewRevision};

use super::site::{SiteDecision, SitePlanner, WantedRevision};
use crate::{
    gate::{self, SiteQuestion, approvals, turn},
    promotion_phase::{is_deploying, is_unmerged},
    rollout::is_rolling_out,
    site_state::SiteState,
    version_order,
};

impl SitePlanner<'_> {
    /// The promotion under way that a person requested or a failed check led to, also one whose successor
    /// was never created.
    fn requested<'b>(&self, site: &SiteState<'b>) -> Option<&'b Promotion> {
        let is_requested = |promotion: &&&Promotion| {
            let is_under_way = is_unmerged(promotion) || is_deploying(promotion);
            promotion.spec.cause.is_some() && is_under_way
                || promotion.spec.request.is_some()
                    && (is_under_way || self.lacks_successor(promotion, site))
        };
        site.promotions.iter().rev().find(is_requested).copied()
    }

    /// Whether newer revisions wait for a rollout under way.
    fn finishes_first(&self, promotion: &Promotion) -> bool {
        let input = self.input;
        let settings = promotion.spec.rollout.as_ref();
        let restarts = settings.and_then(|it| it.on_new_revision) == Some(OnNewRevision::Restart);
        !restarts && is_rolling_out(input.pipeline, input.model, promotion, input.now)
    }

    /// The promotion that a revision which nobody requested waits for: a person requested it, it is a rollout
    /// that finishes first, or it has all its approvals and the revision is not older; and no gate fails it.
    pub(super) fn goes_first<'b>(
        &self,
        wanted: &WantedRevision,
        site: &SiteState<'b>,
        rejected: &[String],
    ) -> Option<&'b Promotion> {
        if wanted.kind().is_some() {
            return None;
        }
        let is_approved = |promotion: &&&Promotion| {
            let spec = &promotion.spec;
            let question = self.question(promotion, site, rejected);
            let has_begun = promotion
                .status
                .as_ref()
                .is_some_and(|it| it.rollout.is_some());
            let is_first = || match has_begun {
                true => self.finishes_first(promotion),
                false => {
                    is_unmerged(promotion)
                        && approvals::is_complete(&question)
                        && !version_order::is_older(&wanted.shown(), &spec.shown_revision())
                }
            };
            spec.revision != wanted.revision
                && is_first()
                && self.fits(promotion)
                && !gate::first_failure(&question).is_closed()
        };
        let mut newest_first = site.promotions.iter().rev();
        let approved = || newest_first.find(is_approved).copied();
        self.requested(site).or_else(approved)
    }

    /// What goes first goes on, and the wanted revision waits for it.
    pub(super) fn gives_way(&self, question: &SiteQuestion<'_>, first: &Promotion) -> SiteDecision {
        let decision = self.goes_on_alone(first, question.site, question.rejected);
        if decision.hold.is_some() || question.site.runs(&question.wanted.revision) {
            return decision;
        }
        let name = decision.promotion.as_ref().map(|it| it.name.as_str());
        SiteDecision {
            hold: Some(turn::hold(question.wanted, first, name.unwrap_or_default())),
            ..decision
        }
    }
}
