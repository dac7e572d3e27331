//! Writes a promotion's status as one merge patch, or nothing when nothing changed; records events and
//! metrics.

use std::sync::Arc;

use api::promotion::{Phase, PromotionStatus};
use planner::{HoldReason, PipelineEvent, Timestamp};
use tokio::time::Instant;

use super::{NAME, PromotionContext, PromotionReconciler};
use crate::{pipeline::elapsed, reconcile::Reconciled, reconciler_base::StatusWrite};
use runtime::status::StatusError;

/// Writes the status if it differs from the one that was read.
pub(super) async fn write(
    reconciler: &Arc<PromotionReconciler>,
    context: &PromotionContext<'_>,
    status: PromotionStatus,
    again: Option<Timestamp>,
) -> Result<Reconciled, StatusError> {
    let promotion = context.promotion;
    let cache = &reconciler.caches.promotions;
    let written = reconciler.write_status(cache, NAME, promotion, &status);
    match written.await? {
        StatusWrite::Unchanged => return Ok(Reconciled::Unchanged { again }),
        StatusWrite::Written => record_phase(reconciler, context, &status),
        StatusWrite::Outdated => {}
    }
    Ok(Reconciled::Changed)
}

/// Records an event when a promotion enters another phase or fails for another reason.
fn record_phase(
    reconciler: &PromotionReconciler,
    context: &PromotionContext<'_>,
    status: &PromotionStatus,
) {
    let before = context.promotion.status.clone().unwrap_or_default();
    let is_same = before.phase == status.phase && before.reason == status.reason;
    let Some(phase) = status.phase.filter(|_| !is_same) else {
        return;
    };
    let spec = &context.promotion.spec;
    let (environment, revision) = (&spec.environment, &spec.revision);
    let message = status.message.as_deref().unwrap_or_default();
    let url = status.url.as_deref().map(|url| format!(" {url}"));
    let url = url.unwrap_or_default();
    tracing::info!(
        promotion = context.promotion.metadata.name,
        phase = ?phase,
        reason = status.reason,
        url = status.url,
        message,
        "the promotion changed its phase or reason"
    );
    reconciler.telemetry.record(
        context.pipeline,
        vec![PipelineEvent {
            is_warning: is_warning(phase, status),
            reason: status.reason.clone().unwrap_or(format!("{phase:?}")),
            message: format!("{environment}: {}: {message}{url}", spec.shown_revision()),
            environment: Some(environment.clone()),
            revision: Some(revision.clone()),
        }],
    );
    if before.phase != Some(phase) {
        measure(reconciler, context, status, phase);
    }
}

/// Whether somebody should look at it: it failed, is retried, or its rollout is stopped.
fn is_warning(phase: Phase, status: &PromotionStatus) -> bool {
    let is_stopped = status.reason.as_deref() == Some(HoldReason::RolloutStopped.word());
    phase == Phase::Failed || status.next_attempt.is_some() || is_stopped
}

/// Measures how long the promotion took, in its last phase and, at its end, in total.
fn measure(
    reconciler: &PromotionReconciler,
    context: &PromotionContext<'_>,
    status: &PromotionStatus,
    phase: Phase,
) {
    let metrics = reconciler.telemetry.metrics.promotions();
    let uid = context.promotion.metadata.uid.clone().unwrap_or_default();
    let mut phases = reconciler.phases.lock();
    if let Some((last, since)) = phases.remove(&uid) {
        metrics.observe_phase(last, since.elapsed());
    }
    if !phase.is_terminal() {
        phases.insert(uid, (phase, Instant::now()));
        return;
    }
    drop(phases);
    let created = context.promotion.metadata.creation_timestamp.as_ref();
    let (Some(created), Some(finished)) = (created, &status.finished_at) else {
        return;
    };
    let took = elapsed(created.0, finished.0);
    metrics.observe_end(context.pipeline, context.promotion, phase, took);
    if phase == Phase::Succeeded && reconciler.settings.metrics_per_pipeline {
        let verified = context
            .promotion
            .spec
            .verified_at
            .as_ref()
            .unwrap_or(created);
        let took = elapsed(verified.0, finished.0);
        metrics.observe_latency(context.promotion, took);
    }
}
