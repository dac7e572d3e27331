//! Writes the conditions of GitopsClusters: whether a cluster can be reached, where no other manager
//! owns the conditions.

use std::{sync::Arc, time::Duration};

use api::{
    Condition, GitopsCluster, Time,
    cluster::CONNECTIVITY,
    conditions::{self, READY},
};
use serde_json::Value;

use crate::{Detect, FIELD_MANAGER, PipelineReconciler, keys::ClusterKey};

/// How long after the start all pipelines have been reconciled once.
const SETTLE_TIME: Duration = Duration::from_secs(30);
const REACHABLE: &str = "ClusterReachable";
const NOT_REACHABLE: &str = "ClusterNotReachable";

/// The reason while no pipeline uses the cluster, so that nobody probes it.
const NOT_PROBED: &str = "NotProbed";

/// The state of the connection to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connectivity<'a> {
    /// The cluster answers.
    Reachable,
    /// It does not, for this reason.
    Unreachable(&'a str),
    /// No pipeline uses it, so it is not probed.
    NotProbed,
}

/// Resets the conditions that an earlier process wrote on clusters that no pipeline uses any more.
pub(crate) async fn reset_unused(shared: Arc<PipelineReconciler>) {
    if !shared.settings.probe_clusters || shared.settings.detect != Detect::Watch {
        return;
    }
    shared.clusters.synced().await;
    shared.caches.pipelines.synced().await;
    shared.caches.promotions.synced().await;
    tokio::time::sleep(SETTLE_TIME).await;
    for key in shared.clusters.keys() {
        let Some(cluster) = shared.clusters.get(&key) else {
            continue;
        };
        if !shared.is_used(&ClusterKey::Leaf(key)) && is_probed(&cluster) {
            write(&shared, &cluster, Connectivity::NotProbed).await;
        }
    }
}

/// Whether the cluster's `Ready` is the result of one of our probes.
fn is_probed(cluster: &GitopsCluster) -> bool {
    let status = cluster.status.as_ref();
    let ready = status.and_then(|status| conditions::find(&status.conditions, READY));
    ready.is_some_and(|ready| [REACHABLE, NOT_REACHABLE].contains(&ready.reason.as_str()))
}

/// Writes `Ready` and `ClusterConnectivity` if they changed and are ours to write.
pub(super) async fn write(
    shared: &PipelineReconciler,
    cluster: &Arc<GitopsCluster>,
    connectivity: Connectivity<'_>,
) {
    if belongs_to_others(cluster) {
        return;
    }
    let before = cluster.status.as_ref();
    let mut after = before.cloned().unwrap_or_default();
    let now = shared.clock.now();
    for kind in [READY, CONNECTIVITY] {
        set(&mut after.conditions, condition(kind, connectivity, now));
    }
    let written = shared.status.patch(&**cluster, before, &after);
    // A failure is not retried: the next change of the connection writes them again.
    if let Err(error) = written.await {
        let name = &cluster.metadata.name;
        tracing::debug!(cluster = name, %error, "could not write the conditions of a GitopsCluster");
    }
}

fn condition(kind: &str, connectivity: Connectivity<'_>, now: jiff::Timestamp) -> Condition {
    let (status, reason, message) = match connectivity {
        Connectivity::Reachable => ("True", REACHABLE, "the cluster answers"),
        Connectivity::Unreachable(because) => ("False", NOT_REACHABLE, because),
        Connectivity::NotProbed => {
            let message = "no pipeline uses this cluster, so Sluice does not probe it";
            ("Unknown", NOT_PROBED, message)
        }
    };
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)),
        observed_generation: None,
    }
}

/// Sets a condition; if its status stays the same, so does its time.
fn set(conditions: &mut Vec<Condition>, new: Condition) {
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == new.type_)
    {
        Some(known) => {
            let since = known.last_transition_time.clone();
            let is_transition = known.status != new.status;
            *known = new;
            if !is_transition {
                known.last_transition_time = since;
            }
        }
        None => conditions.push(new),
    }
}

/// Whether another manager owns the conditions.
fn belongs_to_others(cluster: &GitopsCluster) -> bool {
    let managers = cluster.metadata.managed_fields.iter().flatten();
    managers
        .filter(|entry| entry.manager.as_deref() != Some(FIELD_MANAGER))
        .any(|entry| {
            let fields: &Value = match &entry.fields_v1 {
                Some(fields) => &fields.0,
                None => return false,
            };
            fields.pointer("/f:status/f:conditions").is_some()
        })
}
