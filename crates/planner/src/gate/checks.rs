//! Gate `checks`: the revision passed every check in `promotion.checks` before it enters.
//!
//! It is asked of the existing promotion, so that people can read and approve it meanwhile. Once its change
//! is proposed, it is asked only whether a check has failed since. A person passes a check by an override
//! that names it. A derived rollback passes: its revision has entered before.

use super::{Gate, GateStage, GateVerdict, PromotionQuestion};
use crate::{
    checks::CheckStates,
    hold::{Hold, HoldReason},
    overrides,
    promotion_phase::{is_unmerged, phase_of},
};
use api::promotion::Phase;

pub(super) const GATE: Gate = Gate {
    name: "checks",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Promotion,
    again: Some(ask_again),
};

fn ask_again(question: &PromotionQuestion<'_>) -> GateVerdict {
    let promotion = question.promotion;
    let names = question.settings.map(|it| it.checks.as_slice());
    let names = names.filter(|names| !names.is_empty() && is_unmerged(promotion));
    let Some(names) = names.filter(|_| promotion.spec.cause.is_none()) else {
        return GateVerdict::Pass;
    };
    let overriding = overrides::valid(question);
    let passes = |check: &str| overriding.is_some_and(|by| by.passes(&format!("check/{check}")));
    let status = question.model.environments.get(&question.environment.name);
    let revision = &promotion.spec.revision;
    let all = CheckStates::promotion(names, status, revision);
    let is_needed = !all.have_passed();
    let states = all.without(passes);
    if let Some(failed) = states.failed() {
        return GateVerdict::Fail(failed_hold(question, failed.check, &failed.failure()));
    }
    let is_proposed = phase_of(promotion) == Some(Phase::WaitingForMerge);
    if !states.have_passed() && !is_proposed {
        return GateVerdict::Wait(Hold::new(
            HoldReason::CheckPending,
            format!(
                "{} has not passed the checks before {}: {}",
                promotion.spec.shown_revision(),
                question.environment.name,
                states.open()
            ),
            "those checks, once they pass",
        ));
    }
    match overriding.filter(|_| is_needed && names.iter().any(|name| passes(name))) {
        Some(overriding) => GateVerdict::Overridden(overriding.sentence()),
        None => GateVerdict::Pass,
    }
}

fn failed_hold(question: &PromotionQuestion<'_>, check: &str, failure: &str) -> Hold {
    let name = &question.environment.name;
    let shown = question.promotion.spec.shown_revision();
    Hold::new(
        HoldReason::CheckFailed,
        format!("{shown} may not enter {name}: the check {failure}"),
        format!(
            "a newer revision, a retry of the checks of {name}, or an override of check/{check}"
        ),
    )
}
