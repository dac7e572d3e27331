//! Writes the verdict of a check run as one merge patch, or nothing when it is the same; records an event.

use api::{
    CheckRun,
    check_run::{CheckRunStatus, CheckVerdict},
};
use kube::Resource;
use planner::PipelineEvent;
use runtime::status::StatusError;

use super::{CheckReconciler, NAME};
use crate::reconciler_base::StatusWrite;

/// Writes the status if it differs from the one that was read.
pub(super) async fn write(
    reconciler: &CheckReconciler,
    run: &CheckRun,
    mut status: CheckRunStatus,
) -> Result<StatusWrite, StatusError> {
    let result = run.spec.result.as_ref();
    status.url = result.and_then(|it| it.url.clone()).or(status.url);
    let cache = &reconciler.caches.check_runs;
    let written = reconciler.write_status(cache, NAME, run, &status).await?;
    if matches!(written, StatusWrite::Written) {
        record(reconciler, run, &status);
    }
    Ok(written)
}

/// Logs a new verdict, and records an event about a decisive one.
fn record(reconciler: &CheckReconciler, run: &CheckRun, status: &CheckRunStatus) {
    let before = run.status.as_ref().map(|it| (it.verdict, &it.reason));
    if before == Some((status.verdict, &status.reason)) {
        return;
    }
    let message = status.message.as_deref().unwrap_or_default();
    let (check, environment) = (&run.spec.check.name, &run.spec.environment);
    let (namespace, pipeline) = (run.metadata.namespace.as_deref(), &run.spec.pipeline);
    tracing::info!(
        namespace,
        pipeline,
        environment,
        check,
        verdict = status.verdict.word(),
        message,
        "the verdict of a check changed"
    );
    let reason = match status.verdict {
        CheckVerdict::Passed => "CheckPassed",
        CheckVerdict::Failed => "CheckFailed",
        CheckVerdict::Error => "CheckError",
        CheckVerdict::Pending | CheckVerdict::Running => return,
    };
    let revision = run.spec.shown_revision();
    let verdict = status.verdict.word().to_lowercase();
    let why = if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    };
    let event = PipelineEvent {
        is_warning: status.verdict != CheckVerdict::Passed,
        reason: reason.to_owned(),
        message: format!("check {check} of {revision} in {environment}: {verdict}{why}"),
        environment: Some(environment.clone()),
        revision: Some(run.spec.revision.clone()),
    };
    let telemetry = &reconciler.telemetry;
    telemetry.record_about(&run.object_ref(&()), "Check", vec![event]);
}
