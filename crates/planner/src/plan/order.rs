//! Whether a place would be taken backwards: by what is wanted, or by a promotion under way.

use api::Promotion;

use super::{
    input::{SiteState, was_merged},
    site::{SitePlanner, WantedRevision},
};
use crate::{
    backwards::{PlaceState, ask_again, backwards, until_asked},
    hold::{Hold, HoldReason},
};

impl SitePlanner<'_> {
    /// Why a revision that nobody asked for would be a step back, or one that was left before.
    pub(super) fn backwards(
        &self,
        wanted: &WantedRevision,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> Option<Hold> {
        let revision = &wanted.revision;
        let shown = wanted.shown();
        backwards((revision, &shown), &self.state(site, rejected)).or_else(|| {
            let name = &self.environment.name;
            let sentence = format!("{shown} was in {name} before and was left");
            let hold = until_asked(HoldReason::AlreadyRan, &shown, sentence);
            self.has_been_left(revision, site).then_some(hold)
        })
    }

    /// Why a promotion under way may go no further.
    pub(super) fn out_of_order(
        &self,
        promotion: &Promotion,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> Option<Hold> {
        let status = self.world.status(&self.environment.name);
        let last_request = status.and_then(|status| status.last_request.as_ref());
        ask_again(promotion, &self.state(site, rejected), last_request)
    }

    fn state<'b>(&'b self, site: &'b SiteState<'_>, rejected: &'b [String]) -> PlaceState<'b> {
        PlaceState {
            environment: &self.environment.name,
            targets: &site.targets,
            promotions: &site.promotions,
            rejected,
            assumed: site.assumed,
        }
    }

    /// Whether the revision was here and something else came after it. One that has reached only
    /// some targets so far has not been left.
    fn has_been_left(&self, revision: &str, site: &SiteState<'_>) -> bool {
        let name = self.environment.name.as_str();
        let ran = self.world.status(name).map(|status| status.ran.as_slice());
        let ran = ran.unwrap_or_default();
        let position = |revision: &str| ran.iter().position(|known| known == revision);
        let has_ran = position(revision).is_some();
        let was_merged = site
            .promotions
            .iter()
            .any(|promotion| promotion.spec.revision == revision && was_merged(promotion));
        if !has_ran && !was_merged {
            return false;
        }
        let is_running = self
            .world
            .targets(name)
            .iter()
            .any(|target| target.revision.as_deref() == Some(revision));
        let came_later = |other: &str| position(other) < position(revision) && has_ran;
        let is_followed = site
            .targets
            .iter()
            .filter_map(|target| target.revision.as_deref())
            .any(|other| other != revision && position(other).is_some() && came_later(other));
        !is_running || is_followed
    }
}
