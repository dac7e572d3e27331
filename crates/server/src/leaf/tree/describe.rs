//! The state, sources and inventory of an object.

use api::{
    app::{self, AppType},
    flux::{
        HELM_GROUP, HelmRelease, Inventory, InventoryEntry, KUSTOMIZE_GROUP, Kustomization,
        ObjectReference, SOURCE_GROUP, SourceStatus,
    },
    revision::shown,
    third_party::{self, StatusCondition},
};
use kube::api::DynamicObject;
use serde_json::Value;

use super::{Node, ObjectState};
use crate::leaf::{
    kinds::{BATCH, WORKLOADS, is_read},
    shortened,
};

/// The node with the state of its object.
pub(super) fn state_of(node: Node, object: &DynamicObject) -> Node {
    let mut node = match node.group.as_str() {
        SOURCE_GROUP => source(node, object),
        BATCH => job(node, object),
        _ => app(node, object),
    };
    node.message = node.message.map(|text| shortened(&text));
    if WORKLOADS.contains(&(node.group.as_str(), node.kind.as_str())) {
        node.images = images(&object.data);
    }
    node
}

fn app(node: Node, object: &DynamicObject) -> Node {
    let kind = AppType::of(&format!("{}/", node.group), &node.kind);
    let reading = app::read_as(kind, object, None);
    let state = match &reading {
        it if it.suspended => ObjectState::Suspended,
        it if it.ready => ObjectState::Ready,
        it if it.failed => ObjectState::Failed,
        _ => ObjectState::NotReady,
    };
    // The revision of a workload is an image tag, which is shown with the images.
    let is_workload = matches!(kind, AppType::Workload(_));
    let revision = reading.revision.filter(|_| !is_workload);
    Node {
        state,
        revision: revision.map(|revision| shown(revision.as_str(), reading.version.as_deref())),
        message: reading.message,
        ..node
    }
}

fn source(node: Node, object: &DynamicObject) -> Node {
    let status: SourceStatus = third_party::read(&object.data["status"]);
    let revision = status.artifact.and_then(|artifact| artifact.revision);
    let node = Node { revision, ..node };
    if object.data["spec"]["suspend"] == true {
        let state = ObjectState::Suspended;
        return Node { state, ..node };
    }
    let conditions = status.conditions.unwrap_or_default();
    match conditions.iter().find(|it| it.type_ == "Ready") {
        Some(ready) => Node {
            state: match ready.status.as_str() {
                "True" => ObjectState::Ready,
                _ => ObjectState::NotReady,
            },
            message: ready.message.clone(),
            ..node
        },
        // A HelmRepository of type oci is never fetched and has no conditions.
        None if object.data["spec"]["type"] == "oci" => Node {
            state: ObjectState::Ready,
            ..node
        },
        None => node,
    }
}

fn job(node: Node, object: &DynamicObject) -> Node {
    let conditions: Conditions = third_party::read(&object.data["status"]);
    let condition = |kind: &str| conditions.conditions.iter().find(|it| it.is_true(kind));
    let failed = condition("Failed");
    let state = match node.kind.as_str() {
        _ if object.data["spec"]["suspend"] == true => ObjectState::Suspended,
        "CronJob" => ObjectState::Ready,
        _ if failed.is_some() => ObjectState::Failed,
        _ if condition("Complete").is_some() => ObjectState::Ready,
        _ => ObjectState::NotReady,
    };
    let message = failed.and_then(|failed| failed.message.clone());
    Node {
        state,
        message,
        ..node
    }
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Conditions {
    conditions: Vec<StatusCondition>,
}

/// The images of a workload's pods.
pub(in crate::leaf) fn images(workload: &Value) -> Vec<String> {
    let template = [
        "/spec/template/spec",
        "/spec/jobTemplate/spec/template/spec",
    ];
    let pod = template.iter().find_map(|path| workload.pointer(path));
    let lists = ["initContainers", "containers"].map(|list| pod?.get(list)?.as_array());
    let containers = lists.into_iter().flatten().flatten();
    let images = containers.filter_map(|container| Some(container["image"].as_str()?.to_owned()));
    let mut images: Vec<String> = images.collect();
    images.sort();
    images.dedup();
    images
}

/// The sources of an app or a chart, the farthest first.
pub(super) fn sources_of(of: &Node, object: &DynamicObject) -> Vec<Node> {
    let named = |reference: &ObjectReference| {
        let namespace = reference.namespace.as_deref().unwrap_or(&of.namespace);
        let (kind, name) = (reference.kind.as_deref()?, reference.name.as_deref()?);
        Some(Node::named(SOURCE_GROUP, kind, namespace, name))
    };
    match (of.group.as_str(), of.kind.as_str()) {
        (KUSTOMIZE_GROUP, _) => {
            let app: Kustomization = third_party::read(&object.data);
            Vec::from_iter(named(&app.spec.source_ref))
        }
        (HELM_GROUP, _) => {
            let app: HelmRelease = third_party::read(&object.data);
            let chart = object.data["status"]["helmChart"].as_str();
            let chart = chart.and_then(|chart| chart.split_once('/'));
            let chart = chart
                .map(|(namespace, name)| Node::named(SOURCE_GROUP, "HelmChart", namespace, name));
            let direct = app.spec.chart_ref.as_ref().and_then(named);
            let source = app.spec.chart.and_then(|chart| chart.spec.source_ref);
            let source = source.as_ref().and_then(named);
            source.into_iter().chain(direct.or(chart)).collect()
        }
        _ => {
            let reference: ObjectReference = third_party::read(&object.data["spec"]["sourceRef"]);
            Vec::from_iter(named(&reference))
        }
    }
}

/// The inventory of an app: first the kinds that are read, then by kind and name.
pub(super) fn inventory_of(object: &DynamicObject) -> Vec<Node> {
    let inventory: Inventory = third_party::read(&object.data["status"]["inventory"]);
    let entry = |entry: &InventoryEntry| {
        let [namespace, name, group, kind] = entry.object()?;
        Some(Node::named(group, kind, namespace, name))
    };
    let mut nodes: Vec<Node> = inventory.entries.iter().filter_map(entry).collect();
    nodes.sort_by_cached_key(|it| {
        let is_named_only = !is_read(&it.group, &it.kind);
        (
            is_named_only,
            it.kind.clone(),
            it.namespace.clone(),
            it.name.clone(),
        )
    });
    nodes
}
