//! Finds the Freezes that cover a pipeline, and enqueues pipelines when a Freeze changes.
//!
//! While the Freezes are not listed, a pipeline counts as frozen, and its status says so.

use std::{sync::Arc, time::Duration};

use api::{
    Freeze, Pipeline,
    pipeline::{CoveringFreeze, PipelineStatus},
};
use planner::{FreezeScope, covering_freezes};
use runtime::{CacheEvent, ObjectKey, Subscription};
use tokio::time::timeout;

use super::reconciler::NAME;
use crate::PipelineReconciler;

/// How long the first reconcile waits for the list of Freezes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for the list of Freezes; if that takes long, pipelines are reconciled as frozen meanwhile.
pub(super) async fn first_listed(reconciler: &Arc<PipelineReconciler>) {
    let freezes = reconciler.caches.freezes.clone();
    if timeout(PATIENCE, freezes.synced()).await.is_ok() {
        return;
    }
    tracing::error!(
        "cannot list Freezes: nothing is promoted until then; check that the CustomResourceDefinition \
         freezes.pipelines.weave.works is installed and that Sluice may list and watch it"
    );
}

/// Reconciles all pipelines once the Freezes are listed.
pub(super) async fn enqueue_all_when_listed(reconciler: Arc<PipelineReconciler>) {
    reconciler.caches.freezes.synced().await;
    reconciler.enqueue_all();
    std::future::pending().await
}

/// Enqueues the pipelines that a Freeze may cover whenever it changes, until dropped.
pub(super) fn subscribe(reconciler: &Arc<PipelineReconciler>) -> Subscription {
    let this = reconciler.clone();
    reconciler.caches.freezes.subscribe(NAME, move |event| {
        let (CacheEvent::Applied { key, .. } | CacheEvent::Deleted { key, .. }) = event;
        let covers_all = this.settings.freeze_namespace.as_ref() == Some(&key.namespace);
        let pipelines = this.pipelines.keys().into_iter();
        pipelines
            .filter(|pipeline| covers_all || pipeline.namespace == key.namespace)
            .for_each(|pipeline| this.enqueue(pipeline));
    })
}

/// Whether what decides about Freezes is not known yet and will be soon.
pub(super) fn are_early(reconciler: &PipelineReconciler) -> bool {
    let freezes = reconciler.caches.freezes.all();
    let mut freezes = freezes.iter();
    let needs_namespaces = freezes.any(|it| it.spec.namespace_selector.is_some());
    needs_namespaces && !reconciler.namespaces.are_listed()
}

/// The Freezes that cover a pipeline whose status is `model`.
pub(super) fn covering(
    reconciler: &PipelineReconciler,
    pipeline: &Pipeline,
    model: &PipelineStatus,
) -> Vec<CoveringFreeze> {
    if !reconciler.caches.freezes.is_synced() {
        return vec![unlisted(pipeline)];
    }
    let all = reconciler.caches.freezes.all();
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let labels = reconciler.namespaces.labels(namespace);
    let cluster_labels = |namespace: &str, name: &str| {
        let cluster = reconciler.clusters.get(&ObjectKey::new(namespace, name))?;
        cluster.metadata.labels.clone()
    };
    let scope = FreezeScope {
        freeze_namespace: reconciler.settings.freeze_namespace.as_deref(),
        namespace_labels: labels.as_ref(),
        cluster_labels: &cluster_labels,
    };
    let freezes = all.iter().map(|freeze: &Arc<Freeze>| &**freeze);
    let now = reconciler.clock.now();
    covering_freezes(pipeline, model, freezes, &scope, now)
}

/// Stands for the Freezes that could not be listed.
fn unlisted(pipeline: &Pipeline) -> CoveringFreeze {
    let environments = pipeline.spec.environments.iter();
    CoveringFreeze {
        name: "unknown".to_owned(),
        environments: environments.map(|it| it.name.clone()).collect(),
        invalid: Some("Freezes cannot be listed; see the log of the controller".to_owned()),
        ..CoveringFreeze::default()
    }
}
