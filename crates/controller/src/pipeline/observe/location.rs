//! Where the targets of a pipeline are: the clusters and namespaces that its spec names or selects, and
//! whether the pipeline may look there.

use std::collections::BTreeMap;

use api::{
    GitopsCluster, Pipeline,
    pipeline::{ClusterReference, Environment, Target},
};
use planner::TargetState;
use runtime::ObjectKey;

use crate::{PipelineReconciler, clusters, keys::ClusterKey};

/// A cluster and namespace that a target of the spec stands for.
pub(super) struct TargetLocation {
    pub(super) reference: Option<ClusterReference>,
    pub(super) cluster: ClusterKey,
    pub(super) namespace: String,
    /// The labels of the GitopsCluster; none on the hub or where there is no such object.
    pub(super) labels: Option<BTreeMap<String, String>>,
    /// Why the pipeline may not look there.
    pub(super) refused: Option<TargetState>,
}

/// The locations of an environment's targets, those of a selector by name.
pub(super) fn target_locations(
    reconciler: &PipelineReconciler,
    pipeline: &Pipeline,
    environment: &Environment,
) -> Vec<TargetLocation> {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let mut target_locations = Vec::new();
    for target in &environment.targets {
        match &target.cluster_selector {
            Some(selector) => {
                for cluster in clusters::selected(&reconciler.clusters, selector) {
                    target_locations
                        .extend(selected_location(reconciler, namespace, target, &cluster));
                }
            }
            None => target_locations.push(named_location(reconciler, namespace, target)),
        }
    }
    target_locations
}

fn selected_location(
    reconciler: &PipelineReconciler,
    namespace: &str,
    target: &Target,
    cluster: &GitopsCluster,
) -> Option<TargetLocation> {
    if refusal(reconciler, namespace, cluster).is_some() {
        return None; // a selector chooses among the clusters that may be used
    }
    let key = ObjectKey::of(&cluster.metadata);
    let reference = ClusterReference {
        api_version: None,
        kind: "GitopsCluster".to_owned(),
        name: key.name.clone(),
        namespace: Some(key.namespace.clone()).filter(|it| it != namespace),
    };
    Some(TargetLocation {
        reference: Some(reference),
        cluster: ClusterKey::Leaf(key),
        namespace: target.namespace.clone(),
        labels: Some(cluster.metadata.labels.clone().unwrap_or_default()),
        refused: None,
    })
}

fn named_location(
    reconciler: &PipelineReconciler,
    namespace: &str,
    target: &Target,
) -> TargetLocation {
    let cluster = ClusterKey::of(target.cluster_ref.as_ref(), namespace);
    let mut labels = None;
    let refused = match &cluster {
        ClusterKey::Hub => hub_refusal(reconciler, namespace, &target.namespace),
        ClusterKey::Leaf(key) => match reconciler.clusters.get(key) {
            None => Some(TargetState::ClusterMissing),
            Some(object) => {
                labels = Some(object.metadata.labels.clone().unwrap_or_default());
                refusal(reconciler, namespace, &object)
                    .map(|because| TargetState::Refused { because })
            }
        },
    };
    TargetLocation {
        reference: target.cluster_ref.clone(),
        cluster,
        namespace: target.namespace.clone(),
        labels,
        refused,
    }
}

/// Why a pipeline may not have a target in a namespace of the hub.
fn hub_refusal(
    reconciler: &PipelineReconciler,
    namespace: &str,
    target: &str,
) -> Option<TargetState> {
    if namespace == target {
        return None;
    }
    if !reconciler.namespaces.are_listed() {
        return Some(TargetState::NotSynced);
    }
    let allowed = reconciler.namespaces.allowed(target);
    let only_own = reconciler.settings.no_cross_namespace_refs;
    let because = planner::refuse_hub_namespace(target, allowed.as_deref(), namespace, only_own)?;
    Some(TargetState::Refused { because })
}

fn refusal(
    reconciler: &PipelineReconciler,
    namespace: &str,
    cluster: &GitopsCluster,
) -> Option<String> {
    let annotations = cluster.metadata.annotations.as_ref();
    let allowed = annotations.and_then(|it| it.get(api::names::ALLOWED_NAMESPACES_ANNOTATION));
    planner::refuse_cluster(
        cluster.metadata.namespace.as_deref().unwrap_or_default(),
        allowed.map(String::as_str),
        namespace,
        reconciler.settings.no_cross_namespace_refs,
    )
}
