//! The clusters that pipelines refer to: the GitopsClusters on the hub, and one connection to each
//! cluster that a pipeline uses.

pub(crate) mod cluster_connection;
pub(crate) mod conditions;
pub(crate) mod kubeconfig;
pub(crate) mod leaf_clients;
mod transport;

use std::{sync::Arc, time::Duration};

use api::{GitopsCluster, LabelSelector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use kube::{Client, config::Kubeconfig};

use runtime::{ObjectCache, ObjectKey};

/// How long any single request to a cluster may take.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a client from a checked kubeconfig. Tests replace it.
pub type Connector = Arc<
    dyn Fn(Kubeconfig) -> futures::future::BoxFuture<'static, Result<Client, String>> + Send + Sync,
>;

/// The GitopsClusters that a selector chooses, by namespace and name.
pub(crate) fn selected(
    clusters: &ObjectCache<GitopsCluster>,
    selector: &LabelSelector,
) -> Vec<Arc<GitopsCluster>> {
    let mut selected = clusters.all();
    selected.retain(|cluster| is_selected(selector, cluster));
    selected.sort_by_cached_key(|cluster| ObjectKey::of(&cluster.metadata));
    selected
}

/// Whether two states of an object lead to the same connection, rights and readiness.
pub(crate) fn is_same(left: &GitopsCluster, right: &GitopsCluster) -> bool {
    left.metadata.uid == right.metadata.uid
        && left.metadata.labels == right.metadata.labels
        && left.metadata.annotations == right.metadata.annotations
        && left.spec == right.spec
        && left.is_ready() == right.is_ready()
}

fn is_selected(selector: &LabelSelector, cluster: &GitopsCluster) -> bool {
    let labels = cluster.metadata.labels.as_ref();
    let label = |key: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .map(String::as_str)
    };
    let has_all = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| label(key) == Some(value));
    let expressions = selector.match_expressions.iter().flatten();
    has_all
        && expressions
            .into_iter()
            .all(|requirement| is_met(requirement, label(&requirement.key)))
}

fn is_met(requirement: &LabelSelectorRequirement, label: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_among = label.is_some_and(|label| values.iter().any(|value| value == label));
    match requirement.operator.as_str() {
        "In" => is_among,
        "NotIn" => !is_among,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

/// The message of an error of a cluster, without anything secret.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        // The parser's message may repeat the response, of whatever server that is.
        kube::Error::SerdeError(_) => "the answer is not one of a Kubernetes API server".to_owned(),
        error => {
            let mut causes: Vec<String> = Vec::new();
            let mut cause: Option<&dyn std::error::Error> = Some(error);
            while let Some(error) = cause {
                causes.push(error.to_string());
                cause = error.source();
            }
            // Of a connection that failed only the last one says more than that.
            let is_transport =
                matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_));
            let first = if is_transport { causes.len() - 1 } else { 0 };
            causes.drain(..first);
            causes.dedup_by(|cause, before| before.contains(cause.as_str()));
            causes.join(": ")
        }
    }
}
