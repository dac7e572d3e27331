//! Keys of clusters and of kinds of apps.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use api::pipeline::{AppReference, ClusterReference};
use runtime::ObjectKey;

/// Seeds the jitter of retries: differs from object to object.
pub(crate) fn seed(metadata: &kube::core::ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    metadata.uid.hash(&mut hasher);
    hasher.finish()
}

/// A cluster that targets are on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClusterKey {
    /// The cluster that the pipelines are on.
    Hub,
    /// The cluster of a GitopsCluster.
    Leaf(ObjectKey),
}

impl ClusterKey {
    /// The cluster a target of a pipeline names.
    pub fn of(reference: Option<&ClusterReference>, pipeline_namespace: &str) -> Self {
        let Some(reference) = reference else {
            return Self::Hub;
        };
        let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty());
        let namespace = namespace.unwrap_or(pipeline_namespace);
        Self::Leaf(ObjectKey::new(namespace, &reference.name))
    }
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub => formatter.write_str("hub"),
            Self::Leaf(key) => key.fmt(formatter),
        }
    }
}

/// The labels that name the pipeline of an app, today's first.
const PIPELINE_LABELS: [&str; 2] = [api::names::PIPELINE_LABEL, api::names::PIPELINE_LABEL_WEGO];

/// A kind of app, whatever its API version: the served one is found out on each cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppKind {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The label that objects must carry, with whatever value, to be watched; all are without one.
    pub label: Option<&'static str>,
}

impl AppKind {
    /// All objects of a kind.
    pub fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            label: None,
        }
    }

    /// The kind an `appRef` names.
    pub fn of(reference: &AppReference) -> Self {
        let group = reference.api_version.split_once('/');
        Self::new(group.map_or("", |(group, _)| group), &reference.kind)
    }

    /// Flagger's Canary, which decides whether an app's new pods take over.
    pub fn canary() -> Self {
        Self::new(api::flagger::GROUP, api::flagger::KIND)
    }

    /// Whether objects of this kind run something, rather than being what apps come from.
    pub fn is_app(&self) -> bool {
        ![api::flux::SOURCE_GROUP, api::flux::IMAGE_GROUP].contains(&self.group.as_str())
    }

    /// Whether it is a Deployment, StatefulSet or DaemonSet.
    pub fn is_workload(&self) -> bool {
        let kind = api::app::AppType::of(&format!("{}/", self.group), &self.kind);
        matches!(kind, api::app::AppType::Workload(_))
    }

    /// Whether Flux labels the workloads of an app of this kind with the app.
    pub fn has_workloads(&self) -> bool {
        let groups = [
            api::flux::HELM_GROUP,
            api::flux::KUSTOMIZE_GROUP,
            api::app::RESOURCE_SET_GROUP,
        ];
        groups.contains(&self.group.as_str())
    }

    /// The kinds that are looked for by label where a pipeline has no `appRef`. Clusters have many
    /// more workloads than Flux has objects, and workloads change all the time, so the cluster is
    /// asked for the labelled ones only. A selector cannot name one label or the other.
    pub fn labelled() -> Vec<Self> {
        let workloads = ["Deployment", "StatefulSet", "DaemonSet"].iter();
        let workloads = workloads.flat_map(|kind| {
            PIPELINE_LABELS.map(|label| Self {
                label: Some(label),
                ..Self::new(api::workload::GROUP, kind)
            })
        });
        let flux = [
            Self::new(api::flux::HELM_GROUP, "HelmRelease"),
            Self::new(api::flux::KUSTOMIZE_GROUP, "Kustomization"),
        ];
        flux.into_iter().chain(workloads).collect()
    }
}

impl fmt::Display for AppKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => formatter.write_str(&self.kind)?,
            group => write!(formatter, "{}.{group}", self.kind)?,
        }
        match self.label {
            Some(label) => write!(formatter, " with {label}"),
            None => Ok(()),
        }
    }
}
