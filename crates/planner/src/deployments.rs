//! When each revision ran in an environment, and figures about deliveries: how often, how fast, how many
//! failed, and how long it took to restore.
//!
//! Everything comes from stored objects. What they do not say any more is left out, so figures cover at most
//! [`DAYS`] days and what is still stored.

use std::time::Duration;

use api::{
    Pipeline, Promotion,
    pipeline::{EnvironmentStatus, PipelineStatus},
    promotion::Phase,
    revision::identity,
};

use crate::{
    promotion_phase::is_rollback,
    release::failed_revision,
    sources::environment_columns,
    time::{Timestamp, earlier},
};

/// How many days the figures cover.
pub const DAYS: u32 = 30;

/// How a revision came into an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeploymentKind {
    /// It was deployed.
    Release,
    /// A person, or Sluice after a failed check, went back to it.
    Rollback,
    /// It could not be deployed.
    Failed,
}

/// A revision in an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The revision as it is shown.
    pub revision: String,
    /// How it came.
    pub kind: DeploymentKind,
    /// When it was deployed or failed.
    pub from: Timestamp,
    /// When another one took its place; nothing if it is still there.
    pub until: Option<Timestamp>,
    /// The Promotion that brought it.
    pub promotion: Option<String>,
}

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

/// The deployments of an environment, oldest first.
pub fn deployments(
    environment: &str,
    status: Option<&EnvironmentStatus>,
    promotions: &[Promotion],
) -> Vec<Deployment> {
    let promoted = promotions.iter();
    let promoted = promoted.filter(|it| it.spec.environment == environment);
    let mut found: Vec<_> = promoted.filter_map(of_promotion).collect();
    if let Some(status) = status {
        replace_by_ran(status, &mut found);
        found.extend(running(status, &found));
        found.extend(failures(status, &found));
    }
    found.sort_by_key(|it| it.from);
    if let Some(replaced) = replaced_by(found.first(), promotions) {
        found.insert(0, replaced);
    }
    if let Some((index, earlier)) = before_the_rollback(&found, promotions) {
        found.insert(index, earlier);
    }
    let starts: Vec<_> = found.iter().map(|it| it.from).collect();
    let next = starts.into_iter().skip(1).map(Some).chain([None]);
    for (deployment, next) in found.iter_mut().zip(next) {
        if deployment.until.is_some() {
            continue;
        }
        let is_here = deployment.kind != DeploymentKind::Failed || is_failing(status, deployment);
        deployment.until = match is_here {
            true => next,
            false => Some(next.unwrap_or(deployment.from)),
        };
    }
    found
}

/// What ran before the first deployment, if the promotion that brought that says so. When it came is not known,
/// but that it ran when the promotion was created.
fn replaced_by(first: Option<&Deployment>, promotions: &[Promotion]) -> Option<Deployment> {
    let first = first.filter(|it| it.promotion.is_some())?;
    let mut promotions = promotions.iter();
    let brought = promotions.find(|it| it.metadata.name == first.promotion)?;
    let from = brought.metadata.creation_timestamp.as_ref()?.0;
    (from < first.from).then_some(Deployment {
        revision: brought.spec.replaces.clone()?,
        kind: DeploymentKind::Release,
        from,
        until: None,
        promotion: None,
    })
}

/// The first time that a revision ran which was rolled back to later: the environment remembers only the last
/// time. That it ran then is known if it was promoted from here while nothing else ran.
fn before_the_rollback(
    found: &[Deployment],
    promotions: &[Promotion],
) -> Option<(usize, Deployment)> {
    let is_rollback = |it: &Deployment| it.kind == DeploymentKind::Rollback;
    let back = found.iter().position(is_rollback)?;
    let (earlier, revision) = (&found[..back], &found[back].revision);
    let is_same = |it: &Deployment| identity(&it.revision) == identity(revision);
    let from = promoted_since(identity(revision), promotions)?;
    let mut pairs = earlier.iter().zip(earlier.iter().skip(1));
    let gap = pairs
        .position(|(one, next)| one.until.is_some_and(|until| until <= from) && from < next.from)?;
    let first = Deployment {
        revision: revision.clone(),
        kind: DeploymentKind::Release,
        from,
        until: None,
        promotion: None,
    };
    (!earlier.iter().any(is_same)).then_some((gap + 1, first))
}

