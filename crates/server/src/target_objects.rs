//! The Flux objects, workloads and pods of a target, if the pipeline may use the target's cluster.

use api::{
    Pipeline,
    names::ALLOWED_NAMESPACES_ANNOTATION,
    pipeline::{ClusterReference, TargetStatus},
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use runtime::ObjectKey;
use serde::Serialize;

use crate::{
    AppState,
    leaf::{
        ClusterOrHub,
        tree::{AppOnCluster, Node},
    },
};

/// The objects of one target.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TargetObjects {
    /// The GitopsCluster; nothing for the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<String>,
    pub(crate) target_namespace: String,
    /// Each app, below the source it comes from.
    pub(crate) apps: Vec<Node>,
    /// Why the cluster cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// Selects targets of an environment; all if empty.
#[derive(serde::Deserialize, Clone, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TargetFilter {
    pub(crate) cluster: Option<String>,
    pub(crate) target_namespace: Option<String>,
}

impl TargetFilter {
    pub(crate) fn matches(&self, target: &TargetStatus) -> bool {
        let cluster = cluster_of(target).map(|cluster| cluster.name.as_str());
        let is_cluster = self
            .cluster
            .as_deref()
            .is_none_or(|it| it == cluster.unwrap_or_default());
        let namespace = self.target_namespace.as_deref();
        is_cluster && namespace.is_none_or(|it| target.namespace.as_deref() == Some(it))
    }
}

/// The cluster of a target; nothing for the hub.
pub(crate) fn cluster_of(target: &TargetStatus) -> Option<&ClusterReference> {
    target.cluster_app_ref.as_ref()?.cluster_ref.as_ref()
}

/// The key of a target's GitopsCluster, by default in the namespace of the pipeline.
pub(crate) fn cluster_key_of(target: &TargetStatus, pipeline_namespace: &str) -> Option<ObjectKey> {
    let cluster = cluster_of(target)?;
    let namespace = cluster.namespace.as_deref().filter(|it| !it.is_empty());
    let namespace = namespace.unwrap_or(pipeline_namespace);
    Some(ObjectKey::new(namespace, &cluster.name))
}

impl AppState {
    /// Reads the objects of a target from its cluster.
    pub(crate) async fn target_objects(
        &self,
        pipeline: &Pipeline,
        target: &TargetStatus,
    ) -> TargetObjects {
        let mut objects = TargetObjects {
            cluster: cluster_of(target).map(|cluster| cluster.name.clone()),
            target_namespace: target.namespace.clone().unwrap_or_default(),
            apps: Vec::new(),
            problem: None,
        };
        let cluster = match self.allowed_cluster(pipeline, target).await {
            Ok(cluster) => cluster,
            Err(because) => {
                objects.problem = Some(because);
                return objects;
            }
        };
        let apps = AppOnCluster::in_target(target).into_iter();
        let reads = apps.map(|app| self.leaf_reader.tree(&cluster, app));
        for read in join_all(reads).await {
            match read {
                Ok(tree) => objects.apps.push(Node::clone(&tree)),
                Err(because) => objects.problem = Some(because),
            }
        }
        objects
    }

    /// The cluster of a target, if pipelines of that namespace may use it.
    async fn allowed_cluster(
        &self,
        pipeline: &Pipeline,
        target: &TargetStatus,
    ) -> Result<ClusterOrHub, String> {
        let own = pipeline.namespace().unwrap_or_default();
        let Some(key) = cluster_key_of(target, &own) else {
            let namespace = target.namespace.as_deref().unwrap_or_default();
            return self.allowed_on_hub(&own, namespace).await.map(|()| None);
        };
        let cluster = self.objects.cluster(&key);
        let cluster = cluster.ok_or_else(|| format!("there is no GitopsCluster {key}"))?;
        let listed = cluster.annotations().get(ALLOWED_NAMESPACES_ANNOTATION);
        let only_own = self.settings.no_cross_namespace_refs;
        let listed = listed.map(String::as_str);
        match planner::refuse_cluster(&key.namespace, listed, &own, only_own) {
            Some(because) => Err(because),
            None => Ok(Some(cluster)),
        }
    }

    /// Whether pipelines of a namespace may have targets in another one of the hub.
    async fn allowed_on_hub(&self, own: &str, namespace: &str) -> Result<(), String> {
        if own == namespace {
            return Ok(());
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = match namespaces.get_metadata_opt(namespace).await {
            // Like the controller: without the right to read namespaces the annotation is ignored.
            Err(kube::Error::Api(status)) if status.code == 403 => None,
            found => found.map_err(|_| format!("namespace {namespace} cannot be read"))?,
        };
        let listed = found.as_ref().and_then(|it| {
            let annotations = it.annotations();
            annotations.get(ALLOWED_NAMESPACES_ANNOTATION)
        });
        let listed = listed.map(String::as_str);
        let only_own = self.settings.no_cross_namespace_refs;
        match planner::refuse_hub_namespace(namespace, listed, own, only_own) {
            Some(because) => Err(because),
            None => Ok(()),
        }
    }
}
