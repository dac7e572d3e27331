//! Lists the workloads of apps, or reads them by name.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt, TryStreamExt, future::try_join_all, stream};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::PodSpec,
};
use kube::{
    Api, Client, Resource,
    api::{GetParams, ListParams},
};
use serde::de::DeserializeOwned;

use super::{AppLabels, AppWorkloads, WorkloadKinds, WorkloadsByApp, sorted};
use crate::apps::Workload;

/// Which workloads are listed, and how many lists are requested at the same time.
pub(super) struct WorkloadSelection<'a> {
    pub(super) selector: &'a str,
    pub(super) kinds: WorkloadKinds,
    pub(super) concurrency: usize,
}

/// The selected workloads by app, in one namespace or (empty `scope`) in all.
pub(super) async fn all(
    client: &Client,
    scope: &str,
    workloads: &WorkloadSelection<'_>,
    (name_label, namespace_label): &AppLabels,
) -> Result<WorkloadsByApp, kube::Error> {
    let mut by_app = WorkloadsByApp::new();
    for found in selected(client, scope, workloads).await? {
        let label = |key: &str| found.labels.get(key).cloned().unwrap_or_default();
        let app = (label(namespace_label), label(name_label));
        let own = by_app.entry(app).or_default();
        own.images.extend(found.images);
        own.workloads.push(found.workload);
    }
    for own in by_app.values_mut() {
        own.listed = workloads.kinds;
        own.images = sorted(std::mem::take(&mut own.images).into_iter());
    }
    Ok(by_app)
}

/// A workload that was listed.
struct ListedWorkload {
    workload: Workload,
    labels: BTreeMap<String, String>,
    images: Vec<String>,
}

async fn selected(
    client: &Client,
    scope: &str,
    workloads: &WorkloadSelection<'_>,
) -> Result<Vec<ListedWorkload>, kube::Error> {
    let (selector, kinds) = (workloads.selector, workloads.kinds);
    let mut lists = Vec::new();
    if kinds.deployments {
        lists.push(list::<Deployment>(client, scope, selector).boxed());
    }
    if kinds.stateful_sets {
        lists.push(list::<StatefulSet>(client, scope, selector).boxed());
    }
    if kinds.daemon_sets {
        lists.push(list::<DaemonSet>(client, scope, selector).boxed());
    }
    let lists = stream::iter(lists).buffered(workloads.concurrency);
    lists.try_concat().await
}

/// These workloads of one app, as they are now. What is gone is left out.
pub(super) async fn by_name(
    client: &Client,
    workloads: &[Workload],
) -> Result<AppWorkloads, kube::Error> {
    let read = workloads
        .iter()
        .map(|workload| match workload.kind.as_str() {
            "Deployment" => get::<Deployment>(client, workload).boxed(),
            "StatefulSet" => get::<StatefulSet>(client, workload).boxed(),
            _ => get::<DaemonSet>(client, workload).boxed(),
        });
    let read = try_join_all(read).await?;
    let mut found = AppWorkloads::default();
    for workload in read.into_iter().flatten() {
        found.images.extend(workload.images);
        found.workloads.push(workload.workload);
    }
    found.images = sorted(found.images.into_iter());
    Ok(found)
}

async fn get<K: WorkloadKind>(
    client: &Client,
    workload: &Workload,
) -> Result<Option<ListedWorkload>, kube::Error> {
    let api: Api<K> = Api::namespaced(client.clone(), &workload.namespace);
    match api.get_with(&workload.name, &GetParams::any()).await {
        Ok(found) => Ok(Some(ListedWorkload::of(&found))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// A kind of workload that is read.
trait WorkloadKind:
    Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
    + Clone
    + DeserializeOwned
    + std::fmt::Debug
    + Send
    + 'static
{
    fn pod(&self) -> Option<&PodSpec>;
}

impl WorkloadKind for Deployment {
    fn pod(&self) -> Option<&PodSpec> {
        self.spec.as_ref()?.template.spec.as_ref()
    }
}

impl WorkloadKind for StatefulSet {
    fn pod(&self) -> Option<&PodSpec> {
        self.spec.as_ref()?.template.spec.as_ref()
    }
}

impl WorkloadKind for DaemonSet {
    fn pod(&self) -> Option<&PodSpec> {
        self.spec.as_ref()?.template.spec.as_ref()
    }
}

impl ListedWorkload {
    fn of<K: WorkloadKind>(workload: &K) -> Self {
        let metadata = workload.meta();
        Self {
            workload: Workload {
                kind: K::kind(&()).into_owned(),
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone().unwrap_or_default(),
            },
            labels: metadata.labels.clone().unwrap_or_default(),
            images: workload.pod().map(images_of).unwrap_or_default(),
        }
    }
}

async fn list<K: WorkloadKind>(
    client: &Client,
    scope: &str,
    selector: &str,
) -> Result<Vec<ListedWorkload>, kube::Error> {
    let api: Api<K> = match scope {
        "" => Api::all(client.clone()),
        namespace => Api::namespaced(client.clone(), namespace),
    };
    // From the watch cache: a list of the newest state waits for etcd, up to 100 ms, and a workload
    // changes long before its app becomes ready.
    let mut parameters = ListParams::default().labels(selector).match_any();
    let mut workloads = Vec::new();
    loop {
        let page = api.list(&parameters).await?;
        workloads.extend(page.items.iter().map(ListedWorkload::of));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(workloads),
        }
    }
}

fn images_of(pod: &PodSpec) -> Vec<String> {
    let first = pod.init_containers.iter().flatten();
    let containers = first.chain(&pod.containers);
    containers
        .filter_map(|container| container.image.clone())
        .collect()
}
