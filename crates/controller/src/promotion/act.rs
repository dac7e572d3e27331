//! Carries out the next action of a promotion. Never fails: what went wrong is in the outcome.

use std::sync::Arc;

use api::promotion::PromotionStatus;
use planner::{AttemptPlan, ExternalAction, Outcome, Remedy};

use super::{PromotionContext, PromotionReconciler, observe::PromotionObservation};
use crate::strategy::{ApprovedEdits, MergeRoute, PromotionTask};

/// Carries out the action; nothing where there is none. What it changes is recorded in the plan's status.
pub(super) async fn carry_out(
    reconciler: &Arc<PromotionReconciler>,
    context: &PromotionContext<'_>,
    next: &mut AttemptPlan,
    observation: &PromotionObservation,
) -> Option<Outcome> {
    if let Some((failure, dependencies)) = &observation.unread_change {
        let outcome = Outcome::Failed(failure.clone());
        record_failure(reconciler, context, &outcome, dependencies.clone());
        return Some(outcome);
    }
    if next.action == ExternalAction::Nothing {
        return None;
    }
    // Read before they are used: an edit in the meantime must not go unnoticed.
    let dependencies = reconciler.strategies.dependencies(context.task()).await;
    let outcome = match (next.action, &observation.failure) {
        // Nothing is done without having observed the pull request.
        (_, Some(failure)) => Outcome::Failed(failure.clone()),
        (ExternalAction::ClosePullRequest, None) => {
            reconciler.strategies.close(context.task()).await
        }
        (ExternalAction::AskForMerge, None) => {
            reconciler
                .strategies
                .merge(context.task(), MergeRoute::Direct)
                .await
        }
        (ExternalAction::ScheduleMerge, None) => {
            reconciler
                .strategies
                .merge(context.task(), MergeRoute::Queue)
                .await
        }
        (ExternalAction::CancelScheduledMerge, None) => {
            reconciler
                .strategies
                .cancel_scheduled_merge(context.task())
                .await
        }
        (_, None) => {
            let task = PromotionTask {
                approved_change: next.approved_change.as_deref(),
                ..context.task()
            };
            match act_by_strategy(reconciler, context, task, &mut next.status).await {
                Some(outcome) => outcome,
                None => return None,
            }
        }
    };
    record_failure(reconciler, context, &outcome, dependencies);
    Some(outcome)
}

/// Carries out the strategy; nothing where what people approved must be stored first.
async fn act_by_strategy(
    reconciler: &Arc<PromotionReconciler>,
    context: &PromotionContext<'_>,
    task: PromotionTask<'_>,
    status: &mut PromotionStatus,
) -> Option<Outcome> {
    let strategies = &reconciler.strategies;
    let (outcome, change) = match strategies.approved_edits(task).await {
        Ok(ApprovedEdits::Known) => {
            let done = strategies.carry_out(task, context.promotions).await;
            (done.outcome, done.change)
        }
        Ok(ApprovedEdits::Approved(hashes)) => {
            set_approved_edits(status, hashes);
            return None;
        }
        Ok(ApprovedEdits::Differs(change)) => (Outcome::ChangeDiffers, Some(change)),
        Err(failure) => (Outcome::Failed(failure), None),
    };
    if outcome == Outcome::ChangeDiffers {
        // What people approve next is compared as a whole again.
        set_approved_edits(status, Vec::new());
    }
    status.change = change.or(status.change.take());
    Some(outcome)
}

fn set_approved_edits(status: &mut PromotionStatus, hashes: Vec<String>) {
    if let Some(rollout) = &mut status.rollout {
        rollout.approved_edits = hashes;
    }
}

/// Records which dependencies an edit would have to change.
fn record_failure(
    reconciler: &PromotionReconciler,
    context: &PromotionContext<'_>,
    outcome: &Outcome,
    dependencies: String,
) {
    let uid = context
        .promotion
        .metadata
        .uid
        .as_deref()
        .unwrap_or_default();
    let Outcome::Failed(failure) = outcome else {
        reconciler.failure_dependencies.forget(uid);
        return;
    };
    let waits = failure.remedy == Remedy::WaitForEdit;
    reconciler
        .failure_dependencies
        .record(uid, waits.then_some(dependencies));
    let (name, because) = (&context.promotion.metadata.name, &failure.message);
    tracing::warn!(
        promotion = name,
        reason = failure.reason,
        because,
        "an action of the promotion failed"
    );
}
