//! Gate `rollout`: the promotion has a target to start now, and its rollout is not stopped.

use api::pipeline::RequestKind;

use super::{Gate, GateStage, GateVerdict, PromotionQuestion};
use crate::{
    hold::{Hold, HoldReason},
    plan::pending_request,
    rollout::{NextBatch, RolloutContext},
};

pub(super) const GATE: Gate = Gate {
    name: "rollout",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Promotion,
    again: Some(again),
};

fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    let (pipeline, model) = (question.pipeline, question.model);
    let promotion = question.promotion;
    let context = RolloutContext::of(pipeline, model, promotion, question.now);
    let status = promotion.status.as_ref();
    let stored = status.and_then(|it| it.rollout.as_ref());
    let (Some(context), Some(stored)) = (context, stored) else {
        return GateVerdict::Pass;
    };
    if let Some(hold) = asked_to_stop(question) {
        return GateVerdict::Wait(hold);
    }
    let rollout = context.updated(stored);
    match context.next(&rollout) {
        NextBatch::Open | NextBatch::Start(_) | NextBatch::Finished => GateVerdict::Pass,
        NextBatch::Hold(hold) => GateVerdict::Wait(hold),
        NextBatch::Deploying { .. } => GateVerdict::Wait(Hold::new(
            HoldReason::WaveNotReady,
            "targets that were started are not ready yet",
            "their apps becoming ready or failing",
        )),
    }
}

/// A request to stop counts before the controller has answered it.
fn asked_to_stop(question: &PromotionQuestion<'_>) -> Option<Hold> {
    let environment = &question.environment.name;
    let request = pending_request(question.pipeline, question.model, environment)?;
    (request.kind == RequestKind::StopRollout).then(|| {
        Hold::new(
            HoldReason::RolloutStopped,
            "a person asked to stop the rollout",
            "the controller, which answers that request",
        )
    })
}
