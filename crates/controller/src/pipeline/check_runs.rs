//! Creates and deletes the CheckRuns of a pipeline, and enqueues it when one changes.

use std::{sync::Arc, time::Duration};

use api::CheckRun;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use runtime::{CacheEvent, ObjectKey, Subscription};
use tokio::time::timeout;

use super::reconciler::NAME;
use crate::{FIELD_MANAGER, PipelineReconciler, caches::pipeline_of_run};

/// How long the first reconcile waits for the list of CheckRuns.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for the list of CheckRuns. If that takes long, checks count as missing meanwhile, so that nothing
/// passes that needs one.
pub(super) async fn first_listed(reconciler: &Arc<PipelineReconciler>) {
    let runs = reconciler.caches.check_runs.clone();
    if timeout(PATIENCE, runs.synced()).await.is_err() {
        tracing::error!(
            "cannot list CheckRuns: no check passes until then; check that the CustomResourceDefinition \
             checkruns.pipelines.weave.works is installed and that Sluice may list and watch it"
        );
    }
}

/// Enqueues the pipeline of a CheckRun whenever it changes, until dropped.
pub(super) fn subscribe(reconciler: &Arc<PipelineReconciler>) -> Subscription {
    let this = reconciler.clone();
    reconciler.caches.check_runs.subscribe(NAME, move |event| {
        let (CacheEvent::Applied { object, .. } | CacheEvent::Deleted { object, .. }) = event;
        let pipeline = pipeline_of_run(object);
        if this.pipelines.contains(&pipeline) {
            this.enqueue(pipeline);
        }
    })
}

/// The CheckRuns of a pipeline, by name.
pub(super) fn of(reconciler: &PipelineReconciler, pipeline: &ObjectKey) -> Vec<CheckRun> {
    let runs = reconciler.caches.check_runs.children(pipeline);
    runs.into_iter().map(Arc::unwrap_or_clone).collect()
}

/// Creates a CheckRun. That it exists already is fine: its name says what it is.
pub(super) async fn start(
    reconciler: &PipelineReconciler,
    pipeline: &ObjectKey,
    run: &CheckRun,
) -> Result<(), kube::Error> {
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let runs: Api<CheckRun> = Api::namespaced(reconciler.hub.clone(), &pipeline.namespace);
    let written = match runs.create(&parameters, run).await {
        Ok(created) => {
            tracing::info!(%pipeline, run = name, check = run.spec.check.name, "started a check");
            Some(created)
        }
        Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => runs.get_opt(name).await?,
        Err(error) => return Err(error),
    };
    if let Some(written) = written {
        reconciler.caches.check_runs.wrote(NAME, written);
    }
    Ok(())
}

/// Deletes a CheckRun, and with it the Job that it started.
pub(super) async fn remove(
    reconciler: &PipelineReconciler,
    pipeline: &ObjectKey,
    name: &str,
) -> Result<(), kube::Error> {
    let cache = &reconciler.caches.check_runs;
    let Some(known) = cache.get(&ObjectKey::new(&pipeline.namespace, name)) else {
        return Ok(());
    };
    let parameters = DeleteParams::background();
    reconciler.delete(cache, &known, parameters).await
}
