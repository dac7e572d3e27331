//! Gate `turn`: no promotion that a person requested or approved, and no earlier promotion, is under way
//! in the site.

use api::{
    Promotion,
    pipeline::{Request, RequestKind},
    revision::identity,
};

use super::{Ask, Gate, GateStage, GateVerdict, PromotionQuestion, SiteQuestion};
use crate::{
    hold::{Hold, HoldReason},
    plan::{WantedRevision, pending_request},
    promotion_phase::{is_lost_request, lets_successor_act, name_of},
};

pub(super) const GATE: Gate = Gate {
    name: "turn",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Creation(&[Ask::Site(ask)]),
    again: Some(again),
};

/// A revision that nobody requested waits for one that a person requested, or that has all its
/// approvals.
fn ask(question: &SiteQuestion<'_>) -> GateVerdict {
    let first = question.first;
    let hold = first.map(|first| hold(question.wanted, first, &name_of(first)));
    hold.or_else(|| lost_request(question)).into()
}

/// What a person requested is not replaced without a person, also where a restored hub does not know how far it
/// came.
fn lost_request(question: &SiteQuestion<'_>) -> Option<Hold> {
    let last = question.site.promotions.last()?;
    let is_requested = question.wanted.kind().is_some();
    let has_arrived = || question.site.runs(&last.spec.revision);
    if is_requested || !is_lost_request(last) || has_arrived() {
        return None;
    }
    let (revision, wanted) = (last.spec.shown_revision(), question.wanted.shown());
    let resolved_by = match revision == wanted {
        true => format!("a request for {revision}"),
        false => format!("a request for {revision} or {wanted}"),
    };
    let sentence =
        format!("{revision}, which a person requested, was in progress when its status was lost");
    Some(Hold::new(
        HoldReason::RequestUnderWay,
        sentence,
        resolved_by,
    ))
}

/// The hold of a revision that waits for a promotion, or for the one of this name that brings the same.
pub(crate) fn hold(wanted: &WantedRevision, first: &Promotion, name: &str) -> Hold {
    let revision = first.spec.shown_revision();
    if first.spec.cause.is_some() {
        let sentence = format!("the rollback to {revision} after a failed check is in progress");
        let resolved_by = format!("the end of promotion {name}, or a request");
        return Hold::new(HoldReason::RequestUnderWay, sentence, resolved_by);
    }
    if first.spec.request.is_some() {
        let sentence = format!("{revision}, which a person requested, is in progress");
        let resolved_by = format!("the end of promotion {name}");
        return Hold::new(HoldReason::RequestUnderWay, sentence, resolved_by);
    }
    let resolved_by = format!("the end of promotion {name}, or a request");
    if first.spec.rollout.is_some() {
        let sentence = format!("{} waits for the rollout of {revision}", wanted.shown());
        return Hold::new(HoldReason::RolloutUnderWay, sentence, resolved_by);
    }
    let sentence = format!(
        "{} waits for {revision}, which has its approvals and is in progress",
        wanted.shown()
    );
    Hold::new(HoldReason::ApprovedUnderWay, sentence, resolved_by)
}

/// An existing promotion waits for earlier ones, and for a request of another revision that has not
/// been taken up.
fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    if let Some(predecessor) = predecessor(question) {
        let name = name_of(predecessor);
        return GateVerdict::Wait(Hold::new(
            HoldReason::WaitingForPredecessor,
            format!("the earlier promotion {name} has not ended"),
            "its end",
        ));
    }
    let hold = other_request(question).map(|request| match request.kind {
        RequestKind::Cancel => Hold::new(
            HoldReason::RequestUnderWay,
            "a person asked to cancel what is in progress",
            "the controller, which answers that request",
        ),
        _ => Hold::new(
            HoldReason::RequestUnderWay,
            format!("a person requested {}, which goes first", request.revision),
            "the end of that promotion",
        ),
    });
    hold.into()
}

/// An earlier promotion into the site that could still bring its change into git.
pub(crate) fn predecessor<'a>(question: &PromotionQuestion<'a>) -> Option<&'a Promotion> {
    let order = |promotion: &Promotion| {
        let created = promotion.metadata.creation_timestamp.clone();
        let name = promotion.metadata.name.clone();
        (created.map(|time| time.0), promotion.spec.ordinal, name)
    };
    let own = order(question.promotion);
    // Of two that were created in the same second, one that was withdrawn goes first.
    let is_earlier = |other: &&Promotion| other.spec.withdrawn.is_some() || order(other) < own;
    let others = question.site.others(question.promotion);
    let mut earlier = others.filter(is_earlier);
    earlier.find(|other| !lets_successor_act(other))
}

/// A request for another revision that has not been taken up yet.
fn other_request(question: &PromotionQuestion<'_>) -> Option<Request> {
    let spec = &question.promotion.spec;
    let pending = pending_request(question.pipeline, question.model, &spec.environment)?;
    let own = spec.request.as_ref();
    let is_own = own.is_some_and(|own| own.id == pending.id);
    let is_same = identity(&pending.revision) == spec.revision || pending.revision == spec.version;
    let goes_first = match pending.kind {
        RequestKind::Cancel => pending.revision.is_empty() || is_same,
        RequestKind::Retry
        | RequestKind::StopRollout
        | RequestKind::ResumeRollout
        | RequestKind::SkipTarget => false,
        RequestKind::Promote | RequestKind::Rollback => !is_same,
    };
    (!is_own && goes_first).then_some(pending)
}
