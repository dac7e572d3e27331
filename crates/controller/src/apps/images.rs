//! The images that apps run, read from the workloads they made.
//!
//! Flux labels what it deploys with the app it belongs to. When a feed has become complete all
//! workloads of its cluster are read at once; afterwards only those of an app that changed.

use std::{collections::HashMap, time::Duration};

use futures::future::try_join_all;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::PodSpec,
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
};
use serde::de::DeserializeOwned;

use super::feed::Feed;
use crate::keys::AppKind;

/// How long reading images may take; they are worth less than the rest of a status.
const WITHIN: Duration = Duration::from_secs(3);
const PAGE: u32 = 500;

/// An app by namespace and name.
type Place = (String, String);

/// The labels by which Flux marks what an app of this kind deployed: name and namespace.
fn labels(kind: &AppKind) -> Option<(String, String)> {
    let is_flux =
        [api::flux::HELM_GROUP, api::flux::KUSTOMIZE_GROUP].contains(&kind.group.as_str());
    is_flux.then(|| {
        (
            format!("{}/name", kind.group),
            format!("{}/namespace", kind.group),
        )
    })
}

/// The images of an app that is a workload itself.
pub(crate) fn of_workload(app: &DynamicObject) -> Vec<String> {
    let containers = app.data.pointer("/spec/template/spec");
    let lists = ["initContainers", "containers"];
    let containers = lists
        .iter()
        .filter_map(|list| containers?.get(list)?.as_array())
        .flatten();
    sorted(containers.filter_map(|container| container["image"].as_str().map(str::to_owned)))
}

fn sorted(images: impl Iterator<Item = String>) -> Vec<String> {
    let mut images: Vec<String> = images.collect();
    images.sort();
    images.dedup();
    images
}

/// Reads the images of all apps of a feed.
pub(super) async fn fill(feed: &Feed, scope: &str) {
    let Some((name_label, namespace_label)) = labels(&feed.kind) else {
        return;
    };
    let read = all(&feed.calling, scope, &name_label, &namespace_label);
    let (images, note) = match tokio::time::timeout(WITHIN, read).await {
        Ok(Ok(images)) => (images, None),
        Ok(Err(error)) => (HashMap::new(), Some(note(&error))),
        Err(_) => (
            HashMap::new(),
            Some("images could not be read in time".to_owned()),
        ),
    };
    let apps = &feed.shared.apps;
    let is_complete = note.is_none();
    apps.set_images_note(&feed.cluster, &feed.kind, note);
    if is_complete {
        apps.fill_images(&feed.cluster, &feed.kind, scope, &images);
    }
}

/// The images of one app; or why they are left out.
pub(crate) async fn of_app(
    client: &Client,
    kind: &AppKind,
    place: (&str, &str),
) -> Result<Vec<String>, String> {
    let Some((name_label, namespace_label)) = labels(kind) else {
        return Ok(Vec::new());
    };
    let (namespace, name) = place;
    let selector = format!("{name_label}={name},{namespace_label}={namespace}");
    let read = async {
        match selected(client, "", &selector).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                selected(client, namespace, &selector).await
            }
            found => found,
        }
    };
    match tokio::time::timeout(WITHIN, read).await {
        Ok(Ok(workloads)) => Ok(sorted(workloads.into_iter().flat_map(|(_, images)| images))),
        Ok(Err(error)) => Err(note(&error)),
        Err(_) => Err("images could not be read in time".to_owned()),
    }
}

fn note(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "images are left out: reading workloads is not allowed".to_owned()
        }
        error => format!("images could not be read: {}", crate::clusters::told(error)),
    }
}

/// The images of every app of a kind.
async fn all(
    client: &Client,
    scope: &str,
    name_label: &str,
    namespace_label: &str,
) -> Result<HashMap<Place, Vec<String>>, kube::Error> {
    let mut images: HashMap<Place, Vec<String>> = HashMap::new();
    for (labels, found) in selected(client, scope, name_label).await? {
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        let place = (label(namespace_label), label(name_label));
        images.entry(place).or_default().extend(found);
    }
    for found in images.values_mut() {
        *found = sorted(std::mem::take(found).into_iter());
    }
    Ok(images)
}

/// Labels and images of a workload.
type Workload = (std::collections::BTreeMap<String, String>, Vec<String>);

async fn selected(
    client: &Client,
    scope: &str,
    selector: &str,
) -> Result<Vec<Workload>, kube::Error> {
    let lists: Vec<futures::future::BoxFuture<'_, _>> = vec![
        Box::pin(list::<Deployment>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        })),
        Box::pin(list::<StatefulSet>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        })),
        Box::pin(list::<DaemonSet>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        })),
    ];
    Ok(try_join_all(lists).await?.into_iter().flatten().collect())
}

async fn list<K>(
    client: &Client,
    scope: &str,
    selector: &str,
    pod: fn(&K) -> Option<&PodSpec>,
) -> Result<Vec<Workload>, kube::Error>
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
    let mut parameters = ListParams::default().labels(selector).limit(PAGE);
    let mut workloads = Vec::new();
    loop {
        let page = api.list(&parameters).await?;
        for workload in &page.items {
            let labels = workload.meta().labels.clone().unwrap_or_default();
            workloads.push((labels, pod(workload).map(images_of).unwrap_or_default()));
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

/// One image among those an app runs, by its name.
pub(crate) fn tracked(images: &[String], name: &str) -> Option<api::image::Image> {
    let mut parsed = images
        .iter()
        .filter_map(|text| api::image::Image::parse(text));
    parsed.find(|image| image.is(name))
}
