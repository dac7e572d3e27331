//! The values of the operator's gauge `pipelinetrigger_reconcile_condition`.

use api::{Condition, conditions::READY, trigger::PipelineTriggerStatus};

use crate::plan::conditions::newest;

/// The newest condition of one source or pull request branch, for the operator's gauge.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConditionSample {
    /// The branch, image or source.
    pub repository: String,
    /// The type of the newest condition.
    pub type_: String,
    /// Its status.
    pub status: String,
}

/// The samples of the operator's gauge for a status.
pub fn condition_samples(status: &PipelineTriggerStatus, source: &str) -> Vec<ConditionSample> {
    let sample = |repository: Option<&str>, list: &[Condition]| {
        let newest = newest(list);
        ConditionSample {
            repository: repository.unwrap_or_default().to_owned(),
            type_: newest.map(|c| c.type_.clone()).unwrap_or_default(),
            status: newest.map(|c| c.status.clone()).unwrap_or_default(),
        }
    };
    let mut condition_samples = Vec::new();
    if let Some(block) = &status.git_repository {
        condition_samples.push(sample(
            block.branch_name.as_deref().or(Some(source)),
            &block.conditions,
        ));
    }
    if let Some(block) = &status.image_policy {
        condition_samples.push(sample(
            block.image_name.as_deref().or(Some(source)),
            &block.conditions,
        ));
    }
    for (key, branch) in status.branches.iter().flat_map(|all| &all.branch) {
        condition_samples.push(sample(Some(key), &branch.conditions));
    }
    if condition_samples.is_empty() && status.conditions.iter().any(|c| c.type_ != READY) {
        condition_samples.push(sample(Some(source), &status.conditions));
    }
    condition_samples
}
