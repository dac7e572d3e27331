//! Which targets of a rollout a task is about: the batch under way, what people approve, or what is still
//! to come.
//!
//! A promotion whose rollout has not begun is about all targets of its environment.

use std::collections::BTreeSet;

use api::{
    Promotion,
    promotion::{Batch, RolloutStatus, RolloutTarget},
};

/// How many targets a sentence names.
const NAMED: usize = 3;
/// What stands for the hub where a cluster is named.
const HUB: &str = "-";

/// A part of the targets of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RolloutPart {
    /// The batch under way, else the last one.
    #[default]
    Batch,
    /// The same, where no manifest of a target that has not been started may be edited.
    BatchAlone,
    /// What people approve: the targets whose change has not landed, without those that joined later.
    NotLanded,
    /// The targets that are in no batch yet.
    NotStarted,
}

/// A batch of targets that are changed together.
#[derive(Clone, Copy)]
pub(super) struct TargetBatch<'a> {
    rollout: &'a RolloutStatus,
    batch: &'a Batch,
}

impl<'a> TargetBatch<'a> {
    /// The batch under way, else the last one; nothing where no batch was started.
    pub(super) fn of(promotion: &'a Promotion) -> Option<Self> {
        let rollout = promotion.status.as_ref()?.rollout.as_ref()?;
        let batch = rollout.batches.last()?;
        Some(Self { rollout, batch })
    }

    pub(super) fn number(self) -> i64 {
        self.batch.number
    }

    pub(super) fn targets(self) -> impl Iterator<Item = &'a RolloutTarget> {
        self.rollout.targets_of(self.batch.number)
    }

    /// Whether its targets were added to the environment after the start. A batch never mixes them with
    /// others.
    pub(super) fn has_joined(self) -> bool {
        self.targets().any(|target| target.joined)
    }

    /// Hashes of the edits that people approved.
    pub(super) fn approved_edits(self) -> &'a [String] {
        &self.rollout.approved_edits
    }

    /// `, batch 2 (10 targets)`, for a title.
    pub(super) fn in_title(self) -> String {
        let count = match self.targets().count() {
            1 => "1 target".to_owned(),
            count => format!("{count} targets"),
        };
        format!(", batch {} ({count})", self.number())
    }
}

impl RolloutPart {
    /// The keys of the targets of this part; nothing where it is about all targets of the environment.
    pub(super) fn keys(self, promotion: &Promotion) -> Option<BTreeSet<&str>> {
        let rollout = promotion.status.as_ref()?.rollout.as_ref()?;
        let last = rollout.batches.last();
        let open = rollout.open_batch().map(|batch| batch.number);
        let is_part = |target: &&RolloutTarget| match (self, last) {
            (Self::Batch | Self::BatchAlone, Some(last)) => target.batch == Some(last.number),
            (Self::NotLanded, _) => {
                !target.joined && (target.batch.is_none() || target.batch == open)
            }
            (Self::NotStarted, _) => target.batch.is_none(),
            (_, None) => true,
        };
        let part = rollout.targets.iter().filter(is_part);
        Some(part.map(|target| target.target.as_str()).collect())
    }
}

/// `cluster/namespace` as a rollout names its targets; an empty cluster is the hub.
pub(super) fn target_key((cluster, namespace): &(String, String)) -> String {
    match cluster.as_str() {
        "" => format!("{HUB}/{namespace}"),
        cluster => format!("{cluster}/{namespace}"),
    }
}

/// Cluster, nothing for the hub, and namespace of a key.
pub(super) fn split_key(key: &str) -> (Option<&str>, &str) {
    let (cluster, namespace) = key.rsplit_once('/').unwrap_or((HUB, key));
    (Some(cluster).filter(|cluster| *cluster != HUB), namespace)
}

/// Some targets, for a sentence.
pub(super) fn some_of(keys: &BTreeSet<&str>) -> String {
    let named: Vec<_> = keys.iter().take(NAMED).copied().collect();
    match keys.len().checked_sub(NAMED).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", named.join(", ")),
        None => named.join(", "),
    }
}

#[cfg(test)]
mod tests;
