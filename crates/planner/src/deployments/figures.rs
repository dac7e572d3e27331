//! Figures about deliveries: how often, how fast, how many failed, and how long it took to restore.
//!
//! They cover at most [`DAYS`] days and what is still stored.

use std::time::Duration;

use api::{Pipeline, Promotion, pipeline::PipelineStatus, revision::identity};

use super::{Deployment, DeploymentKind, deployments};
use crate::{
    promotion_phase::is_rollback,
    sources::environment_columns,
    time::{Timestamp, earlier},
};

/// How many days the figures cover.
pub const DAYS: u32 = 30;

/// Figures about the deliveries of a pipeline in the last [`DAYS`] days.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFigures {
    /// Deployments into the last environment.
    pub deployments: usize,
    /// From the first environment to the last, the median.
    pub lead_time: Option<Duration>,
    /// Deployments that failed, in all environments.
    pub failed: usize,
    /// All deployments in all environments, with those that failed.
    pub all: usize,
    /// From a failure until something else was deployed, the median.
    pub time_to_restore: Option<Duration>,
}

/// The figures of a pipeline.
pub fn delivery_figures(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    promotions: &[Promotion],
    now: Timestamp,
) -> DeliveryFigures {
    let start = earlier(now, Duration::from_secs(u64::from(DAYS) * 24 * 60 * 60));
    let is_recent = |at: Timestamp| at >= start && at <= now;
    // In the order of promotion, which need not be that of the list.
    let environments = environment_columns(&pipeline.spec).into_iter().flatten();
    let lanes: Vec<Vec<Deployment>> = environments
        .map(|it| deployments(&it.name, model.environments.get(&it.name), promotions))
        .collect();
    let mut changes: Vec<Vec<ChangeOutcome>> = lanes.iter().map(|lane| outcomes(lane)).collect();
    for lane in &mut changes {
        lane.retain(|it| is_recent(it.from));
    }
    let last = changes.last().map(Vec::as_slice).unwrap_or_default();
    let releases = || changes.iter().flatten().filter(|it| !it.is_rollback);
    DeliveryFigures {
        deployments: last.iter().filter(|it| it.is_release()).count(),
        lead_time: lead_time(&lanes, promotions, is_recent),
        failed: releases().filter(|it| it.has_failed).count(),
        all: releases().count(),
        time_to_restore: median(changes.iter().flat_map(|lane| restored(lane))),
    }
}

/// What became of one revision while it was the last one that came.
struct ChangeOutcome {
    from: Timestamp,
    is_rollback: bool,
    /// Whether it ran.
    has_run: bool,
    /// It could not be deployed, failed its checks, or was rolled back.
    has_failed: bool,
}

impl ChangeOutcome {
    fn is_release(&self) -> bool {
        self.has_run && !self.is_rollback
    }
}

/// The changes of an environment. A revision that was deployed and then failed its checks is one change. What
/// ran before anything was promoted is none: nobody knows when it came.
fn outcomes(lane: &[Deployment]) -> Vec<ChangeOutcome> {
    let mut changes: Vec<(&str, ChangeOutcome)> = Vec::new();
    for deployment in lane {
        let is_failed = deployment.kind == DeploymentKind::Failed;
        let is_rollback = deployment.kind == DeploymentKind::Rollback;
        let revision = identity(&deployment.revision);
        if let Some((last, outcome)) = changes.last_mut() {
            if *last == revision {
                outcome.has_failed |= is_failed;
                outcome.has_run |= !is_failed;
                continue;
            }
            outcome.has_failed |= is_rollback;
        }
        let outcome = ChangeOutcome {
            from: deployment.from,
            is_rollback,
            has_run: !is_failed,
            has_failed: is_failed,
        };
        changes.push((revision, outcome));
    }
    let is_first_sight =
        |it: &Deployment| it.promotion.is_none() && it.kind == DeploymentKind::Release;
    let known = usize::from(lane.first().is_some_and(is_first_sight));
    changes.into_iter().skip(known).map(|(_, it)| it).collect()
}

/// From the first environment to the last, for each revision that was promoted into the last, its first time.
fn lead_time(
    lanes: &[Vec<Deployment>],
    promotions: &[Promotion],
    is_recent: impl Fn(Timestamp) -> bool,
) -> Option<Duration> {
    let (first, rest) = lanes.split_first()?;
    let last = rest.last()?;
    let releases = last.iter().enumerate().filter(|(at, it)| {
        let ran = last[..*at]
            .iter()
            .filter(|it| it.kind != DeploymentKind::Failed);
        let is_first = !ran.into_iter().any(|earlier| earlier.is_of(&it.revision));
        let is_promoted = it.kind == DeploymentKind::Release && it.promotion.is_some();
        is_recent(it.from) && is_promoted && is_first
    });
    median(releases.filter_map(|(_, release)| {
        let revision = identity(&release.revision);
        let mut start = first.iter().filter(|it| it.kind == DeploymentKind::Release);
        let start = start.find(|it| it.is_of(revision));
        let start = start.map(|it| it.from);
        between(
            start.or_else(|| promoted_since(revision, promotions))?,
            release.from,
        )
    }))
}

/// When a revision was first promoted, where the first environment does not know any more when it came.
fn promoted_since(revision: &str, promotions: &[Promotion]) -> Option<Timestamp> {
    let same = promotions.iter().filter(|it| !is_rollback(it));
    let same = same.filter(|it| identity(&it.spec.revision) == revision);
    let created = same.filter_map(|it| it.metadata.creation_timestamp.as_ref());
    created.map(|at| at.0).min()
}

/// From each change that failed until something else ran. Failures in a row count once.
fn restored(lane: &[ChangeOutcome]) -> Vec<Duration> {
    let mut failed_at = None;
    let mut all = Vec::new();
    for change in lane {
        match (change.has_failed, failed_at) {
            (true, None) => failed_at = Some(change.from),
            (true, Some(_)) | (false, None) => {}
            (false, Some(at)) => {
                all.extend(between(at, change.from));
                failed_at = None;
            }
        }
    }
    all
}

fn between(from: Timestamp, until: Timestamp) -> Option<Duration> {
    Duration::try_from(until.duration_since(from)).ok()
}

fn median(all: impl IntoIterator<Item = Duration>) -> Option<Duration> {
    let mut all: Vec<Duration> = all.into_iter().collect();
    all.sort_unstable();
    let upper = *all.get(all.len() / 2)?;
    let lower = *all.get(all.len().checked_sub(1)? / 2)?;
    Some((lower + upper) / 2)
}
