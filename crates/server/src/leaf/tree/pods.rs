//! The pods of a workload.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    core::{Object, Selector},
};
use serde::Deserialize;

use super::{Node, ObjectState, TreeReader, objects::MAX_LISTED};
use crate::leaf::{read_error_text, shortened};

/// The fields that are read of a pod.
type Pod = Object<PodSpec, PodStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    init_containers: Vec<ContainerImage>,
    containers: Vec<ContainerImage>,
}

#[derive(Debug, Clone, Deserialize)]
struct ContainerImage {
    image: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: Option<String>,
    message: Option<String>,
    conditions: Vec<PodCondition>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Deserialize)]
struct PodCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    restart_count: i32,
    state: ContainerState,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ContainerState {
    waiting: Option<WaitingContainer>,
}

#[derive(Debug, Clone, Deserialize)]
struct WaitingContainer {
    reason: Option<String>,
    message: Option<String>,
}

impl TreeReader<'_> {
    /// A workload with its pods.
    pub(super) async fn pods(&self, node: Node, workload: &DynamicObject) -> Node {
        let Some(selector) = selector(workload) else {
            return node;
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let pods: Api<Pod> = Api::namespaced_with(self.client.clone(), &node.namespace, &resource);
        let parameters = ListParams::default()
            .labels_from(&selector)
            .limit(MAX_LISTED);
        let permit = self.request_permits.acquire().await;
        let listed = pods.list(&parameters).await;
        drop(permit);
        match listed {
            Ok(listed) => {
                let own = listed
                    .items
                    .iter()
                    .filter(|pod| is_owned_by(pod, &node, workload));
                let below = own.map(describe).collect();
                let has_more = listed.metadata.continue_.is_some_and(|it| !it.is_empty());
                let more = format!("only {MAX_LISTED} pods were read");
                Node {
                    below,
                    note: has_more.then_some(more),
                    ..node
                }
            }
            Err(error) => node.with_note(format!(
                "pods could not be read: {}",
                read_error_text(&error)
            )),
        }
    }
}

fn selector(workload: &DynamicObject) -> Option<Selector> {
    let selector = workload.data["spec"]["selector"].clone();
    let selector: LabelSelector = serde_json::from_value(selector).ok()?;
    let selector = Selector::try_from(selector).ok()?;
    // Kubernetes accepts no workload whose selector is empty.
    (!selector.to_string().is_empty()).then_some(selector)
}

/// Labels may be shared, so the owner decides. The owner of a Deployment's pods is a ReplicaSet named
/// after it.
fn is_owned_by(pod: &Pod, workload: &Node, object: &DynamicObject) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let prefix = format!("{}-", workload.name);
    let mut owners = owners.filter(|owner| owner.controller == Some(true));
    owners.any(|owner| match workload.kind.as_str() {
        "Deployment" => owner.kind == "ReplicaSet" && owner.name.starts_with(&prefix),
        _ => Some(&owner.uid) == object.metadata.uid.as_ref(),
    })
}

fn describe(pod: &Pod) -> Node {
    let metadata = &pod.metadata;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let mut images: Vec<String> = containers.filter_map(|it| it.image.clone()).collect();
    images.sort();
    images.dedup();
    Node {
        state: match metadata.deletion_timestamp {
            Some(_) => ObjectState::NotReady,
            None => state(&status),
        },
        message: message(pod, &status).map(|text| shortened(&text)),
        images,
        ..Node::named("", "Pod", &text(&metadata.namespace), &text(&metadata.name))
    }
}

fn state(status: &PodStatus) -> ObjectState {
    let mut ready = status.conditions.iter().filter(|it| it.type_ == "Ready");
    match status.phase.as_deref() {
        Some("Succeeded") => ObjectState::Ready,
        Some("Failed") => ObjectState::Failed,
        _ if ready.any(|it| it.status == "True") => ObjectState::Ready,
        _ => ObjectState::NotReady,
    }
}

/// Why a pod is not ready.
fn message(pod: &Pod, status: &PodStatus) -> Option<String> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("being deleted".to_owned());
    }
    let first = status.init_container_statuses.iter();
    let all = first.chain(&status.container_statuses);
    let waits = all.clone().find_map(waits_for);
    let restarts: i32 = all.map(|it| it.restart_count).sum();
    let restarts = (restarts > 0).then(|| format!("restarted {restarts} times"));
    let phase = status.phase.clone().filter(|it| it != "Running");
    waits.or(status.message.clone()).or(restarts).or(phase)
}

fn waits_for(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.waiting.as_ref()?;
    let reason = waiting.reason.clone()?;
    match &waiting.message {
        Some(message) => Some(format!("{}: {reason}: {message}", container.name)),
        None => Some(format!("{}: {reason}", container.name)),
    }
}
