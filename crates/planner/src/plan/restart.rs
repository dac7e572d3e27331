//! Starts a requested promotion again after somebody edited its strategy.

use api::{
    Promotion,
    names::promotion_name,
    pipeline::Request,
    promotion::{Phase, PromotionRequest},
};

use super::{
    site::{SiteDecision, SitePlanner, WantedRevision},
    start::ordinal,
    successor,
};
use crate::{
    attempt::STRATEGY_CHANGED,
    gate::SiteQuestion,
    promotion_phase::{is_unmerged, name_of, phase_of},
    site_state::SiteState,
};

impl SitePlanner<'_> {
    /// Whether the pipeline's strategy was edited before it was carried out.
    pub(super) fn is_outdated(&self, promotion: &Promotion) -> bool {
        let status = promotion.status.as_ref();
        let reason = status.and_then(|status| status.reason.as_deref());
        let is_refused =
            phase_of(promotion) == Some(Phase::Failed) && reason == Some(STRATEGY_CHANGED);
        let differs = promotion.spec.strategy != self.settings.strategy;
        is_refused || is_unmerged(promotion) && differs
    }

    /// A promotion under way goes on; a requested one whose strategy was edited starts again.
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

    /// Starts what a person requested with the strategy that the pipeline has now.
    fn start_again(
        &self,
        promotion: &Promotion,
        request: &PromotionRequest,
        site: &SiteState<'_>,
    ) -> SiteDecision {
        let spec = &promotion.spec;
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
            cause: None,
        };
        self.start_if_gates_pass(SiteQuestion {
            pipeline: self.input.pipeline,
            model: self.input.model,
            environment: self.environment,
            site,
            wanted: &wanted,
            rejected: &[],
            first: None,
        })
    }

    /// Whether a promotion was superseded by one that was never created: the process ended between the
    /// two writes.
    pub(super) fn lacks_successor(&self, promotion: &Promotion, site: &SiteState<'_>) -> bool {
        let revision = &promotion.spec.revision;
        let name = promotion_name(
            self.input.name(),
            &site.site,
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
