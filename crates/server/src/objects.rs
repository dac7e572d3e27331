//! The objects behind the targets of a pipeline, as far as that pipeline may look.

use api::{
    Pipeline,
    names::ALLOWED_NAMESPACES_ANNOTATION,
    pipeline::{ClusterReference, TargetStatus},
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use serde::Serialize;

use crate::{
    Door,
    leaf::{
        Place,
        tree::{App, Node},
    },
    watched::ObjectKey,
};

/// What is behind one target.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Behind {
    /// The GitopsCluster; the hub without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<String>,
    pub(crate) target_namespace: String,
    /// Each app, below the source it comes from.
    pub(crate) apps: Vec<Node>,
    /// Why the cluster cannot be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// Which targets of an environment are meant; all, where nothing is said.
#[derive(serde::Deserialize, Clone, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Wanted {
    pub(crate) cluster: Option<String>,
    pub(crate) target_namespace: Option<String>,
}

impl Wanted {
    pub(crate) fn is(&self, target: &TargetStatus) -> bool {
        let cluster = cluster_of(target).map(|cluster| cluster.name.as_str());
        let is_cluster = self
            .cluster
            .as_deref()
            .is_none_or(|it| it == cluster.unwrap_or_default());
        let namespace = self.target_namespace.as_deref();
        is_cluster && namespace.is_none_or(|it| target.namespace.as_deref() == Some(it))
    }
}

/// The cluster that a target names.
pub(crate) fn cluster_of(target: &TargetStatus) -> Option<&ClusterReference> {
    target.cluster_app_ref.as_ref()?.cluster_ref.as_ref()
}

impl Door {
    /// Looks behind a target.
    pub(crate) async fn behind(&self, pipeline: &Pipeline, target: &TargetStatus) -> Behind {
        let mut behind = Behind {
            cluster: cluster_of(target).map(|cluster| cluster.name.clone()),
            target_namespace: target.namespace.clone().unwrap_or_default(),
            apps: Vec::new(),
            problem: None,
        };
        let cluster = match self.allowed(pipeline, target).await {
            Ok(cluster) => cluster,
            Err(because) => {
                behind.problem = Some(because);
                return behind;
            }
        };
        let looks = App::in_target(target).into_iter();
        let looks = looks.map(|app| self.leaves.tree(&cluster, app));
        for seen in join_all(looks).await {
            match seen {
                Ok(tree) => behind.apps.push(Node::clone(&tree)),
                Err(because) => behind.problem = Some(because),
            }
        }
        behind
    }

    /// The cluster of a target, if pipelines of that namespace may use it.
    async fn allowed(&self, pipeline: &Pipeline, target: &TargetStatus) -> Result<Place, String> {
        let own = pipeline.namespace().unwrap_or_default();
        let Some(reference) = cluster_of(target) else {
            let namespace = target.namespace.as_deref().unwrap_or_default();
            return self.allowed_on_hub(&own, namespace).await.map(|()| None);
        };
        let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty());
        let key = ObjectKey::new(namespace.unwrap_or(&own), &reference.name);
        let cluster = self.watched.cluster(&key);
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
            // As for the controller: who may not read the annotation does not obey it.
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
