//! Conditions, in the words people's tools already know.

use api::{
    Condition,
    conditions::READY,
    pipeline::{Evidence, PipelineStatus, TargetProblem, TargetStatus},
};

use crate::{
    site::{cluster_of_status, cluster_text},
    time::{Timestamp, stored},
};

/// What a condition says, apart from when it began to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConditionValue {
    /// `True`, `False` or `Unknown`.
    pub(crate) status: &'static str,
    /// A fixed word.
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

/// Sets one condition. The time of transition moves only with the status.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    verdict: &ConditionValue,
    now: Timestamp,
) {
    let message = cut(&verdict.message, LONGEST_MESSAGE);
    let old = conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_);
    let Some(old) = old else {
        conditions.push(Condition {
            type_: type_.to_owned(),
            status: verdict.status.to_owned(),
            reason: verdict.reason.clone(),
            message,
            last_transition_time: stored(now),
            observed_generation: None,
        });
        return;
    };
    if old.status != verdict.status {
        old.status = verdict.status.to_owned();
        old.last_transition_time = stored(now);
    }
    old.reason.clone_from(&verdict.reason);
    old.message = message;
}

/// Removes one condition.
pub(crate) fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// The text, shortened at a character with an ellipsis where it is longer than allowed.
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

/// Sets `Ready` by what the targets look like.
pub(crate) fn set_readable(status: &mut PipelineStatus, order: &[&str], now: Timestamp) {
    let verdict = readable(status, order);
    set(&mut status.conditions, READY, &verdict, now);
}

/// Whether every target could be read. Apps that are not ready do not matter here.
pub(crate) fn readable(status: &PipelineStatus, order: &[&str]) -> ConditionValue {
    let environments = order
        .iter()
        .filter_map(|name| status.environments.get(*name));
    let targets: Vec<_> = environments
        .flat_map(|environment| &environment.targets)
        .collect();
    if let Some(verdict) = targets.iter().find_map(|target| unusable_cluster(target)) {
        return verdict;
    }
    if targets.iter().any(|target| target.problem.is_some()) {
        let message = "One or more targets was not reachable or not present";
        return ConditionValue::new("False", "TargetNotReadable", message);
    }
    ConditionValue::new("True", "ReconciliationSucceeded", "All clusters checked")
}

/// Where reports are the evidence, the GitopsCluster is all that is looked at, and the words are
/// those of the ancestor's webhook mode.
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
