//! How many targets of the rollouts under way are in which state.

use std::collections::BTreeSet;

use api::pipeline::{RolloutSummary, WaveSummary};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use runtime::ObjectKey;

/// The states that targets are counted by.
const STATES: [&str; 6] = [
    "waiting",
    "in_flight",
    "ready",
    "failed",
    "unreachable",
    "skipped",
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ByState {
    namespace: String,
    pipeline: String,
    environment: String,
    state: &'static str,
}

/// How many targets are in each of [`STATES`].
pub(crate) type StateCounts = [i64; 6];

/// The figures about rollouts.
pub(crate) struct Rollouts {
    targets: Family<ByState, Gauge>,
    /// The series there are, so that those of a rollout can go when it ends.
    shown: Mutex<BTreeSet<ByState>>,
}

impl Rollouts {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let targets = Family::default();
        registry.register(
            "sluice_rollout_targets",
            "Targets of rollouts in progress, by state",
            targets.clone(),
        );
        Self {
            targets,
            shown: Mutex::default(),
        }
    }

    /// These rollouts, by pipeline and environment, are under way, and no others.
    pub(crate) fn set(&self, all: impl Iterator<Item = (ObjectKey, String, StateCounts)>) {
        let mut shown = self.shown.lock();
        let before = std::mem::take(&mut *shown);
        for (pipeline, environment, counts) in all {
            for (state, count) in STATES.into_iter().zip(counts) {
                let labels = ByState {
                    namespace: pipeline.namespace.clone(),
                    pipeline: pipeline.name.clone(),
                    environment: environment.clone(),
                    state,
                };
                self.targets.get_or_create(&labels).set(count);
                shown.insert(labels);
            }
        }
        for gone in before.difference(&shown) {
            self.targets.remove(gone);
        }
    }
}

/// The states of a rollout's targets; nothing if it has ended.
pub(crate) fn state_counts(rollout: &RolloutSummary) -> Option<StateCounts> {
    if rollout.finished_at.is_some() {
        return None;
    }
    let sum = |pick: fn(&WaveSummary) -> i64| rollout.waves.iter().map(pick).sum::<i64>();
    let known = [
        sum(|wave| wave.in_flight),
        sum(|wave| wave.ready),
        sum(|wave| wave.failed),
        sum(|wave| wave.unreachable),
        sum(|wave| wave.skipped),
    ];
    let waiting = sum(|wave| wave.targets) - known.iter().sum::<i64>();
    let [in_flight, ready, failed, unreachable, skipped] = known;
    Some([
        waiting.max(0),
        in_flight,
        ready,
        failed,
        unreachable,
        skipped,
    ])
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[test]
    fn targets_are_counted_over_all_waves_until_the_rollout_ends() {
        let wave = WaveSummary {
            targets: 10,
            ready: 3,
            in_flight: 2,
            failed: 1,
            ..WaveSummary::default()
        };
        let mut rollout = RolloutSummary {
            waves: vec![wave.clone(), wave],
            ..RolloutSummary::default()
        };
        let counts = state_counts(&rollout).expect("it is in progress");
        assert_eq!(counts, [8, 4, 6, 2, 0, 0]);
        let metrics = Metrics::new();
        let one = || (ObjectKey::new("team", "shop"), "prod".to_owned(), counts);
        metrics.rollouts().set(std::iter::once(one()));
        let line = r#"sluice_rollout_targets{namespace="team",pipeline="shop",environment="prod",state="waiting"} 8"#;
        let page = metrics.page();
        assert!(page.lines().any(|it| it == line), "{page}");
        metrics.rollouts().set(std::iter::empty());
        assert!(!metrics.page().contains("sluice_rollout_targets{"));
        rollout.finished_at = Some(api::Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(state_counts(&rollout), None);
    }
}
