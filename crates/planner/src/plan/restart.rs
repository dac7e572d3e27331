//! Starting a promotion again after somebody edited its strategy.

use api::{
    Promotion,
    names::promotion_name,
    pipeline::Request,
    promotion::{Phase, PromotionRequest},
};

use super::{
    environment::summary,
    input::{SiteState, is_unmerged, name_of, phase_of},
    site::{SiteDecision, SitePlanner, WantedRevision},
    start::ordinal,
    successor,
};

impl SitePlanner<'_> {
    /// Whether the pipeline's strategy was edited before it was carried out.
    pub(super) fn is_outdated(&self, promotion: &Promotion) -> bool {
        let status = promotion.status.as_ref();
        let reason = status.and_then(|status| status.reason.as_deref());
        let is_refused = phase_of(promotion) == Some(Phase::Failed)
            && reason == Some(crate::attempt::STRATEGY_CHANGED);
        let differs = promotion.spec.strategy != self.settings.strategy;
        is_refused || is_unmerged(promotion) && differs
    }

    /// What goes on without a candidate: a request whose strategy was edited starts again.
    pub(super) fn goes_on_alone(
        &self,
        promotion: &Promotion,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> SiteDecision {
        match &promotion.spec.request {
            Some(request)
                if self.is_outdated(promotion) || self.lacks_successor(promotion, site) =>
            {
                self.start_again(promotion, request, site)
            }
            _ => self.goes_on_in_order(promotion, site, rejected),
        }
    }

    /// Brings what a person asked for by the strategy that the pipeline names today.
    fn start_again(
        &self,
        promotion: &Promotion,
        request: &PromotionRequest,
        site: &SiteState<'_>,
    ) -> SiteDecision {
        let spec = &promotion.spec;
        let hold = self.unusable(site);
        if let Some(hold) = hold.or_else(|| self.suspended(&spec.shown_revision())) {
            return SiteDecision {
                hold: Some(hold),
                promotion: Some(summary(promotion)),
                ..SiteDecision::default()
            };
        }
        let wanted = WantedRevision {
            revision: spec.revision.clone(),
            version: spec.version.clone(),
            verified_at: spec.verified_at.as_ref().map(|time| time.0),
            request: Some(Request {
                id: request.id.clone(),
                kind: request.kind,
                by: request.by.clone(),
                ..Request::default()
            }),
        };
        self.start(&wanted, site)
    }

    /// Whether a promotion made way for one that starts it again and was never created: the process
    /// ended between the two writes.
    pub(super) fn lacks_successor(&self, promotion: &Promotion, site: &SiteState<'_>) -> bool {
        let revision = &promotion.spec.revision;
        let name = promotion_name(
            self.world.name(),
            &site.place,
            revision,
            ordinal(site, revision),
        );
        let withdrawn = promotion.spec.withdrawn.as_ref();
        let successor = withdrawn.and_then(|withdrawn| successor(&withdrawn.reason));
        let created = |it: &Promotion| it.metadata.creation_timestamp.clone();
        let mut others = site
            .promotions
            .iter()
            .filter(|it| name_of(it) != name_of(promotion));
        let is_last = others.all(|it| created(it).is_some() && created(it) < created(promotion));
        is_last && successor == Some(name.as_str())
    }
}
