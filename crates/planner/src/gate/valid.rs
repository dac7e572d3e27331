//! Gate `valid`: the pipeline, its source and the promotion settings can work as they are written.

use api::{flux::is_range, pipeline::PipelineSpec};

use super::{Ask, EnvironmentQuestion, Gate, GateStage, GateVerdict, PromotionQuestion};
use crate::{
    hold::{Hold, HoldReason},
    plan::CandidateSource,
    sources::{receives_nothing, takes_proposals},
    validity,
};

pub(super) const GATE: Gate = Gate {
    name: "valid",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Creation(&[Ask::Environment(settings), Ask::Source(proposal)]),
    again: Some(again),
};

/// Why no promotion of the pipeline can ever start.
pub(crate) fn invalid_spec(spec: &PipelineSpec) -> Option<Hold> {
    let text = validity::invalid_spec(spec)?;
    let resolved_by = "an edit of the pipeline";
    Some(Hold::new(HoldReason::InvalidSpec, text, resolved_by))
}

fn invalid_source(spec: &PipelineSpec) -> Option<Hold> {
    let text = validity::invalid_source(spec)?;
    let resolved_by = "an edit of the pipeline's source";
    Some(Hold::new(HoldReason::InvalidSource, text, resolved_by))
}

fn settings(question: &EnvironmentQuestion<'_>) -> GateVerdict {
    let (spec, name) = (&question.pipeline.spec, &question.environment.name);
    if validity::strategies(&question.settings.strategy).is_empty() {
        let (because, resolved_by) = match validity::hides_strategy(spec, question.environment) {
            true => (
                ": its own `promotion` replaces the pipeline's",
                "repeating `strategy` there",
            ),
            false => ("", "a strategy in the pipeline"),
        };
        let sentence = format!("the promotion settings of {name} name no strategy{because}");
        return GateVerdict::Wait(Hold::new(HoldReason::NoStrategy, sentence, resolved_by));
    }
    if let Some(hold) = version_tag_of_range(question) {
        return GateVerdict::Wait(hold);
    }
    let is_moved_by_others = receives_nothing(spec, name);
    if spec.app_ref.is_none() && !is_moved_by_others {
        let sentence = "without appRef the apps are shown but not promoted";
        let resolved_by = "an appRef in the pipeline";
        return GateVerdict::Wait(Hold::new(HoldReason::NoAppRef, sentence, resolved_by));
    }
    GateVerdict::Pass
}

/// A tag with `${version}` in an environment whose targets follow a range: the newest version wins there,
/// so that a tag could never bring an older one back.
fn version_tag_of_range(question: &EnvironmentQuestion<'_>) -> Option<Hold> {
    let name = &question.environment.name;
    let to = question.settings.strategy.oci.as_ref()?;
    let status = question.model.environments.get(name)?;
    let mut follows = status.targets.iter().filter_map(|it| it.follows.as_deref());
    let range = follows.find(|follows| is_range(follows));
    let range = range.filter(|_| to.tag.contains("${version}"))?;
    Some(Hold::new(
        HoldReason::InvalidSpec,
        format!(
            "the tag of {name} has ${{version}}, and {name} follows {range}: it could never roll back"
        ),
        "a tag without ${version} that the targets follow",
    ))
}

/// Whether the pipeline's source can propose a revision.
fn proposal(source: &CandidateSource<'_>) -> GateVerdict {
    let CandidateSource::Proposal { spec, proposal } = source else {
        return GateVerdict::Pass;
    };
    if let Some(hold) = invalid_source(spec) {
        return GateVerdict::Wait(hold);
    }
    let error = proposal.and_then(|proposal| proposal.error.as_ref());
    let (Some(source), Some(error)) = (&spec.source, error) else {
        return GateVerdict::Pass;
    };
    let name = source.name.as_deref().unwrap_or_default();
    GateVerdict::Wait(Hold::new(
        HoldReason::SourceUnreadable,
        format!("the {:?} {name} proposes nothing: {error}", source.kind),
        "its next revision",
    ))
}

/// The spec is asked again, and the source where it proposed the promotion.
fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    let spec = &question.pipeline.spec;
    if let Some(hold) = invalid_spec(spec) {
        return GateVerdict::Wait(hold);
    }
    let is_first = takes_proposals(spec, &question.environment.name);
    let is_requested = question.promotion.spec.request.is_some();
    invalid_source(spec)
        .filter(|_| is_first && !is_requested)
        .into()
}
