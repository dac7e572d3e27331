//! When each revision ran in an environment: its stays, the releases that failed there, and how each came.
//!
//! Everything comes from stored objects. What they do not say any more is left out.

mod figures;

use api::{
    Promotion,
    pipeline::{EnvironmentStatus, FailedRelease, RanRevision},
    promotion::Phase,
    revision::identity,
};

use crate::{
    promotion_phase::is_rollback, release::failed_revision, time::Timestamp, version_order,
};

pub use figures::{DAYS, DeliveryFigures, delivery_figures};

/// How a revision came into an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeploymentKind {
    /// It was deployed.
    Release,
    /// A person, or Sluice after a failed check, went back to it, or it came back instead of a newer one.
    Rollback,
    /// It could not be deployed.
    Failed,
}

/// A revision in an environment, from when it came until another one did.
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

impl Deployment {
    fn is_of(&self, revision: &str) -> bool {
        identity(&self.revision) == identity(revision)
    }
}

/// The deployments of an environment, oldest first.
pub fn deployments(
    environment: &str,
    status: Option<&EnvironmentStatus>,
    promotions: &[Promotion],
) -> Vec<Deployment> {
    let here = promotions
        .iter()
        .filter(|it| it.spec.environment == environment);
    let mut promoted: Vec<_> = here.clone().filter_map(of_promotion).collect();
    let ran = status.map(|it| it.ran.as_slice()).unwrap_or_default();
    let failures = status.map(|it| it.failures.as_slice()).unwrap_or_default();
    let failed = failed_releases(failures, &promoted);
    promoted.extend(failed);
    let mut stays: Vec<_> = ran.iter().flat_map(stays).collect();
    for failure in failures {
        let rest = interrupted(&mut stays, failure);
        stays.extend(rest);
    }
    here.for_each(|promotion| attribute(&mut stays, promotion));
    let mut found = with_stays(stays, promoted);
    if let Some(status) = status {
        found.extend(running(status, &found));
    }
    found.sort_by_key(|it| it.from);
    if let Some(replaced) = replaced_by(found.first(), promotions) {
        found.insert(0, replaced);
    }
    mark_returns(&mut found);
    end_each(&mut found, status);
    found
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

/// Says of the stay that a promotion brought how it came. The environment also names the promotion that went back to
/// what it still ran: that brought none.
fn attribute(stays: &mut [Deployment], promotion: &Promotion) {
    let created = promotion.metadata.creation_timestamp.as_ref();
    let named = |it: &&mut Deployment| it.promotion == promotion.metadata.name;
    for stay in stays.iter_mut().filter(named) {
        match created.is_some_and(|at| at.0 > stay.from) {
            true => stay.promotion = None,
            false if is_rollback(promotion) => stay.kind = DeploymentKind::Rollback,
            false => {}
        }
    }
}

/// Each time that a revision ran, as the environment remembers it.
fn stays(ran: &RanRevision) -> Vec<Deployment> {
    let earlier = ran.earlier_stays.iter();
    let earlier = earlier.map(|it| (&it.ready_at, &it.left_at, &it.promotion));
    let ready_at = match ran.all_ready_at {
        Some(_) => &ran.all_ready_at,
        None => &ran.first_ready_at,
    };
    let all = earlier.chain([(ready_at, &ran.left_at, &ran.promotion)]);
    all.filter_map(|(ready_at, left_at, promotion)| {
        Some(Deployment {
            revision: ran.shown_revision(),
            kind: DeploymentKind::Release,
            from: ready_at.as_ref()?.0,
            until: left_at.as_ref().map(|at| at.0),
            promotion: promotion.clone(),
        })
    })
    .collect()
}

/// The stays, and what was deployed or failed besides. The times of a stay are more exact than when its promotion
/// ended; how it came, the promotion says.
fn with_stays(mut stays: Vec<Deployment>, promoted: Vec<Deployment>) -> Vec<Deployment> {
    let starts = |it: &Deployment| (identity(&it.revision).to_owned(), it.from);
    let starts: Vec<_> = stays.iter().chain(&promoted).map(starts).collect();
    // A revision that ran, was replaced and came back was deployed twice.
    let is_same_time = |stay: &Deployment, it: &Deployment| {
        let (first, last) = (stay.from.min(it.from), stay.from.max(it.from));
        let mut starts = starts.iter();
        !starts.any(|(revision, at)| !stay.is_of(revision) && *at > first && *at < last)
    };
    let mut found = Vec::new();
    for deployment in promoted {
        let mut same = stays.iter_mut().filter(|it| it.is_of(&deployment.revision));
        let stay = same.find(|it| is_same_time(it, &deployment));
        match stay.filter(|_| deployment.kind != DeploymentKind::Failed) {
            // One promotion of several targets that went back is enough.
            Some(stay) if deployment.kind == DeploymentKind::Rollback => {
                stay.kind = deployment.kind
            }
            Some(_) => {}
            None => found.push(deployment),
        }
    }
    found.append(&mut stays);
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

/// Failed releases that no failed promotion tells of.
fn failed_releases(failures: &[FailedRelease], found: &[Deployment]) -> Vec<Deployment> {
    let is_known = |revision: &str| {
        let mut failed = found.iter().filter(|it| it.kind == DeploymentKind::Failed);
        failed.any(|it| it.is_of(revision))
    };
    let failures = failures.iter();
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

/// Cuts the stay of a revision that went on after a failed release, and returns its second part: the failed
/// release took its place in git, and was taken back.
fn interrupted(stays: &mut [Deployment], failure: &FailedRelease) -> Option<Deployment> {
    let (from, until) = (failure.at.as_ref()?.0, failure.ended_at.as_ref()?.0);
    let starts_between = |it: &Deployment| it.from >= from && it.from <= until;
    if stays.iter().any(starts_between) {
        return None;
    }
    let goes_on = |it: &&mut Deployment| it.from < from && it.until.is_none_or(|at| at > until);
    let stay = stays.iter_mut().find(goes_on)?;
    let rest = Deployment {
        kind: DeploymentKind::Rollback,
        from: until,
        promotion: None,
        ..stay.clone()
    };
    stay.until = Some(from);
    Some(rest)
}

/// What runs now, unless it is what came last before that.
fn running(status: &EnvironmentStatus, found: &[Deployment]) -> Option<Deployment> {
    let ready = status.targets.iter().filter(|target| target.ready);
    let newest = ready.max_by_key(|target| target.ready_since.as_ref().map(|at| at.0))?;
    let from = newest.ready_since.as_ref()?.0;
    let revision = newest.shown_revision()?;
    let before = found.iter().filter(|it| it.from <= from);
    let last = before.max_by_key(|it| it.from);
    let is_later = |it: &Deployment| it.from > from && it.is_of(&revision);
    let is_known = last.is_some_and(|it| it.is_of(&revision)) || found.iter().any(is_later);
    (!is_known).then_some(Deployment {
        revision,
        kind: DeploymentKind::Release,
        from,
        until: None,
        promotion: None,
    })
}

/// A revision that came without a promotion, ran before and is older than the last one is a rollback: somebody
/// reverted a commit.
fn mark_returns(found: &mut [Deployment]) {
    for at in 1..found.len() {
        let (before, rest) = found.split_at_mut(at);
        let (last, deployment) = (&before[at - 1], &mut rest[0]);
        let has_run =
            |it: &Deployment| it.kind != DeploymentKind::Failed && it.is_of(&deployment.revision);
        let is_older = version_order::is_older(&deployment.revision, &last.revision);
        let is_alone = deployment.promotion.is_none() && deployment.kind == DeploymentKind::Release;
        if is_alone && is_older && before.iter().any(has_run) {
            deployment.kind = DeploymentKind::Rollback;
        }
    }
}

/// Says until when each was there: at most until the next one came.
fn end_each(found: &mut [Deployment], status: Option<&EnvironmentStatus>) {
    let starts: Vec<_> = found.iter().map(|it| it.from).collect();
    let next = starts.into_iter().skip(1).map(Some).chain([None]);
    for (deployment, next) in found.iter_mut().zip(next) {
        if let Some(until) = deployment.until {
            deployment.until = next.into_iter().chain([until]).min();
            continue;
        }
        let is_here = deployment.kind != DeploymentKind::Failed || is_failing(status, deployment);
        deployment.until = match is_here {
            true => next,
            false => Some(next.unwrap_or(deployment.from)),
        };
    }
}

/// Whether the failed revision is still the one that the environment should run.
fn is_failing(status: Option<&EnvironmentStatus>, deployment: &Deployment) -> bool {
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let mut failed = targets.iter().filter_map(failed_revision);
    failed.any(|revision| deployment.is_of(revision))
}

#[cfg(test)]
mod tests;
