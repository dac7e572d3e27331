//! The GitopsCluster: where to find the credentials of a leaf cluster.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Condition, conditions,
    lenient::{is_default, null_as_default},
    reference::LocalReference,
    schema,
};

/// Where the cluster's kubeconfig is.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "gitops.weave.works",
    version = "v1alpha1",
    kind = "GitopsCluster",
    namespaced,
    category = "sluice",
    shortname = "gc",
    status = "GitopsClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A cluster that applications are deployed to.",
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name":"ClusterConnectivity","type":"string","jsonPath":".status.conditions[?(@.type==\"ClusterConnectivity\")].status"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, extend("x-kubernetes-validations" = [
    {
        "rule": "(has(self.secretRef) || has(self.capiClusterRef))",
        "message": "must provide a secretRef or capiClusterRef"
    },
    {
        "rule": "!(has(self.secretRef) && has(self.capiClusterRef))",
        "message": "cannot provide both capiClusterRef and secretRef"
    }
]))]
pub struct GitopsClusterSpec {
    /// Secret with the kubeconfig, in the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Cluster API's Cluster, in the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capi_cluster_ref: Option<LocalReference>,
}

crate::lenient::absent_spec_is_empty!(GitopsClusterSpec);

/// Whether the cluster can be reached.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GitopsClusterStatus {
    /// `Ready` and `ClusterConnectivity`.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Condition type: the cluster's API answers.
pub const CONNECTIVITY: &str = "ClusterConnectivity";

/// Keys under which a Secret may hold the kubeconfig, in the order they are tried.
pub const KUBECONFIG_KEYS: [&str; 3] = ["value", "value.yaml", "kubeconfig"];

impl GitopsCluster {
    /// Whether its first `Ready` condition is `True`.
    pub fn is_ready(&self) -> bool {
        let status = self.status.as_ref();
        status.is_some_and(|status| conditions::is_true(&status.conditions, conditions::READY))
    }

    /// The name of the Secret that holds the kubeconfig. Cluster API names its own after the
    /// cluster.
    pub fn kubeconfig_secret(&self) -> Option<String> {
        let capi = self.spec.capi_cluster_ref.as_ref();
        let secret = self.spec.secret_ref.as_ref();
        capi.map(|capi| format!("{}-kubeconfig", capi.name))
            .or_else(|| secret.map(|secret| secret.name.clone()))
    }
}
