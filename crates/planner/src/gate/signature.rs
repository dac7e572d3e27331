//! Gate `signature`: where `requireVerifiedSource` is set, Flux has verified the signature of the revision in
//! every source environment, or in the environment itself when the revision came there before.

use api::pipeline::{EnvironmentStatus, PipelineSpec, PipelineStatus, PromotionSettings};

use super::{Ask, Gate, GateStage, GateVerdict, PromotionQuestion, SiteQuestion};
use crate::{
    hold::{Hold, HoldReason},
    promotion_phase::is_unmerged,
    sources::{sources, takes_proposals},
};

pub(super) const GATE: Gate = Gate {
    name: "signature",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Creation(&[Ask::Site(ask)]),
    again: Some(again),
};

/// A revision that is to enter an environment.
struct EnteringRevision<'a> {
    spec: &'a PipelineSpec,
    model: &'a PipelineStatus,
    settings: Option<&'a PromotionSettings>,
    environment: &'a str,
    revision: &'a str,
}

fn ask(question: &SiteQuestion<'_>) -> GateVerdict {
    let (spec, environment) = (&question.pipeline.spec, &question.environment.name);
    let entry = EnteringRevision {
        spec,
        model: question.model,
        settings: spec.promotion_into(environment),
        environment,
        revision: &question.wanted.revision,
    };
    entry.hold(&question.wanted.shown()).into()
}

fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    if !is_unmerged(question.promotion) {
        return GateVerdict::Pass;
    }
    let promotion = &question.promotion.spec;
    let entry = EnteringRevision {
        spec: &question.pipeline.spec,
        model: question.model,
        settings: question.settings,
        environment: &question.environment.name,
        revision: &promotion.revision,
    };
    entry.hold(&promotion.shown_revision()).into()
}

impl EnteringRevision<'_> {
    fn hold(&self, shown: &str) -> Option<Hold> {
        let is_required = self.settings.is_some_and(|it| it.require_verified_source);
        if !is_required || self.is_signed_in(self.environment) {
            return None;
        }
        let whose = self.unsigned_source()?;
        Some(Hold::new(
            HoldReason::SourceNotVerified,
            format!("Flux has not verified a signature of {shown} in {whose}"),
            format!("a signed artifact, and `verify` in the Flux source of {whose}"),
        ))
    }

    /// The first source where Flux has not verified the revision.
    fn unsigned_source(&self) -> Option<&str> {
        let sources = sources(self.spec, self.environment);
        if sources.is_empty() {
            return match takes_proposals(self.spec, self.environment) {
                true => (!self.is_signed_proposal()).then_some("the pipeline's source"),
                false => Some(self.environment),
            };
        }
        let mut names = sources.into_iter().map(|it| it.name.as_str());
        names.find(|name| !self.is_signed_in(name))
    }

    fn is_signed_in(&self, environment: &str) -> bool {
        let status = self.model.environments.get(environment);
        status.is_some_and(|status| is_signed(status, self.revision))
    }

    fn is_signed_proposal(&self) -> bool {
        let proposal = self.model.proposal.as_ref();
        proposal.is_some_and(|it| it.signed && it.revision.as_deref() == Some(self.revision))
    }
}

/// Whether it is recorded that Flux verified the signature of a revision that ran in an environment.
pub(crate) fn is_signed(status: &EnvironmentStatus, revision: &str) -> bool {
    let mut ran = status.ran.iter();
    ran.any(|ran| ran.revision == revision && ran.signed)
}
