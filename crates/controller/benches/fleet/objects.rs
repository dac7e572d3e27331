//! Clusters that stand for a fleet: many embedded API servers behind one port, each with one app.

use apiserver::{Server, User};
use axum::Router;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use testbed::objects::apply;
use tokio::net::TcpListener;

/// Clusters that are reached as `ADDRESS/c0`, `ADDRESS/c1` and so on: the address, and a client of each.
pub(crate) async fn clusters(count: usize) -> (String, Vec<Client>) {
    let servers: Vec<_> = (0..count).map(|_| Server::in_memory()).collect();
    let mut router = Router::new();
    for (number, server) in servers.iter().enumerate() {
        let path = format!("/c{number}");
        router = router.nest_service(&path, server.router(User::in_process()));
    }
    let clients = servers.iter().map(Server::client).collect();
    (listen(router).await, clients)
}

/// The app at 1.0.0, in its namespace.
pub(crate) async fn install_app(client: &Client) {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"},
    });
    apply(client, vec![helm_releases(), namespace, release()]).await;
    set_status(client, "1.0.0", true).await;
}

/// A GitopsCluster and its Secret.
pub(crate) fn registered(name: &str, server: &str, labels: Value) -> Vec<Value> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "stringData": {"value": kubeconfig(server)},
    });
    let cluster = json!({
        "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"secretRef": {"name": name}},
    });
    vec![secret, cluster]
}

/// Serves on a free port of loopback, and returns the address.
pub(crate) async fn listen(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

pub(crate) fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
    )
}

fn release() -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": "app"}, "spec": {},
    })
}

/// What Flux says about the app of a cluster.
pub(crate) async fn set_status(client: &Client, version: &str, is_ready: bool) {
    let (status, reason, history) = match is_ready {
        true => ("True", "UpgradeSucceeded", "deployed"),
        false => ("False", "UpgradeFailed", "failed"),
    };
    let ready = json!({
        "type": "Ready", "status": status, "reason": reason, "message": "done",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({
        "observedGeneration": 1, "conditions": [ready],
        "history": [{"chartVersion": version, "status": history}],
        "lastAttemptedRevision": version,
    });
    let kind = GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease");
    let resource = ApiResource::from_gvk(&kind);
    let releases: Api<DynamicObject> = Api::namespaced_with(client.clone(), "app", &resource);
    let patch = Patch::Merge(json!({"status": status}));
    let patched = releases
        .patch_status("app", &PatchParams::default(), &patch)
        .await;
    patched.expect("a status");
}

fn helm_releases() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "helmreleases.helm.toolkit.fluxcd.io"},
        "spec": {
            "group": "helm.toolkit.fluxcd.io", "scope": "Namespaced",
            "names": {"plural": "helmreleases", "singular": "helmrelease", "kind": "HelmRelease"},
            "versions": [{
                "name": "v2", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
