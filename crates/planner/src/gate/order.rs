//! Gate `order`: the revision is not older than what runs in the site, was not rejected, did not fail
//! and was not replaced there before.
//!
//! It is asked again before each later external step, all but "replaced before": an open pull request
//! must not be merged after somebody deployed something newer.

mod why_rejected;

use api::pipeline::EnvironmentStatus;
use why_rejected::RejectedRevision;

use super::{Ask, Gate, GateStage, GateVerdict, PromotionQuestion, SiteQuestion};
use crate::{
    hold::{Hold, HoldReason},
    promotion_phase::{creation_order, has_failed, is_unmerged, was_merged},
    requests::never_deployed_before,
    site_state::SiteState,
};

pub(crate) const NAME: &str = "order";

pub(super) const GATE: Gate = Gate {
    name: NAME,
    skipped: Some(skipped),
    rollback_skips: true,
    stage: GateStage::Creation(&[Ask::Site(ask)]),
    again: Some(again),
};

fn ask(question: &SiteQuestion<'_>) -> GateVerdict {
    let wanted = question.wanted;
    let (name, shown) = (&question.environment.name, wanted.shown());
    let status = question.model.environments.get(name);
    let verdict = compare(
        (&wanted.revision, &shown),
        (name, question.site, question.rejected, status),
    );
    if !verdict.is_closed() && has_been_replaced(question) {
        let sentence = format!("{shown} ran in {name} before and was replaced");
        return fail(HoldReason::AlreadyRan, &shown, sentence);
    }
    verdict
}

/// What is merged is followed, and not asked again.
fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    if !is_unmerged(question.promotion) {
        return GateVerdict::Pass;
    }
    let spec = &question.promotion.spec;
    let environment = &spec.environment;
    let status = question.model.environments.get(environment);
    compare(
        (&spec.revision, &spec.shown_revision()),
        (environment, question.site, question.rejected, status),
    )
}

/// The answer of the gate for an existing promotion, unless a person requested it.
pub(crate) fn ask_again(question: &PromotionQuestion<'_>) -> GateVerdict {
    GATE.ask_again(question)
}

/// What the gate would have answered about a revision that a person requested. The request takes back that the
/// environment rejects it: then earlier promotions tell.
pub(super) fn skipped(question: &PromotionQuestion<'_>) -> GateVerdict {
    let spec = &question.promotion.spec;
    let (revision, environment, shown) = (&spec.revision, &spec.environment, spec.shown_revision());
    let status = question.model.environments.get(environment);
    let rejected = RejectedRevision {
        revision,
        shown: &shown,
        environment,
        status,
    };
    let earlier = question.earlier();
    if question.rejected.contains(revision) {
        let sentence = rejected.sentence(&earlier);
        return fail(HoldReason::Rejected, &shown, sentence);
    }
    if let Some(sentence) = rejected.told_since_success(&earlier) {
        return fail(HoldReason::Rejected, &shown, sentence);
    }
    let same = earlier
        .iter()
        .rev()
        .find(|it| it.spec.revision == *revision);
    // What this promotion failed at is told by itself.
    let (created, ..) = creation_order(question.promotion);
    if same.is_some_and(|it| has_failed(it))
        || status.is_some_and(|it| never_deployed_before(it, revision, created))
    {
        let sentence = format!("{shown} failed in {environment} before");
        return fail(HoldReason::PromotionFailed, &shown, sentence);
    }
    match question.site.newer_than(&shown) {
        Some(newer) => older(environment, &newer, &shown),
        None => GateVerdict::Pass,
    }
}

/// Revisions are ordered by how they are shown: a digest has no order, its tag does.
fn compare(
    (revision, shown): (&str, &str),
    (environment, site, rejected, status): (
        &str,
        &SiteState<'_>,
        &[String],
        Option<&EnvironmentStatus>,
    ),
) -> GateVerdict {
    if rejected.iter().any(|it| it == revision) {
        let rejected = RejectedRevision {
            revision,
            shown,
            environment,
            status,
        };
        let sentence = rejected.sentence(&site.promotions);
        return fail(HoldReason::Rejected, shown, sentence);
    }
    if let Some(newer) = site.newer_than(shown) {
        return older(environment, &newer, shown);
    }
    let Some(failed) = site.failed(revision) else {
        return GateVerdict::Pass;
    };
    let status = failed.status.as_ref();
    let message = status.and_then(|status| status.message.clone());
    let because = message.unwrap_or("it did not become ready".to_owned());
    let sentence = format!("{shown} failed in {environment}: {because}");
    fail(HoldReason::PromotionFailed, shown, sentence)
}

fn older(environment: &str, newer: &str, shown: &str) -> GateVerdict {
    let sentence = format!("{environment} runs {newer}, which is newer than {shown}");
    fail(HoldReason::OlderThanRunning, shown, sentence)
}

fn fail(reason: HoldReason, revision: &str, sentence: String) -> GateVerdict {
    let resolved_by = format!("a newer revision or a request for {revision}");
    GateVerdict::Fail(Hold {
        requestable: reason.is_failure().then(|| revision.to_owned()),
        ..Hold::new(reason, sentence, resolved_by)
    })
}

/// Whether the revision ran here and another one came after it. A revision that has reached only some
/// targets so far has not been replaced.
fn has_been_replaced(question: &SiteQuestion<'_>) -> bool {
    let (site, revision) = (question.site, &question.wanted.revision);
    let Some(status) = question.model.environments.get(&question.environment.name) else {
        return false;
    };
    let position = |revision: &str| status.ran_revisions().position(|known| known == revision);
    let has_run = position(revision).is_some();
    let promotions = site.promotions.iter();
    let mut same = promotions.filter(|promotion| promotion.spec.revision == *revision);
    if !has_run && !same.any(|promotion| was_merged(promotion)) {
        return false;
    }
    let mut targets = status.targets.iter();
    let is_running = targets.any(|target| target.revision.as_ref() == Some(revision));
    let came_later = |other: &str| position(other) < position(revision) && has_run;
    let targets = site.targets.iter();
    let mut others = targets.filter_map(|target| target.revision.as_deref());
    let is_followed =
        others.any(|other| other != revision && position(other).is_some() && came_later(other));
    !is_running || is_followed
}
