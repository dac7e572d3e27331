//! Does what comes next for a promotion. Total: what went wrong is in the outcome.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use api::Promotion;
use planner::{Act, Outcome, Remedy};

use super::{Promoter, Scene, observe::Sight};

/// Carries the act out; nothing where there is nothing to do.
pub(super) async fn carry_out(
    promoter: &Arc<Promoter>,
    scene: &Scene<'_>,
    act: Act,
    sight: &Sight,
) -> Option<Outcome> {
    if act == Act::Nothing {
        return None;
    }
    // Before it is used: an edit in the meantime must not go unnoticed.
    let dependencies = promoter.strategies.dependencies(scene.task()).await;
    let outcome = match (act, &sight.failure) {
        // Without having looked, nothing is done.
        (_, Some(failure)) => Outcome::Failed(failure.clone()),
        (Act::ClosePullRequest, None) => promoter.strategies.close(scene.task()).await,
        (Act::AskForMerge, None) => promoter.strategies.merge(scene.task()).await,
        (_, None) => promoter.strategies.carry_out(scene.task()).await,
    };
    remember(promoter, scene, &outcome, dependencies);
    Some(outcome)
}

/// Remembers what to look at for an edit that helps.
fn remember(promoter: &Promoter, scene: &Scene<'_>, outcome: &Outcome, dependencies: String) {
    let uid = scene.promotion.metadata.uid.clone().unwrap_or_default();
    let Outcome::Failed(failure) = outcome else {
        promoter.faults.lock().remove(&uid);
        return;
    };
    let fault = match failure.remedy {
        Remedy::WaitForEdit => dependencies,
        Remedy::Retry | Remedy::RetryAfter(_) => String::new(),
    };
    promoter.faults.lock().insert(uid, fault);
    let (name, because) = (&scene.promotion.metadata.name, &failure.message);
    tracing::warn!(
        promotion = name,
        reason = failure.reason,
        because,
        "promotion failed"
    );
}

/// Sets promotions that fail together apart.
pub(super) fn seed(promotion: &Promotion) -> u64 {
    let mut hasher = DefaultHasher::new();
    promotion.metadata.uid.hash(&mut hasher);
    hasher.finish()
}
