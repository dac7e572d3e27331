//! CustomResourceDefinitions of the Flux kinds that the stand-in uses, without validation.

use serde_json::{Value, json};

/// The definitions, to create on a cluster before the stand-in starts there.
pub fn definitions() -> Vec<Value> {
    [
        (
            "helm.toolkit.fluxcd.io",
            "HelmRelease",
            "helmreleases",
            "v2",
        ),
        (
            "kustomize.toolkit.fluxcd.io",
            "Kustomization",
            "kustomizations",
            "v1",
        ),
        (
            "source.toolkit.fluxcd.io",
            "GitRepository",
            "gitrepositories",
            "v1",
        ),
        (
            "source.toolkit.fluxcd.io",
            "HelmRepository",
            "helmrepositories",
            "v1",
        ),
        ("source.toolkit.fluxcd.io", "HelmChart", "helmcharts", "v1"),
        (
            "source.toolkit.fluxcd.io",
            "OCIRepository",
            "ocirepositories",
            "v1",
        ),
    ]
    .map(definition)
    .into()
}

fn definition((group, kind, plural, version): (&str, &str, &str, &str)) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": open, "status": open},
                }},
            }],
        },
    })
}
