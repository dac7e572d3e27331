//! Shows people on the forge how a promotion stands, before its status is stored: after a crash in between
//! it is shown again.

use std::{sync::Arc, time::Duration};

use api::{Promotion, promotion::PromotionStatus};
use planner::{PipelineEvent, Timestamp};

use super::{PromotionContext, PromotionReconciler, observe::PromotionObservation};
use crate::strategy::PromotionTask;

/// When to try again what the forge did not accept.
const RETRY: Duration = Duration::from_secs(60);
/// The reason of the event about what a forge refuses to show.
const REFUSED: &str = "FeedbackRefused";

/// Writes what differs on the pull request and records it in the status. Returns when to try again.
pub(super) async fn show(
    reconciler: &Arc<PromotionReconciler>,
    context: &PromotionContext<'_>,
    observation: &PromotionObservation,
    status: &mut PromotionStatus,
) -> Option<Timestamp> {
    // A forge that did not answer a moment ago is not asked again now.
    if observation.failure.is_some() {
        return None;
    }
    let (input, now) = (observation.attempt_input(context), reconciler.clock.now());
    let dashboard = reconciler.strategies.dashboard();
    let promotion = context.promotion;
    let update = planner::feedback_update(promotion, status, &input, dashboard, now)?;
    let before = update.shown.clone();
    let promotion = &Promotion {
        status: Some(status.clone()),
        ..promotion.clone()
    };
    let task = PromotionTask::new(context.pipeline, promotion);
    let result = reconciler.strategies.show_feedback(task, update).await;
    if planner::is_first_refusal(promotion, &before, &result.shown, context.promotions)
        && let Some(warning) = &result.shown.warning
    {
        warn(reconciler, context, warning);
    }
    status.feedback = Some(result.shown).filter(|shown| *shown != Default::default());
    let failure = result.postponed?;
    let (name, because) = (&promotion.metadata.name, &failure.message);
    tracing::warn!(promotion = name, because, "could not show how it stands");
    now.saturating_add(RETRY).ok()
}

/// Says that the forge refuses to show something.
fn warn(reconciler: &PromotionReconciler, context: &PromotionContext<'_>, warning: &str) {
    let spec = &context.promotion.spec;
    let environment = &spec.environment;
    let message = format!(
        "{environment}: the pull request does not show how the promotion stands: {warning}; the promotion \
         goes on without that"
    );
    tracing::warn!(promotion = context.promotion.metadata.name, "{message}");
    let event = PipelineEvent {
        is_warning: true,
        reason: REFUSED.to_owned(),
        message,
        environment: Some(environment.clone()),
        revision: Some(spec.revision.clone()),
    };
    reconciler.telemetry.record(context.pipeline, vec![event]);
}
