//! Tells on the GitopsCluster whether it can be reached, where nobody else does.

use std::sync::Arc;

use api::{Condition, GitopsCluster, Time, cluster::CONNECTIVITY, conditions::READY};
use serde_json::Value;

use crate::{FIELD_MANAGER, Shared, status};

/// Writes `Ready` and `ClusterConnectivity` if they changed and are ours to write.
pub(super) async fn write(shared: &Shared, cluster: &Arc<GitopsCluster>, because: Option<&str>) {
    if belongs_to_others(cluster) {
        return;
    }
    let before = cluster.status.as_ref();
    let mut after = before.cloned().unwrap_or_default();
    let now = shared.clock.now();
    for kind in [READY, CONNECTIVITY] {
        set(&mut after.conditions, condition(kind, because, now));
    }
    let written = status::write(&shared.hub, &shared.telemetry, &**cluster, (before, &after));
    // Whatever got in the way: a change of the cluster brings us back here.
    if let Err(error) = written.await {
        let name = &cluster.metadata.name;
        tracing::debug!(cluster = name, %error, "conditions not written");
    }
}

fn condition(kind: &str, because: Option<&str>, now: jiff::Timestamp) -> Condition {
    let (status, reason, message) = match because {
        None => ("True", "ClusterReachable", "the cluster answers".to_owned()),
        Some(because) => ("False", "ClusterNotReachable", because.to_owned()),
    };
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)),
        observed_generation: None,
    }
}

/// Puts a condition in its place; one that says the same keeps its time.
fn set(conditions: &mut Vec<Condition>, new: Condition) {
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == new.type_)
    {
        Some(known) => {
            let since = known.last_transition_time.clone();
            let is_turn = known.status != new.status;
            *known = new;
            if !is_turn {
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
