//! Conditions in the statuses, with the reasons and messages that existing tools know.

use api::{
    Condition,
    conditions::READY,
    pipeline::{Evidence, PipelineStatus, TargetProblem, TargetStatus},
};

use crate::{
    site::{cluster_of_status, cluster_text},
    time::{Timestamp, stored},
};

/// Status, reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConditionValue {
    /// `True`, `False` or `Unknown`.
    pub(crate) status: &'static str,
    /// A fixed reason.
    pub(crate) reason: String,
    /// A sentence.
    pub(crate) message: String,
}

impl ConditionValue {
    pub(crate) fn new(status: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// The longest message a condition is given, in bytes.
const LONGEST_MESSAGE: usize = 20_000;

/// Sets one condition. The transition time changes only with the status.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    value: &ConditionValue,
    now: Timestamp,
) {
    let message = cut(&value.message, LONGEST_MESSAGE);
    let old = conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_);
    let Some(old) = old else {
        conditions.push(Condition {
            type_: type_.to_owned(),
            status: value.status.to_owned(),
            reason: value.reason.clone(),
            message,
            last_transition_time: stored(now),
            observed_generation: None,
        });
        return;
    };
    if old.status != value.status {
        old.status = value.status.to_owned();
        old.last_transition_time = stored(now);
    }
    old.reason.clone_from(&value.reason);
    old.message = message;
}

/// Removes one condition.
pub(crate) fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// The text, truncated at a character and with an ellipsis where it is too long.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = (0..=longest)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or_default();
    format!("{}...", &text[..end])
}

/// Sets `Ready`: whether every target could be read.
pub(crate) fn set_readable(status: &mut PipelineStatus, order: &[&str], now: Timestamp) {
    let value = readable(status, order);
    set(&mut status.conditions, READY, &value, now);
}

/// Whether every target could be read. Apps that are not ready do not matter here.
pub(crate) fn readable(status: &PipelineStatus, order: &[&str]) -> ConditionValue {
    let environments = order
        .iter()
        .filter_map(|name| status.environments.get(*name));
    let targets: Vec<_> = environments
        .flat_map(|environment| &environment.targets)
        .collect();
    if let Some(value) = targets.iter().find_map(|target| unusable_cluster(target)) {
        return value;
    }
    if targets.iter().any(|target| target.problem.is_some()) {
        let message = "One or more targets was not reachable or not present";
        return ConditionValue::new("False", "TargetNotReadable", message);
    }
    ConditionValue::new("True", "ReconciliationSucceeded", "All clusters checked")
}

/// The value where reports are the evidence: only the GitopsCluster is read, and the texts are those of
/// the Weave pipeline-controller's webhook mode.
fn unusable_cluster(target: &TargetStatus) -> Option<ConditionValue> {
    if target.source != Some(Evidence::Report) {
        return None;
    }
    let (reason, state) = match target.problem? {
        TargetProblem::ClusterMissing => ("TargetClusterNotFound", "not found"),
        TargetProblem::ClusterNotReady => ("TargetClusterNotReady", "not ready"),
        _ => return None,
    };
    let cluster = cluster_of_status(target)
        .map(cluster_text)
        .unwrap_or_default();
    let message = format!("Target cluster '{cluster}' {state}");
    Some(ConditionValue::new("False", reason, message))
}