/// What a promotion that ended has deployed, or failed to.
fn of_promotion(promotion: &Promotion) -> Option<Deployment> {
    let (spec, status) = (&promotion.spec, promotion.status.as_ref()?);
    let kind = match (status.phase?, is_rollback(promotion)) {
        (Phase::Failed, _) => DeploymentKind::Failed,
        (Phase::Succeeded, true) => DeploymentKind::Rollback,
        (Phase::Succeeded, false) => DeploymentKind::Release,
        _ => return None,
    };
    Some(Deployment {
        revision: spec.shown_revision(),
        kind,
        from: status.finished_at.as_ref()?.0,
        until: None,
        promotion: promotion.metadata.name.clone(),
    })
}

/// What the environment remembers is more exact than when promotions ended, and knows of deployments without
/// a promotion.
fn replace_by_ran(status: &EnvironmentStatus, found: &mut Vec<Deployment>) {
    for ran in &status.ran {
        let Some(from) = ran.all_ready_at.as_ref().or(ran.first_ready_at.as_ref()) else {
            continue;
        };
        let is_same = |it: &Deployment| {
            it.kind != DeploymentKind::Failed && identity(&it.revision) == ran.revision
        };
        // A revision that ran, was replaced and came back was deployed twice.
        let others = || found.iter().filter(|it| !is_same(it)).map(|it| it.from);
        let before = others().filter(|at| *at <= from.0).max();
        let after = others().filter(|at| *at > from.0).min();
        let is_this = |it: &Deployment| {
            let is_between =
                before.is_none_or(|at| it.from >= at) && after.is_none_or(|at| it.from < at);
            is_same(it) && is_between
        };
        let known = found.iter().filter(|it| is_this(it));
        let known = known.max_by_key(|it| it.from);
        let kind = known.map_or(DeploymentKind::Release, |it| it.kind);
        found.retain(|it| !is_this(it));
        found.push(Deployment {
            revision: ran.shown_revision(),
            kind,
            from: from.0,
            until: ran.left_at.as_ref().map(|at| at.0),
            promotion: ran.promotion.clone(),
        });
    }
}

/// What runs now, unless something above tells of it.
fn running(status: &EnvironmentStatus, found: &[Deployment]) -> Option<Deployment> {
    let ready = status.targets.iter().filter(|target| target.ready);
    let newest = ready.max_by_key(|target| target.ready_since.as_ref().map(|at| at.0))?;
    let from = newest.ready_since.as_ref()?.0;
    let revision = newest.shown_revision()?;
    let last = found.iter().max_by_key(|it| it.from);
    let is_known = last.is_some_and(|it| identity(&it.revision) == identity(&revision));
    (!is_known).then_some(Deployment {
        revision,
        kind: DeploymentKind::Release,
        from,
        until: None,
        promotion: None,
    })
}

/// Failed releases that no failed promotion tells of.
fn failures(status: &EnvironmentStatus, found: &[Deployment]) -> Vec<Deployment> {
    let is_known = |revision: &str| {
        let mut failed = found.iter().filter(|it| it.kind == DeploymentKind::Failed);
        failed.any(|it| identity(&it.revision) == identity(revision))
    };
    let failures = status.failures.iter();
    let failures = failures.filter(|failure| !is_known(&failure.revision));
    failures
        .filter_map(|failure| {
            Some(Deployment {
                revision: failure.revision.clone(),
                kind: DeploymentKind::Failed,
                from: failure.at.as_ref()?.0,
                until: None,
                promotion: None,
            })
        })
        .collect()
}

/// Whether the failed revision is still the one that the environment should run.
fn is_failing(status: Option<&EnvironmentStatus>, deployment: &Deployment) -> bool {
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let mut failed = targets.iter().filter_map(failed_revision);
    failed.any(|revision| identity(revision) == identity(&deployment.revision))
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

/// From the first environment to the last, for each revision that was promoted into the last.
fn lead_time(
    lanes: &[Vec<Deployment>],
    promotions: &[Promotion],
    is_recent: impl Fn(Timestamp) -> bool,
) -> Option<Duration> {
    let (first, rest) = lanes.split_first()?;
    let releases = rest.last()?.iter().filter(|it| is_recent(it.from));
    let releases =
        releases.filter(|it| it.kind == DeploymentKind::Release && it.promotion.is_some());
    median(releases.filter_map(|release| {
        let revision = identity(&release.revision);
        let mut start = first.iter().filter(|it| it.kind == DeploymentKind::Release);
        let start = start.find(|it| identity(&it.revision) == revision);
        let start = start.map(|it| it.from);
        between(
            start.or_else(|| promoted_since(revision, promotions))?,
            release.from,
        )
    }))
}

/// When a revision was first promoted. The first environment forgets when it came once it was rolled back to
/// it.
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
    all.get(all.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests;
