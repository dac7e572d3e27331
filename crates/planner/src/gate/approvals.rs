//! Gate `approvals`: a person has approved the promotion, where the pipeline demands that.
//!
//! It is asked of the existing promotion, so that people can read what they approve.

use api::{Promotion, pipeline::PromotionSettings, promotion::Phase};

use super::{Gate, GateStage, GateVerdict, PromotionQuestion};
use crate::{
    hold::{Hold, HoldReason},
    promotion_phase::phase_of,
};

pub(super) const GATE: Gate = Gate {
    name: "approvals",
    request_overrides: false,
    rollback_skips: false,
    stage: GateStage::Promotion,
    again: Some(again),
};

/// Whether a promotion needs an approval that nobody has given. The pipeline may have become manual
/// after the promotion was created.
pub(crate) fn is_missing(promotion: &Promotion, settings: Option<&PromotionSettings>) -> bool {
    let is_manual = settings.is_some_and(|settings| settings.manual);
    (promotion.spec.needs_approval || is_manual) && promotion.spec.approval.is_none()
}

/// Whether a promotion needed approvals and has all of them.
pub(crate) fn is_complete(question: &PromotionQuestion<'_>) -> bool {
    question.promotion.spec.needs_approval && !again(question).is_closed()
}

/// Whether nothing but an approval is missing, so that a person can give it now. Without the
/// settings, the phase says whether the pipeline has become manual.
pub(crate) fn is_awaited(promotion: &Promotion, settings: Option<&PromotionSettings>) -> bool {
    let is_open = promotion.spec.approval.is_none() && promotion.spec.withdrawn.is_none();
    match phase_of(promotion) {
        Some(Phase::AwaitingApproval) if settings.is_none() => is_open,
        None | Some(Phase::AwaitingApproval) => is_open && is_missing(promotion, settings),
        Some(_) => false,
    }
}

pub(crate) fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    match is_missing(question.promotion, question.settings) {
        true => GateVerdict::Wait(hold(question.promotion)),
        false => GateVerdict::Pass,
    }
}

/// The hold of a promotion that waits for its approval.
pub(crate) fn hold(promotion: &Promotion) -> Hold {
    let revision = promotion.spec.shown_revision();
    let environment = &promotion.spec.environment;
    Hold::new(
        HoldReason::AwaitingApproval,
        format!("{revision} waits for approval to enter {environment}"),
        format!("an approval of {revision}"),
    )
}
