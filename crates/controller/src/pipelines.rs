//! The pipelines on the hub, kept small: as text, and read again when they are worked on.
//!
//! A pipeline taken apart into Rust types needs about five times the room of its JSON.

use std::collections::{BTreeMap, HashMap};

use api::{Pipeline, pipeline::TargetStatus};
use parking_lot::RwLock;
use planner::HoldReason;

use runtime::ObjectKey;

/// The states targets are counted by.
pub(crate) const STATES: [&str; 3] = ["ready", "not_ready", "unreadable"];

/// The newest known state of every pipeline.
#[derive(Default)]
pub(crate) struct Pipelines {
    kept: RwLock<HashMap<ObjectKey, Kept>>,
}

struct Kept {
    uid: Option<String>,
    version: u64,
    json: Box<[u8]>,
    /// How many targets are in each of [`STATES`].
    targets: [u32; 3],
    /// Why environments wait.
    holds: Box<[HoldReason]>,
}

impl Pipelines {
    /// Keeps a pipeline unless a newer state of it is known; answers whether it was news.
    pub(crate) fn keep(&self, mut pipeline: Pipeline) -> bool {
        let key = ObjectKey::of(&pipeline.metadata);
        pipeline.metadata.managed_fields = None;
        let version = pipeline.metadata.resource_version.as_deref();
        let version = version
            .and_then(|version| version.parse().ok())
            .unwrap_or_default();
        let uid = pipeline.metadata.uid.clone();
        let is_newer = |kept: &Kept| kept.uid == uid && kept.version >= version;
        if self.kept.read().get(&key).is_some_and(is_newer) {
            return false;
        }
        let Ok(json) = serde_json::to_vec(&pipeline) else {
            return false; // what was read from JSON can be written as JSON
        };
        let kept = Kept {
            uid,
            version,
            json: json.into(),
            targets: counts(&pipeline),
            holds: holds(&pipeline),
        };
        self.kept.write().insert(key, kept);
        true
    }

    /// Whether there is such a pipeline.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.kept.read().contains_key(key)
    }

    /// One pipeline.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Pipeline> {
        let kept = self.kept.read();
        serde_json::from_slice(&kept.get(key)?.json).ok()
    }

    /// Forgets one.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.kept.write().remove(key);
    }

    /// All there are.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.kept.read().keys().cloned().collect()
    }

    /// How many environments wait for each reason.
    pub(crate) fn holds(&self) -> BTreeMap<HoldReason, usize> {
        let mut counts: BTreeMap<_, _> = HoldReason::ALL.iter().map(|it| (*it, 0)).collect();
        for hold in self.kept.read().values().flat_map(|kept| &kept.holds) {
            *counts.entry(*hold).or_default() += 1;
        }
        counts
    }

    /// How many targets are in each of [`STATES`].
    pub(crate) fn targets(&self) -> [usize; 3] {
        let mut sums = [0; 3];
        for kept in self.kept.read().values() {
            for (sum, count) in sums.iter_mut().zip(kept.targets) {
                *sum += count as usize;
            }
        }
        sums
    }
}

fn holds(pipeline: &Pipeline) -> Box<[HoldReason]> {
    let status = pipeline.status.iter();
    let environments = status.flat_map(|status| status.environments.values());
    let words = environments.filter_map(|it| Some(it.hold.as_ref()?.reason.as_str()));
    let reason = |word: &str| HoldReason::ALL.iter().find(|it| it.word() == word).copied();
    words.filter_map(reason).collect()
}

fn counts(pipeline: &Pipeline) -> [u32; 3] {
    let mut counts = [0; 3];
    let environments = pipeline
        .status
        .iter()
        .flat_map(|it| it.environments.values());
    for target in environments.flat_map(|environment| &environment.targets) {
        counts[state(target)] += 1;
    }
    counts
}

fn state(target: &TargetStatus) -> usize {
    match (&target.problem, target.ready) {
        (Some(_), _) => 2,
        (None, true) => 0,
        (None, false) => 1,
    }
}
