//! Writes a promotion's status: one merge patch of what changed, nothing when nothing did; and tells
//! people and figures about it.

use std::sync::Arc;

use api::promotion::{Phase, PromotionStatus};
use planner::{PipelineEvent, Timestamp};
use tokio::time::Instant;

use super::{Promoter, Scene};
use crate::{promotions::pipeline_of, reconcile::Reconciled};
use runtime::status::{StatusError, StatusPatch};

/// Writes the status if it differs from the one that was read.
pub(super) async fn write(
    promoter: &Arc<Promoter>,
    scene: &Scene<'_>,
    status: PromotionStatus,
    again: Option<Timestamp>,
) -> Result<Reconciled, StatusError> {
    let promotion = scene.promotion;
    let remove = || {
        let name = promotion.metadata.name.as_deref().unwrap_or_default();
        promoter.promotions.remove(&pipeline_of(promotion), name);
    };
    match promoter
        .status
        .patch(promotion, promotion.status.as_ref(), &status)
        .await?
    {
        StatusPatch::Unchanged => return Ok(Reconciled::Unchanged { again }),
        StatusPatch::Patched(written) => {
            tell(promoter, scene, &status);
            promoter.promotions.keep(written);
        }
        StatusPatch::Conflict(newest) => drop(promoter.promotions.keep(newest)),
        StatusPatch::NotFound => remove(),
    }
    Ok(Reconciled::Changed)
}

/// Tells that a promotion got into another phase, or failed at what it tried.
fn tell(promoter: &Promoter, scene: &Scene<'_>, status: &PromotionStatus) {
    let before = scene.promotion.status.clone().unwrap_or_default();
    let is_same = before.phase == status.phase && before.reason == status.reason;
    let Some(phase) = status.phase.filter(|_| !is_same) else {
        return;
    };
    let spec = &scene.promotion.spec;
    let (environment, revision) = (&spec.environment, &spec.revision);
    let message = status.message.as_deref().unwrap_or_default();
    let url = status.url.as_deref().map(|url| format!(" {url}"));
    let url = url.unwrap_or_default();
    tracing::info!(
        promotion = scene.promotion.metadata.name,
        phase = ?phase,
        reason = status.reason,
        url = status.url,
        message,
        "promotion"
    );
    promoter.telemetry.tell(
        scene.pipeline,
        vec![PipelineEvent {
            is_warning: phase == Phase::Failed || status.next_attempt.is_some(),
            reason: status.reason.clone().unwrap_or(format!("{phase:?}")),
            message: format!("{environment}: {}: {message}{url}", spec.shown_revision()),
            environment: Some(environment.clone()),
            revision: Some(revision.clone()),
        }],
    );
    if before.phase != Some(phase) {
        measure(promoter, scene, status, phase);
    }
}

/// Counts how long the promotion took, in its last phase and, at its end, in all.
fn measure(promoter: &Promoter, scene: &Scene<'_>, status: &PromotionStatus, phase: Phase) {
    let metrics = promoter.telemetry.metrics.promotions();
    let uid = scene.promotion.metadata.uid.clone().unwrap_or_default();
    let mut phases = promoter.phases.lock();
    if let Some((last, since)) = phases.remove(&uid) {
        metrics.observe_phase(last, since.elapsed());
    }
    if !phase.is_terminal() {
        phases.insert(uid, (phase, Instant::now()));
        return;
    }
    drop(phases);
    let created = scene.promotion.metadata.creation_timestamp.as_ref();
    let (Some(created), Some(finished)) = (created, &status.finished_at) else {
        return;
    };
    let took = crate::pipeline::until(finished.0, created.0);
    metrics.observe_end(scene.pipeline, scene.promotion, phase, took);
    if phase == Phase::Succeeded && promoter.settings.metrics_per_pipeline {
        let verified = scene.promotion.spec.verified_at.as_ref().unwrap_or(created);
        let took = crate::pipeline::until(finished.0, verified.0);
        metrics.observe_latency(scene.promotion, took);
    }
}
