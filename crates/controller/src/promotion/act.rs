//! Does what comes next for a promotion. Total: what went wrong is in the outcome.

use std::sync::Arc;

use planner::{ExternalAction, Outcome, Remedy};

use super::{Promoter, Scene, observe::Sight};

/// Carries the act out; nothing where there is nothing to do.
pub(super) async fn carry_out(
    promoter: &Arc<Promoter>,
    scene: &Scene<'_>,
    act: ExternalAction,
    sight: &Sight,
) -> Option<Outcome> {
    if act == ExternalAction::Nothing {
        return None;
    }
    // Before it is used: an edit in the meantime must not go unnoticed.
    let dependencies = promoter.strategies.dependencies(scene.task()).await;
    let outcome = match (act, &sight.failure) {
        // Without having looked, nothing is done.
        (_, Some(failure)) => Outcome::Failed(failure.clone()),
        (ExternalAction::ClosePullRequest, None) => promoter.strategies.close(scene.task()).await,
        (ExternalAction::AskForMerge, None) => promoter.strategies.merge(scene.task()).await,
        (_, None) => promoter.strategies.carry_out(scene.task()).await,
    };
    remember(promoter, scene, &outcome, dependencies);
    Some(outcome)
}

/// Remembers what to look at for an edit that helps.
fn remember(promoter: &Promoter, scene: &Scene<'_>, outcome: &Outcome, dependencies: String) {
    let uid = scene.promotion.metadata.uid.as_deref().unwrap_or_default();
    let Outcome::Failed(failure) = outcome else {
        promoter.faults.forget(uid);
        return;
    };
    let waits = failure.remedy == Remedy::WaitForEdit;
    promoter.faults.note(uid, waits.then_some(dependencies));
    let (name, because) = (&scene.promotion.metadata.name, &failure.message);
    tracing::warn!(
        promotion = name,
        reason = failure.reason,
        because,
        "promotion failed"
    );
}
