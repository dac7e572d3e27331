//! A leaf cluster, and what may be on it.

use apiserver::Server;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

/// A leaf cluster with Flux's kinds.
pub(crate) async fn leaf() -> Server {
    let server = Server::in_memory();
    for definition in testbed::flux::definitions() {
        put(&server, &definition).await;
    }
    put(
        &server,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
    )
    .await;
    server
}

/// Applies an object with its status; gives its uid.
pub(crate) async fn put(server: &Server, object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(server.client(), namespace, &resource),
        None => Api::all_with(server.client(), &resource),
    };
    let name = text(&object["metadata"]["name"]);
    let parameters = PatchParams::apply("test").force();
    let stored = api.patch(&name, &parameters, &Patch::Apply(object)).await;
    let stored = stored.unwrap();
    if !object["status"].is_null() {
        let status = Patch::Merge(json!({"status": object["status"]}));
        let parameters = PatchParams::default();
        api.patch_status(&name, &parameters, &status).await.unwrap();
    }
    stored.uid().unwrap()
}

pub(crate) fn ready(message: &str) -> Value {
    json!([{"type": "Ready", "status": "True", "reason": "Succeeded", "message": message}])
}

pub(crate) fn release(status: Value) -> Value {
    let mut object = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": "shop"},
        "spec": {"chart": {"spec": {"chart": "web", "sourceRef": {"kind": "GitRepository", "name": "charts"}}}},
        "status": {
            "observedGeneration": 1, "conditions": ready("Helm upgrade succeeded"),
            "history": [{"chartName": "web", "chartVersion": "5.0.0", "status": "deployed"}],
        },
    });
    for (key, value) in status.as_object().unwrap() {
        object["status"][key] = value.clone();
    }
    object
}

pub(crate) fn source() -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "charts", "namespace": "shop"}, "spec": {"url": "https://forge.example/charts"},
        "status": {"artifact": {"revision": "main@sha1:ab"}, "conditions": ready("stored")},
    })
}

pub(crate) fn deployment(name: &str, labels: Value, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
        "status": {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": 1},
    })
}

/// A pod of a Deployment, which has it by a ReplicaSet.
pub(crate) async fn put_pod(server: &Server, workload: &str, name: &str, status: Value) {
    let set = format!("{workload}-7f9");
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/web:5.0.0"}]},
    });
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": set, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    let uid = put(server, &owner).await;
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": uid, "controller": true,
    }]);
    let metadata = json!({
        "name": name, "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owner,
    });
    put(server, &json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"], "status": status,
    }))
    .await;
}

pub(crate) fn helm_labels() -> Value {
    json!({"helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": "shop"})
}
