//! Which wave a target belongs to. Computed when the rollout starts, and stored.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    Promotion,
    names::short_hash,
    pipeline::{TargetStatus, Wave},
    promotion::{RolloutStatus, RolloutTarget, WaveStatus},
};

use super::{RolloutContext, landed_at};
use crate::{
    promotion_phase::merged_at,
    time::{Timestamp, stored},
};

impl RolloutContext<'_> {
    /// The rollout before its first target is started; `others` are the other promotions into its environment.
    pub(crate) fn begin<'b>(&self, others: impl Iterator<Item = &'b Promotion>) -> RolloutStatus {
        let mut rollout = self.assigned();
        let landed = last_landed(others, self.targets.keys());
        for target in &mut rollout.targets {
            let last = landed.get(target.target.as_str());
            let is_other = last.is_some_and(|(_, revision)| *revision != self.spec.revision);
            target.other_revision_landed = is_other;
        }
        rollout
    }

    fn assigned(&self) -> RolloutStatus {
        let total = self.targets.len();
        let mut left: Vec<_> = self.targets.iter().collect();
        left.sort_by_cached_key(|(key, _)| stable_order(key));
        let mut targets = Vec::with_capacity(total);
        let mut waves = Vec::new();
        for (number, wave) in self.settings.waves.iter().enumerate() {
            let size = wave_size(wave, total);
            let mut taken = 0;
            left.retain(|(key, status)| {
                let takes = taken < size && is_selected(wave, number, status);
                if takes {
                    taken += 1;
                    targets.push(member(key, number));
                }
                !takes
            });
            waves.push(WaveStatus::default());
        }
        if !left.is_empty() || waves.is_empty() {
            let last = waves.len();
            targets.extend(left.iter().map(|(key, _)| member(key, last)));
            waves.push(WaveStatus::default());
        }
        waves[0].opened_at = Some(stored(self.now));
        RolloutStatus {
            total: count(total),
            waves,
            targets,
            ..RolloutStatus::default()
        }
    }

    /// Targets that were added since go into the last wave.
    pub(super) fn add_joined(&self, rollout: &mut RolloutStatus) {
        let known: BTreeSet<_> = rollout.targets.iter().map(|it| &it.target).collect();
        let new = self.targets.keys().filter(|key| !known.contains(key));
        let last = rollout.waves.len().saturating_sub(1);
        let mut joined: Vec<_> = new
            .map(|key| RolloutTarget {
                joined: true,
                ..member(key, last)
            })
            .collect();
        if joined.is_empty() {
            return;
        }
        joined.sort_by_cached_key(|it| stable_order(&it.target));
        // A wave that is done is not opened again: what comes that late is started beside it.
        rollout.targets.append(&mut joined);
    }
}

/// The revision of the promotion that landed last in each target, and when.
fn last_landed<'a, 'k>(
    promotions: impl Iterator<Item = &'a Promotion>,
    all: impl Iterator<Item = &'k String> + Clone,
) -> BTreeMap<String, (Timestamp, &'a str)> {
    let mut landed: BTreeMap<String, (Timestamp, &str)> = BTreeMap::new();
    for promotion in promotions {
        let rollout = promotion.status.as_ref().and_then(|it| it.rollout.as_ref());
        let here: Vec<(&String, Timestamp)> = match (rollout, merged_at(promotion)) {
            (Some(rollout), _) => {
                let targets = rollout.targets.iter();
                let landed = |it| landed_at(it, &rollout.batches);
                targets
                    .filter_map(|it| Some((&it.target, landed(it)?)))
                    .collect()
            }
            (None, Some(at)) => all.clone().map(|key| (key, at)).collect(),
            (None, None) => continue,
        };
        for (key, at) in here {
            let last = landed
                .entry(key.clone())
                .or_insert((at, &promotion.spec.revision));
            *last = (*last).max((at, &promotion.spec.revision));
        }
    }
    landed
}

fn member(key: &str, wave: usize) -> RolloutTarget {
    RolloutTarget {
        target: key.to_owned(),
        wave: count(wave),
        ..RolloutTarget::default()
    }
}

/// The most targets that a wave takes: of all, rounded down, at least one.
fn wave_size(wave: &Wave, total: usize) -> usize {
    match wave.percent {
        None => total,
        Some(percent) => {
            let percent = usize::try_from(percent.clamp(0, 100)).unwrap_or_default();
            (total * percent / 100).max(1)
        }
    }
}

fn is_selected(wave: &Wave, number: usize, target: &TargetStatus) -> bool {
    wave.selector.is_none() || target.matching_waves.contains(&count(number))
}

/// The same for every rollout, and unrelated to the names of clusters.
fn stable_order(key: &str) -> String {
    short_hash(&[key])
}

pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
