//! What helps an environment that does not go on: what a person can do, as commands and buttons offer it.
//!
//! What failed or was rejected is never simply suggested: where people can request it nevertheless, its caution is
//! named with it.

use api::{Pipeline, pipeline::PipelineStatus, promotion::Phase, revision::identity};

use crate::{
    failure::environment_failure,
    requests::{REJECTED_HERE, caution},
    summary::{SummaryState, environment_state},
};

/// What a person can do about the state of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuggestedAction {
    /// Approve what waits.
    Approve,
    /// Resume the environment.
    Resume,
    /// Roll back from the release that failed to this revision.
    RollBack(String),
    /// Request this revision nevertheless.
    RequestNevertheless {
        /// The revision.
        revision: String,
        /// Why it is not a good choice, as a clause: `failed a check`, `was rejected here`.
        caution: String,
    },
}

/// What helps an environment; nothing where no action of a person does.
pub fn suggested_action(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    environment: &str,
) -> Option<SuggestedAction> {
    match environment_state(pipeline, model, environment) {
        SummaryState::AwaitingApproval => Some(SuggestedAction::Approve),
        SummaryState::Suspended if !pipeline.spec.suspend => Some(SuggestedAction::Resume),
        SummaryState::Held | SummaryState::Failed => {
            let failure = environment_failure(pipeline, model, environment);
            let failed = failure.as_ref().map(|it| it.revision);
            if let Some(phase) = failed.and_then(|it| way_out(model, environment, it)) {
                return (phase == Phase::AwaitingApproval).then_some(SuggestedAction::Approve);
            }
            let earlier = failure.and_then(|failure| failure.rollback);
            let back = earlier.map(|earlier| SuggestedAction::RollBack(earlier.to_owned()));
            back.or_else(|| nevertheless(model, environment))
        }
        _ => None,
    }
}

/// The phase of what brings another revision than the one that failed, such as a rollback that is on its way.
fn way_out(model: &PipelineStatus, environment: &str, failed: &str) -> Option<Phase> {
    let promotion = model.environments.get(environment)?.promotion.as_ref()?;
    let is_another = identity(&promotion.revision) != identity(failed);
    let phase = promotion.phase?;
    (is_another && !phase.is_terminal()).then_some(phase)
}

/// The request that a hold leaves to people.
fn nevertheless(model: &PipelineStatus, environment: &str) -> Option<SuggestedAction> {
    let status = model.environments.get(environment)?;
    let revision = status.hold.as_ref()?.requestable.clone()?;
    let caution = match caution(model, environment, identity(&revision)) {
        Some(REJECTED_HERE) => format!("was {REJECTED_HERE}"),
        known => known.unwrap_or("failed here").to_owned(),
    };
    Some(SuggestedAction::RequestNevertheless { revision, caution })
}
