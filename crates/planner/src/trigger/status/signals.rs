//! What the operator's gauge shows.

use api::{Condition, conditions::READY, trigger::PipelineTriggerStatus};

use crate::trigger::conditions::last;

/// What the operator's gauge shows of one block or branch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal {
    /// The branch, image or source.
    pub repository: String,
    /// The type of the newest condition.
    pub type_: String,
    /// Its status.
    pub status: String,
}

/// What the operator's gauge shows of a status.
pub fn signals(status: &PipelineTriggerStatus, source: &str) -> Vec<Signal> {
    let signal = |repository: Option<&str>, list: &[Condition]| {
        let newest = last(list);
        Signal {
            repository: repository.unwrap_or_default().to_owned(),
            type_: newest.map(|c| c.type_.clone()).unwrap_or_default(),
            status: newest.map(|c| c.status.clone()).unwrap_or_default(),
        }
    };
    let mut signals = Vec::new();
    if let Some(block) = &status.git_repository {
        signals.push(signal(
            block.branch_name.as_deref().or(Some(source)),
            &block.conditions,
        ));
    }
    if let Some(block) = &status.image_policy {
        signals.push(signal(
            block.image_name.as_deref().or(Some(source)),
            &block.conditions,
        ));
    }
    for (key, branch) in status.branches.iter().flat_map(|all| &all.branch) {
        signals.push(signal(Some(key), &branch.conditions));
    }
    if signals.is_empty() && status.conditions.iter().any(|c| c.type_ != READY) {
        signals.push(signal(Some(source), &status.conditions));
    }
    signals
}
