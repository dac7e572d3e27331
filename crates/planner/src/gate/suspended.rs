//! Gate `suspended`: neither the pipeline nor the environment is suspended.

use api::pipeline::{Environment, PipelineSpec};

use super::{Ask, Gate, GateStage, GateVerdict, PromotionQuestion, SiteQuestion};
use crate::hold::{Hold, HoldReason};

pub(super) const GATE: Gate = Gate {
    name: "suspended",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Creation(&[Ask::Site(ask)]),
    again: Some(again),
};

/// Whether promotions into an environment are suspended.
pub(crate) fn is_suspended(pipeline: &PipelineSpec, environment: &Environment) -> bool {
    pipeline.suspend || environment.suspend
}

fn ask(question: &SiteQuestion<'_>) -> GateVerdict {
    let revision = question.wanted.shown();
    verdict(&question.pipeline.spec, question.environment, &revision)
}

pub(crate) fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    let revision = question.promotion.spec.shown_revision();
    verdict(&question.pipeline.spec, question.environment, &revision)
}

fn verdict(pipeline: &PipelineSpec, environment: &Environment, revision: &str) -> GateVerdict {
    if !is_suspended(pipeline, environment) {
        return GateVerdict::Pass;
    }
    let suspended = match pipeline.suspend {
        true => "the pipeline",
        false => environment.name.as_str(),
    };
    GateVerdict::Wait(Hold::new(
        HoldReason::Suspended,
        format!("{suspended} is suspended, {revision} waits"),
        format!("resuming {suspended}"),
    ))
}
