//! Maps Flagger's Canaries to apps.
//!
//! A Canary names a workload; the workloads of an app are found by Flux's labels, together with the
//! app's images.

use std::sync::Arc;

use api::flagger::Canary;

use super::{AppCache, ClusterApps, WatchState};
use crate::{
    PipelineReconciler,
    keys::{AppKind, ClusterKey},
};

/// A Deployment, StatefulSet or DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Workload {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The workloads of an app.
pub(crate) type Workloads = Arc<[Workload]>;

impl Workload {
    /// The workload that a Canary analyses, in the Canary's namespace.
    pub(crate) fn target_of(canary: &Canary, namespace: &str) -> Self {
        Self {
            kind: canary.target_kind.clone(),
            namespace: namespace.to_owned(),
            name: canary.target_name.clone(),
        }
    }
}

/// An app of any kind, by namespace and name.
type AppOfKind = (AppKind, String, String);

impl ClusterApps {
    fn has_canaries(&self) -> bool {
        let canaries = self.kinds.get(&AppKind::canary());
        canaries.is_some_and(|it| !it.records.is_empty())
    }

    /// The apps that a workload belongs to; `None` if that is not known for all apps.
    fn apps_of(&self, workload: &Workload) -> Option<Vec<AppOfKind>> {
        let mut found = Vec::new();
        for (kind, apps) in self
            .kinds
            .iter()
            .filter(|(kind, _)| **kind != AppKind::canary())
        {
            if kind.is_workload() {
                let is_it = kind.kind == workload.kind;
                let key = (
                    kind.clone(),
                    workload.namespace.clone(),
                    workload.name.clone(),
                );
                found.extend(is_it.then_some(key));
                continue;
            }
            for (namespace, names) in apps.records.iter().filter(|_| kind.has_workloads()) {
                for (name, record) in names {
                    if record.workloads.as_ref()?.contains(workload) {
                        found.push((kind.clone(), namespace.clone(), name.clone()));
                    }
                }
            }
        }
        Some(found)
    }
}

impl AppCache {
    /// The state of the watch of Canaries in a namespace. A cluster without Flagger has none.
    pub(crate) fn canary_state(&self, cluster: &ClusterKey, namespace: &str) -> WatchState {
        self.watch_state(cluster, &AppKind::canary(), namespace)
    }

    /// Whether there is any Canary on a cluster.
    pub(crate) fn has_canaries(&self, cluster: &ClusterKey) -> bool {
        let clusters = self.clusters.read();
        clusters.get(cluster).is_some_and(ClusterApps::has_canaries)
    }

    /// The Canaries of any of these workloads, by name.
    pub(crate) fn canaries_of(&self, cluster: &ClusterKey, workloads: &[Workload]) -> Vec<Canary> {
        let clusters = self.clusters.read();
        let apps = clusters.get(cluster);
        let Some(canaries) = apps.and_then(|apps| apps.kinds.get(&AppKind::canary())) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (namespace, names) in &canaries.records {
            let canaries = names.values().filter_map(|record| record.canary.as_deref());
            let is_wanted = |canary: &&Canary| {
                let target = Workload::target_of(canary, namespace);
                workloads.contains(&target)
            };
            found.extend(canaries.filter(is_wanted).cloned());
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }
}

impl PipelineReconciler {
    /// Enqueues the pipelines with the app of a Canary's workload; all on the cluster while it is not
    /// known which app that is.
    pub(crate) fn enqueue_canary(&self, cluster: &ClusterKey, workload: &Workload) {
        let concerned = {
            let clusters = self.apps.clusters.read();
            clusters
                .get(cluster)
                .map(|apps| apps.apps_of(workload))
                .unwrap_or_default()
        };
        match concerned {
            Some(apps) => {
                for (kind, namespace, name) in apps {
                    self.enqueue_app(cluster, &kind, &namespace, &name);
                }
            }
            None => self.enqueue_cluster(cluster),
        }
    }
}
