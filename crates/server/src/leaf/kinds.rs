//! The kinds that are read from clusters, and how a cluster serves them.

use std::{collections::HashMap, sync::Arc};

use api::{
    app::{RESOURCE_SET_GROUP, RESOURCE_SET_KIND},
    flux::{HELM_GROUP, KUSTOMIZE_GROUP, SOURCE_GROUP},
};
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
    discovery::{self, ApiGroup},
};
use tokio::sync::Mutex;

pub(super) const APPS: &str = "apps";
pub(super) const BATCH: &str = "batch";

/// The workloads of Kubernetes that own pods.
pub(super) const WORKLOADS: [(&str, &str); 5] = [
    (APPS, "Deployment"),
    (APPS, "StatefulSet"),
    (APPS, "DaemonSet"),
    (BATCH, "Job"),
    (BATCH, "CronJob"),
];

/// Whether objects of a kind are read, not only listed by name.
pub(super) fn is_read(group: &str, kind: &str) -> bool {
    match group {
        HELM_GROUP => kind == "HelmRelease",
        KUSTOMIZE_GROUP => kind == "Kustomization",
        RESOURCE_SET_GROUP => kind == RESOURCE_SET_KIND,
        SOURCE_GROUP => true,
        _ => WORKLOADS.contains(&(group, kind)),
    }
}

/// The API groups of a cluster, discovered once per read.
#[derive(Default)]
pub(super) struct DiscoveredKinds(Mutex<HashMap<String, Option<Arc<ApiGroup>>>>);

impl DiscoveredKinds {
    /// The resource of a kind, in any version; nothing if it is not served.
    pub(super) async fn find(
        &self,
        client: &Client,
        group: &str,
        kind: &str,
    ) -> Result<Option<ApiResource>, kube::Error> {
        // The plural of a kind becomes a part of an API path.
        if !kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Ok(None);
        }
        if [APPS, BATCH].contains(&group) {
            let kind = GroupVersionKind::gvk(group, "v1", kind);
            return Ok(Some(ApiResource::from_gvk(&kind)));
        }
        let mut groups = self.0.lock().await;
        let served = match groups.get(group) {
            Some(served) => served.clone(),
            None => {
                let served = discover(client, group).await?;
                groups.insert(group.to_owned(), served.clone());
                served
            }
        };
        drop(groups);
        let Some(served) = served else {
            return Ok(None);
        };
        // Not every kind of a group is served in the version the group prefers.
        let preferred = served.preferred_version_or_latest();
        let versions = std::iter::once(preferred).chain(served.versions());
        let resources = versions.flat_map(|version| served.versioned_resources(version));
        let mut resources = resources.map(|(resource, _)| resource);
        Ok(resources.find(|resource| resource.kind == kind))
    }
}

async fn discover(client: &Client, group: &str) -> Result<Option<Arc<ApiGroup>>, kube::Error> {
    match discovery::group(client, group).await {
        Ok(group) => Ok(Some(Arc::new(group))),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
