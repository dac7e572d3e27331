//! Rebuilds what a lost status said, as far as Promotions tell.
//!
//! A hub that is restored from manifests has Pipelines and Promotions without their status. Nothing may be
//! promoted because of that: what ran is known from what promotions replaced, and a revision whose promotion
//! ended is not proposed again without a request. Whether it was rejected, rolled back or replaced, nobody knows
//! any more.

use api::{
    Pipeline, Promotion,
    pipeline::{EnvironmentStatus, PipelineStatus, RanRevision, TargetStatus},
};

use super::{input::PlanInput, rejected::was_taken_back};
use crate::{
    fold::{REMEMBERED, push_front},
    promotion_phase::is_rollback,
    time::{Timestamp, stored},
    version_order,
};

/// The status with what promotions tell about the time before it was lost; unchanged where it was not.
pub fn rebuild(
    pipeline: &Pipeline,
    model: PipelineStatus,
    promotions: &[Promotion],
    now: Timestamp,
) -> PipelineStatus {
    let known = pipeline.status.as_ref();
    if known.is_some_and(|status| !status.environments.is_empty()) || promotions.is_empty() {
        return model;
    }
    let mut rebuilt = model.clone();
    let input = PlanInput::new(pipeline, &model, promotions, now);
    if input.promotions.is_empty() {
        return model;
    }
    rebuilt.rebuilt_at = Some(stored(now));
    for (name, environment) in &mut rebuilt.environments {
        remember_replaced(&input, name, &mut environment.ran);
        let ended = ended_revisions(&input, name, environment);
        for revision in ended {
            push_front(&mut environment.rejected, &revision);
        }
    }
    rebuilt
}

/// What a promotion was to replace ran until then.
fn remember_replaced(input: &PlanInput<'_>, environment: &str, ran: &mut Vec<RanRevision>) {
    let newest_first = input.promotions.iter().rev();
    let here = newest_first.filter(|promotion| promotion.spec.environment == environment);
    for revision in here.filter_map(|promotion| promotion.spec.replaces.as_deref()) {
        let is_known = ran.iter().any(|known| known.revision == revision);
        if !is_known && ran.len() < REMEMBERED {
            ran.push(RanRevision {
                version: Some(input.version_of(revision)),
                ..revision.into()
            });
        }
    }
}

/// The revisions whose promotion ended and that could be proposed again, oldest first. The last promotion of a
/// site may be under way, and its end is found out again, unless it is a rollout, whose batches are not known
/// any more.
fn ended_revisions(
    input: &PlanInput<'_>,
    environment: &str,
    status: &EnvironmentStatus,
) -> Vec<String> {
    let mut ended = Vec::new();
    for promotions in input.promotions_by_site(environment) {
        let Some(last) = promotions.last() else {
            continue;
        };
        let may_go_on = |revision: &str| {
            let has_batches = last.spec.rollout.is_some();
            !has_batches && revision == last.spec.revision
        };
        let is_carried_out = |it: &&Promotion| is_rollback(it) && !was_taken_back(it);
        let rollbacks = promotions.iter().copied().filter(is_carried_out);
        let replaced = rollbacks.filter_map(|it| it.spec.replaces.clone());
        let revisions = promotions.iter().map(|it| it.spec.revision.clone());
        let others = revisions.chain(replaced);
        ended.extend(others.filter(|it| {
            !may_go_on(it) && could_follow(input, status, (it, &last.spec.shown_revision()))
        }));
    }
    ended
}

/// Whether a revision would be newer than what runs, or than the last one that was promoted where that is not
/// known.
fn could_follow(
    input: &PlanInput<'_>,
    status: &EnvironmentStatus,
    (revision, last): (&str, &str),
) -> bool {
    let runs = |target: &TargetStatus| target.revision.as_deref() == Some(revision);
    if !status.targets.is_empty() && status.targets.iter().all(runs) {
        return false;
    }
    let shown = api::revision::shown(revision, Some(&input.version_of(revision)));
    let running = status.targets.iter();
    let running: Vec<String> = running.filter_map(TargetStatus::shown_revision).collect();
    let is_newer = |other: &String| !version_order::is_older(&shown, other);
    match running.is_empty() {
        true => !version_order::is_older(&shown, last),
        false => running.iter().any(is_newer),
    }
}
