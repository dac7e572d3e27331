//! Takes back a waiting request, or promotions whose change is not merged yet.
//!
//! What that means for the revisions of the environment is in `rejected`.

use api::{
    Pipeline, Promotion,
    pipeline::{PipelineStatus, Request, RequestKind},
};

use super::{
    Step,
    environment::EnvironmentDecision,
    input::PlanInput,
    rejected::rejected,
    request::{handled, pending, present, refused},
    withdrawal::CANCELLED,
};
use crate::{
    hold::list,
    promotion_phase::{is_unmerged, merged_at, name_of, names_revision},
};

/// Who cancelled the promotion, and why, as a sentence; nothing if nobody did.
pub fn cancellation(promotion: &Promotion) -> Option<&str> {
    let withdrawn = promotion.spec.withdrawn.as_ref()?;
    let reason = withdrawn.reason.as_str();
    reason.starts_with(CANCELLED).then_some(reason)
}

/// Who cancelled the promotion, and why: `ann: not yet`.
pub(crate) fn cancelled_by(promotion: &Promotion) -> Option<&str> {
    cancellation(promotion)?.strip_prefix(CANCELLED)
}

/// The revision that a request to cancel takes back: that of a promotion whose change is not merged, else that
/// of a request that waits; nothing if the request would be refused.
pub fn cancellable(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    promotions: &[Promotion],
    environment: &str,
) -> Option<String> {
    let mut here = promotions.iter();
    let open = here.find(|it| {
        it.spec.environment == environment && is_unmerged(it) && merged_at(it).is_none()
    });
    let waiting = || pending(pipeline, model, environment);
    match open {
        Some(promotion) => Some(promotion.spec.shown_revision()),
        None => waiting()
            .filter(|it| it.kind != RequestKind::Cancel)
            .map(|it| it.revision),
    }
}

/// Handles a pending request to cancel. Whether the environment is suspended or frozen does not matter:
/// nothing starts.
pub(super) fn take_back(
    input: &PlanInput<'_>,
    environment: &str,
    decision: &mut EnvironmentDecision,
) {
    let pending = pending(input.pipeline, input.model, environment);
    let Some(request) = pending.filter(|it| it.kind == RequestKind::Cancel) else {
        return;
    };
    let reason = reason(&request);
    let here = input.promotions.iter().copied();
    let here = here.filter(|it| it.spec.environment == environment);
    let named = here.filter(|it| names_revision(it, &request.revision));
    // Also those that were withdrawn by a pass whose status was not written.
    let is_taken_back = |it: &&Promotion| {
        is_unmerged(it) && merged_at(it).is_none()
            || is_withdrawn_by(input, (&request, &reason), it)
    };
    let taken_back: Vec<_> = named.filter(is_taken_back).collect();
    decision.says.rejected = rejected(input, environment, &taken_back);
    let open = taken_back.iter().filter(|it| is_unmerged(it));
    decision
        .steps
        .extend(open.map(|it| Step::WithdrawPromotion {
            name: name_of(it),
            reason: reason.clone(),
        }));
    let is_skipped = |it: &&Promotion| decision.says.rejected.contains(&it.spec.revision);
    let effect = taken_back.iter().any(is_skipped);
    let effect = effect.then(|| not_promoted_again(environment));
    let answer = answer(input, environment, &request, &taken_back);
    let answer = answer.map(|text| text + &effect.unwrap_or_default());
    decision.says.last_request = Some(match answer {
        Some(text) => handled(input, environment, &request, (None, &text)),
        None => {
            let text = nothing_to_cancel(input, environment);
            refused(input, environment, &request, &text)
        }
    });
}

/// Whether a request to cancel withdrew a promotion, and not an earlier one of the same person: nothing came after
/// it in its site, and it did not end before the request.
fn is_withdrawn_by(
    input: &PlanInput<'_>,
    (request, reason): (&Request, &str),
    promotion: &Promotion,
) -> bool {
    let withdrawn = promotion.spec.withdrawn.as_ref();
    let mut sites = input.promotions_by_site(&promotion.spec.environment);
    let is_last = |site: &[&Promotion]| {
        let last = site.last();
        last.is_some_and(|last| name_of(last) == name_of(promotion))
    };
    let status = promotion.status.as_ref();
    let ended = status.and_then(|status| status.finished_at.as_ref());
    let has_ended_before = ended
        .zip(request.at.as_ref())
        .is_some_and(|(ended, at)| ended.0 < at.0);
    withdrawn.is_some_and(|it| it.reason == reason) && !has_ended_before && sites.any(is_last)
}

fn not_promoted_again(environment: &str) -> String {
    format!("; it is not promoted into {environment} again until somebody requests it")
}

fn nothing_to_cancel(input: &PlanInput<'_>, environment: &str) -> String {
    let text = "no request waits, and no promotion is in progress that is not merged yet";
    let mut here = input.promotions.iter();
    let is_rolling = |it: &&Promotion| {
        it.spec.environment == environment && it.spec.rollout.is_some() && is_unmerged(it)
    };
    match here.any(is_rolling) {
        true => format!("{text}; a rollout that has begun can be stopped or rolled back"),
        false => text.to_owned(),
    }
}

fn reason(request: &Request) -> String {
    let by = request.by.as_deref().unwrap_or("somebody");
    let note = request.note.as_deref().filter(|note| !note.is_empty());
    let note = note.map(|note| format!(": {note}")).unwrap_or_default();
    let reason = format!("{CANCELLED}{by}{note}");
    crate::conditions::cut(&reason, LONGEST_REASON)
}

/// The longest reason of a withdrawal, in bytes.
const LONGEST_REASON: usize = 1024;

/// What was taken back, for the person who asked; nothing if there was nothing.
fn answer(
    input: &PlanInput<'_>,
    environment: &str,
    request: &Request,
    taken_back: &[&Promotion],
) -> Option<String> {
    let mut revisions: Vec<_> = taken_back
        .iter()
        .map(|it| it.spec.shown_revision())
        .collect();
    revisions.dedup();
    let status = input.status(environment);
    let last = status.and_then(|status| status.last_request.as_ref());
    let is_open =
        |it: &Request| it.id != request.id && !last.is_some_and(|last| last.covers(&it.id));
    let mut waiting = present(input.pipeline, input.model, environment).filter(is_open);
    let waiting = waiting
        .next()
        .map(|it| format!("the request for {}", it.revision));
    let parts: Vec<_> = revisions.into_iter().chain(waiting).collect();
    (!parts.is_empty()).then(|| format!("cancelled {}", list(&parts)))
}
