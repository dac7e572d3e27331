//! Writes a promotion's status as one merge patch, or nothing when nothing changed; records events and
//! metrics.

use std::sync::Arc;

use api::promotion::{Phase, PromotionStatus};
use planner::Timestamp;
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
        StatusWrite::Written => record(reconciler, context, &status),
        StatusWrite::Outdated => {}
    }
    Ok(Reconciled::Changed)
}

/// Records approvals, and that a promotion enters another phase or waits or fails for another reason.
fn record(
    reconciler: &PromotionReconciler,
    context: &PromotionContext<'_>,
    status: &PromotionStatus,
) {
    let events = planner::promotion_events(context.promotion, status);
    for event in &events {
        tracing::info!(
            promotion = context.promotion.metadata.name,
            phase = ?status.phase,
            reason = event.reason,
            url = status.url,
            message = event.message,
            "the promotion was approved, or changed its phase or reason"
        );
    }
    reconciler.telemetry.record(context.pipeline, events);
    let before = context.promotion.status.as_ref().and_then(|it| it.phase);
    if let Some(phase) = status.phase.filter(|phase| before != Some(*phase)) {
        measure(reconciler, context, status, phase);
    }
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
