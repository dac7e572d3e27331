//! Apps whose artifact comes from a registry, by a tag.

use serde_json::{Value, json};
use testbed::registry::USER;

use crate::world::{World, apply, define, definition, set_status};

/// The repository of the artifacts.
pub(crate) const NAME: &str = "team/shop";

fn kustomization(namespace: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {"sourceRef": {"kind": "OCIRepository", "name": "app"}},
    })
}

/// A cluster with a Kustomization that has applied a revision.
pub(crate) async fn install(world: &World, cluster: &str, namespace: &str, revision: &str) {
    let kind = definition("kustomize.toolkit.fluxcd.io", "Kustomization", "v1");
    world.leaf(cluster, namespace, "1.0.0").await;
    define(&world.cluster(cluster), &kind).await;
    apply(&world.cluster(cluster), &kustomization(namespace)).await;
    applied(world, cluster, namespace, revision).await;
}

/// Flux has applied an artifact.
pub(crate) async fn applied(world: &World, cluster: &str, namespace: &str, revision: &str) {
    let status = json!({
        "observedGeneration": 1, "lastAppliedRevision": revision,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    let client = world.cluster(cluster);
    set_status(&client, &kustomization(namespace), &status).await;
}

/// Sets the Secret with the credentials of the registry.
pub(crate) async fn set_secret(world: &World, password: &str, certificate_authority: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "registry", "namespace": "default"},
        "stringData": {
            "username": USER, "password": password, "caFile": certificate_authority,
        },
    });
    apply(&world.hub, &secret).await;
}

/// What a pipeline of such apps names.
pub(crate) fn app_ref() -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
    })
}

/// The strategy that sets a tag on a registry's host.
pub(crate) fn strategy(host: &str, tag: &str) -> Value {
    json!({"oci": {
        "url": format!("oci://{host}/{NAME}"), "tag": tag, "secretRef": {"name": "registry"},
    }})
}
