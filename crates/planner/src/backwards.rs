//! Whether a revision that nobody asked for would take a place backwards.
//!
//! Asked before a promotion starts, and again before each later external step: an open pull request
//! must not be merged after somebody deployed something newer. A person's request overrides it.

use api::{
    Promotion,
    pipeline::{HandledRequest, TargetStatus},
    promotion::Phase,
};

use crate::{
    hold::{Hold, HoldReason},
    plan::{is_deploying, is_unmerged, shown_by},
    version_order,
};

/// What is known about the place that a revision would enter.
pub(crate) struct PlaceState<'a> {
    /// The environment's name.
    pub(crate) environment: &'a str,
    /// The targets of the place.
    pub(crate) targets: &'a [&'a TargetStatus],
    /// All promotions into the place.
    pub(crate) promotions: &'a [&'a Promotion],
    /// Revisions that the environment rejected.
    pub(crate) rejected: &'a [String],
    /// The revision it is taken to have where no target tells.
    pub(crate) assumed: Option<&'a str>,
}

/// Why a promotion that exists may take no further external step. What is merged is followed.
pub(crate) fn ask_again(
    promotion: &Promotion,
    place: &PlaceState<'_>,
    last_request: Option<&HandledRequest>,
) -> Option<Hold> {
    if !is_unmerged(promotion) || is_asked_for(promotion, last_request) {
        return None;
    }
    let spec = &promotion.spec;
    backwards((&spec.revision, &spec.shown_revision()), place)
}

/// Whether a person asked for it: it was made for a request, or a request found it under way.
fn is_asked_for(promotion: &Promotion, last_request: Option<&HandledRequest>) -> bool {
    let answers = |request: &HandledRequest| {
        request.promotion.is_some() && request.promotion == promotion.metadata.name
    };
    promotion.spec.request.is_some() || last_request.is_some_and(answers)
}

/// Why a revision that nobody asked for would be a step back. Revisions are ordered by what is shown
/// of them: a digest says nothing, its tag does.
pub(crate) fn backwards((revision, shown): (&str, &str), place: &PlaceState<'_>) -> Option<Hold> {
    let name = place.environment;
    if place.rejected.iter().any(|it| it == revision) {
        let sentence = format!("{shown} was rolled back in {name}, or its pull request closed");
        return Some(until_asked(HoldReason::Rejected, shown, sentence));
    }
    if let Some(newer) = place.newer_than(shown) {
        let sentence = format!("{name} runs {newer}, which is newer than {shown}");
        return Some(until_asked(HoldReason::OlderThanRunning, shown, sentence));
    }
    let failed = place.failed(revision)?;
    let status = failed.status.as_ref();
    let message = status.and_then(|status| status.message.clone());
    let because = message.unwrap_or("it did not get ready".to_owned());
    let sentence = format!("{shown} failed in {name}: {because}");
    Some(until_asked(HoldReason::PromotionFailed, shown, sentence))
}

/// A hold that a newer revision lifts, or a person.
pub(crate) fn until_asked(reason: HoldReason, revision: &str, sentence: String) -> Hold {
    let lifted_by = format!("a newer revision, or a request for {revision}, lifts this");
    Hold::new(reason, sentence, lifted_by)
}

impl PlaceState<'_> {
    /// A revision that is newer and runs here or is on its way from git.
    fn newer_than(&self, shown: &str) -> Option<String> {
        let running = self.targets.iter();
        let running = running.filter_map(|target| target.shown_revision());
        let promotions = self.promotions.iter();
        let deploying = promotions.filter(|promotion| is_deploying(promotion));
        let assumed = self.assumed.map(|it| shown_by(self.promotions, it));
        running
            .chain(assumed)
            .chain(deploying.map(|promotion| promotion.spec.shown_revision()))
            .find(|other| version_order::is_older(shown, other))
    }

    /// The last promotion of the revision, if it failed by the revision's own fault.
    fn failed(&self, revision: &str) -> Option<&Promotion> {
        let of_revision = |promotion: &&&Promotion| promotion.spec.revision == revision;
        let all = self.promotions.iter().filter(of_revision);
        let last = all.max_by_key(|promotion| promotion.spec.ordinal)?;
        let status = last.status.as_ref()?;
        let is_refusal = status.reason.as_deref() == Some(crate::attempt::STRATEGY_CHANGED);
        (status.phase == Some(Phase::Failed) && !is_refusal).then_some(*last)
    }
}
