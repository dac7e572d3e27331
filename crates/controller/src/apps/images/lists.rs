//! Lists the workloads of apps.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::PodSpec,
};
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use super::{AppLabels, WorkloadKinds, WorkloadsByApp, sorted};
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
        let listed = list::<Deployment>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        });
        lists.push(listed.boxed());
    }
    if kinds.stateful_sets {
        let listed = list::<StatefulSet>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        });
        lists.push(listed.boxed());
    }
    if kinds.daemon_sets {
        let listed = list::<DaemonSet>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        });
        lists.push(listed.boxed());
    }
    let lists = stream::iter(lists).buffered(workloads.concurrency);
    lists.try_concat().await
}

async fn list<K>(
    client: &Client,
    scope: &str,
    selector: &str,
    pod: fn(&K) -> Option<&PodSpec>,
) -> Result<Vec<ListedWorkload>, kube::Error>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
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
        for workload in &page.items {
            let metadata = workload.meta();
            workloads.push(ListedWorkload {
                workload: Workload {
                    kind: K::kind(&()).into_owned(),
                    namespace: metadata.namespace.clone().unwrap_or_default(),
                    name: metadata.name.clone().unwrap_or_default(),
                },
                labels: metadata.labels.clone().unwrap_or_default(),
                images: pod(workload).map(images_of).unwrap_or_default(),
            });
        }
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
