//! Lists the workloads of apps, or reads them by name.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt, TryStreamExt, future::try_join_all, stream};
use kube::{
    Client, Resource,
    api::{ApiResource, DynamicObject, GetParams, GroupVersionKind, ListParams},
    core::Request,
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{AppLabels, AppWorkloads, WorkloadKinds, WorkloadsByApp, sorted};
use crate::apps::Workload;

/// Which workloads are listed, and how many lists are requested at the same time.
pub(super) struct WorkloadSelection<'a> {
    pub(super) selector: &'a str,
    pub(super) kinds: WorkloadKinds,
    pub(super) concurrency: usize,
    /// Lists the newest state in pages instead of what the API server has cached, which comes whole.
    pub(super) page_size: Option<u32>,
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
    let kinds = workloads.kinds;
    let mut lists = Vec::new();
    for (is_selected, kind) in [
        (kinds.deployments, "Deployment"),
        (kinds.stateful_sets, "StatefulSet"),
        (kinds.daemon_sets, "DaemonSet"),
    ] {
        if is_selected {
            lists.push(list(client, scope, kind, workloads).boxed());
        }
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
        .map(|workload| get(client, workload).boxed());
    let read = try_join_all(read).await?;
    let mut found = AppWorkloads::default();
    for workload in read.into_iter().flatten() {
        found.images.extend(workload.images);
        found.workloads.push(workload.workload);
    }
    found.images = sorted(found.images.into_iter());
    Ok(found)
}

async fn get(client: &Client, known: &Workload) -> Result<Option<ListedWorkload>, kube::Error> {
    let url = url(&known.kind, &known.namespace);
    let request = Request::new(url).get(&known.name, &GetParams::any());
    match answer::<WorkloadObject>(client, request).await {
        Ok(found) => Ok(Some(listed(&known.kind, found))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn url(kind: &str, scope: &str) -> String {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
    DynamicObject::url_path(&resource, (!scope.is_empty()).then_some(scope))
}

type RequestResult = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

async fn answer<T: DeserializeOwned>(
    client: &Client,
    request: RequestResult,
) -> Result<T, kube::Error> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// A page of a list. Only the fields that are read are parsed: pods and managed fields are large.
#[derive(Deserialize)]
struct WorkloadPage {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<WorkloadObject>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue", default)]
    token: String,
}

#[derive(Deserialize)]
struct WorkloadObject {
    metadata: WorkloadMetadata,
    #[serde(default)]
    spec: WorkloadSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WorkloadMetadata {
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WorkloadSpec {
    template: PodTemplate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodTemplate {
    spec: PodContainers,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodContainers {
    init_containers: Vec<ContainerImage>,
    containers: Vec<ContainerImage>,
}

#[derive(Deserialize)]
struct ContainerImage {
    image: Option<String>,
}

fn listed(kind: &str, object: WorkloadObject) -> ListedWorkload {
    let (metadata, pod) = (object.metadata, object.spec.template.spec);
    let containers = pod.init_containers.into_iter().chain(pod.containers);
    ListedWorkload {
        workload: Workload {
            kind: kind.to_owned(),
            namespace: metadata.namespace,
            name: metadata.name,
        },
        labels: metadata.labels,
        images: containers.filter_map(|it| it.image).collect(),
    }
}

async fn list(
    client: &Client,
    scope: &str,
    kind: &str,
    workloads: &WorkloadSelection<'_>,
) -> Result<Vec<ListedWorkload>, kube::Error> {
    let parameters = ListParams::default().labels(workloads.selector);
    let mut parameters = match workloads.page_size {
        Some(size) => parameters.limit(size),
        // From the watch cache: a list of the newest state waits for etcd, up to 100 ms, and a workload
        // changes long before its app becomes ready.
        None => parameters.match_any(),
    };
    let mut found = Vec::new();
    loop {
        let request = Request::new(url(kind, scope)).list(&parameters);
        let page: WorkloadPage = answer(client, request).await?;
        found.extend(page.items.into_iter().map(|it| listed(kind, it)));
        if page.metadata.token.is_empty() {
            return Ok(found);
        }
        parameters = parameters.continue_token(&page.metadata.token);
    }
}
