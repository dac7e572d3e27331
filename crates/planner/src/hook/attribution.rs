//! Finds the target that an event is about.
//!
//! The cluster is in the metadata of the Alert; without that, a namespace that only one target of the
//! environment has identifies the target. Otherwise only the environment is known.

use api::{
    Pipeline,
    pipeline::{ClusterReference, Environment},
};

use crate::site::{cluster_key, cluster_of_status, environment_report_key, target_report_key};

/// The key in `status.reports` of what an event from a namespace is about.
pub(super) fn report_key(
    pipeline: &Pipeline,
    environment: &Environment,
    namespace: &str,
    cluster: Option<&str>,
) -> String {
    let home = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let name = environment.name.as_str();
    let targets = targets_in(pipeline, environment, namespace);
    let target = match cluster.filter(|cluster| !cluster.is_empty()) {
        Some(name) => on_cluster(&targets, name, home),
        None => only(&targets),
    };
    match target {
        Some(target) => target_report_key(name, *target, namespace, home),
        None => environment_report_key(name),
    }
}

/// The clusters of the environment's targets in a namespace: those of the spec, and those that selectors
/// match by the status.
fn targets_in<'a>(
    pipeline: &'a Pipeline,
    environment: &'a Environment,
    namespace: &str,
) -> Vec<Option<&'a ClusterReference>> {
    let named = environment.targets.iter();
    let named = named
        .filter(|target| target.namespace == namespace && target.cluster_selector.is_none())
        .map(|target| target.cluster_ref.as_ref());
    let status = pipeline.status.as_ref();
    let known = status.and_then(|status| status.environments.get(&environment.name));
    let matched = known
        .into_iter()
        .flat_map(|known| &known.targets)
        .filter(|target| target.namespace.as_deref() == Some(namespace))
        .map(cluster_of_status);
    let mut targets: Vec<_> = named.collect();
    for cluster in matched {
        if !targets.contains(&cluster) {
            targets.push(cluster);
        }
    }
    targets
}

fn only<'a, 'b>(
    targets: &'b [Option<&'a ClusterReference>],
) -> Option<&'b Option<&'a ClusterReference>> {
    match targets {
        [target] => Some(target),
        _ => None,
    }
}

/// The target on the cluster of that name. The hub has no name of its own: where it is the only target,
/// any name means it.
fn on_cluster<'a, 'b>(
    targets: &'b [Option<&'a ClusterReference>],
    name: &str,
    home: &str,
) -> Option<&'b Option<&'a ClusterReference>> {
    let is_named = |cluster: &ClusterReference| {
        let key = cluster_key(cluster, home);
        key == name || key == name.replacen('/', ".", 1) || cluster.name == name
    };
    let mut found = targets.iter().filter(|target| target.is_some_and(is_named));
    match (found.next(), found.next()) {
        (Some(target), None) => Some(target),
        (None, _) => only(targets).filter(|target| target.is_none()),
        _ => None,
    }
}
