//! Counts targets by state, environments by hold reason over all pipelines and the targets of rollouts,
//! for the metrics.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::{Pipeline, pipeline::TargetStatus};
use planner::HoldReason;
use runtime::CacheIndex;

use crate::{
    PipelineReconciler,
    metrics::rollouts::{StateCounts, state_counts},
};

/// How often the metrics are updated.
const COUNT_EVERY: Duration = Duration::from_secs(15);
/// The states targets are counted by.
const TARGET_STATES: [&str; 3] = ["ready", "not_ready", "unreadable"];

/// What is counted of one pipeline.
struct PipelineCounts {
    /// How many targets are in each of [`TARGET_STATES`].
    targets: [u32; 3],
    holds: Box<[HoldReason]>,
    /// The rollouts under way, by environment.
    rollouts: Box<[(String, StateCounts)]>,
}

/// Updates the metrics until dropped.
pub(super) async fn report(reconciler: Arc<PipelineReconciler>) {
    let shard = reconciler.pipelines.clone();
    let counts = CacheIndex::new(&reconciler.caches.pipelines, move |pipeline| {
        shard.includes(pipeline).then(|| counts_of(pipeline))
    });
    let mut interval = tokio::time::interval(COUNT_EVERY);
    loop {
        interval.tick().await;
        let (mut targets, mut rollouts) = ([0; 3], Vec::new());
        let mut holds: BTreeMap<_, _> = HoldReason::ALL.iter().map(|it| (*it, 0)).collect();
        counts.for_each(|key, counts| {
            for (sum, count) in targets.iter_mut().zip(counts.targets) {
                *sum += count as usize;
            }
            for hold in &counts.holds {
                *holds.entry(*hold).or_default() += 1;
            }
            for (environment, states) in &counts.rollouts {
                rollouts.push((key.clone(), environment.clone(), *states));
            }
        });
        let telemetry = &reconciler.telemetry;
        for (state, count) in TARGET_STATES.into_iter().zip(targets) {
            telemetry.metrics.set_targets(state, count);
        }
        for (reason, count) in holds {
            telemetry.metrics.promotions().set_holds(reason, count);
        }
        if reconciler.settings.metrics_per_pipeline {
            telemetry.metrics.rollouts().set(rollouts.into_iter());
        }
        telemetry.report_oldest_observation();
    }
}

fn counts_of(pipeline: &Pipeline) -> PipelineCounts {
    let status = pipeline.status.iter();
    let environments = || {
        status
            .clone()
            .flat_map(|status| status.environments.values())
    };
    let mut targets = [0; 3];
    for target in environments().flat_map(|environment| &environment.targets) {
        targets[state(target)] += 1;
    }
    let reasons = environments().filter_map(|it| Some(it.hold.as_ref()?.reason.as_str()));
    let parse = |word: &str| HoldReason::ALL.iter().find(|it| it.word() == word).copied();
    let environments = status.flat_map(|status| &status.environments);
    let rollouts = environments.filter_map(|(name, environment)| {
        let counts = state_counts(environment.rollout.as_ref()?)?;
        Some((name.clone(), counts))
    });
    PipelineCounts {
        rollouts: rollouts.collect(),
        targets,
        holds: reasons.filter_map(parse).collect(),
    }
}

fn state(target: &TargetStatus) -> usize {
    match (&target.problem, target.ready) {
        (Some(_), _) => 2,
        (None, true) => 0,
        (None, false) => 1,
    }
}
