//! Which revisions an environment rejects, as its promotions tell.
//!
//! A revision whose promotion a person rejected or cancelled, or whose pull request was closed, is not promoted again
//! without a request. Where that promotion was to go back, nothing is rejected: neither the revision to go back to,
//! which people can request again, nor what runs. What a merged rollback left stays rejected until it is merged again.

use api::{
    Promotion,
    pipeline::{EnvironmentStatus, TargetStatus},
    promotion::Phase,
    revision::shown,
};

use super::{cancel::cancellation, input::PlanInput};
use crate::{
    fold::push_front,
    promotion_phase::{
        is_rejected, is_rollback, is_rolled_back, is_unmerged, phase_of, was_merged,
    },
    version_order,
};

/// The rejected revisions of an environment, newest first, once the plan has cancelled these promotions.
pub(super) fn rejected(
    input: &PlanInput<'_>,
    environment: &str,
    cancelled: &[&Promotion],
) -> Vec<String> {
    let view = RejectedView {
        input,
        environment,
        cancelled,
    };
    let status = input.status(environment);
    let known = status.map(|status| status.rejected.clone());
    let mut rejected = known.unwrap_or_default();
    rejected.retain(|revision| !view.is_restored(revision));
    // Not only the last of each site: a crash may have come between its successor and the status.
    for promotion in input.last_attempts(environment) {
        let revision = &promotion.spec.revision;
        let runs = |target: &TargetStatus| target.revision.as_ref() == Some(revision);
        let runs_here = status.is_some_and(|status| status.targets.iter().all(runs));
        // Of a rollout that people ended, earlier batches may be in git.
        let is_dropped = is_rolled_back(promotion)
            || view.was_ended(promotion)
                && (rejects_revision(promotion, status) || view.was_left(revision));
        if is_dropped && !runs_here && !rejected.contains(revision) {
            push_front(&mut rejected, revision);
        }
        let left = promotion.spec.replaces.as_ref();
        let left = left.filter(|it| is_taken_back_late(promotion) && !rejected.contains(it));
        if let Some(left) = left.filter(|it| view.was_left(it)) {
            push_front(&mut rejected, left);
        }
    }
    rejected
}

/// Whether a person ended a promotion before its change was in git.
pub(crate) fn was_taken_back(promotion: &Promotion) -> bool {
    was_ended(promotion) && !was_merged(promotion)
}

/// Whether a person rejected a promotion, cancelled it or closed its pull request.
fn was_ended(promotion: &Promotion) -> bool {
    phase_of(promotion) == Some(Phase::Abandoned)
        || is_rejected(promotion)
        || cancellation(promotion).is_some()
}

/// Whether a person took a rollback back that was merged by then: until that was seen, what it left was restored.
fn is_taken_back_late(promotion: &Promotion) -> bool {
    let is_taken_back = promotion.spec.rejection.is_some() || cancellation(promotion).is_some();
    is_rollback(promotion) && is_taken_back && was_merged(promotion)
}

/// The promotions into an environment, as they are once the plan has cancelled some of them.
struct RejectedView<'a> {
    input: &'a PlanInput<'a>,
    environment: &'a str,
    cancelled: &'a [&'a Promotion],
}

/// What the rollbacks of an environment make of a revision that they were to replace.
#[derive(Default)]
struct RollbackFacts {
    is_taken_back: bool,
    is_in_force: bool,
}

impl RejectedView<'_> {
    fn was_ended(&self, promotion: &Promotion) -> bool {
        let mut cancelled = self.cancelled.iter();
        was_ended(promotion) || cancelled.any(|it| std::ptr::eq(*it, promotion))
    }

    /// Whether what last came into git of a site, or still can, is a rollback from the revision and not the revision.
    fn was_left(&self, revision: &str) -> bool {
        let counts = |it: &Promotion| was_merged(it) || is_unmerged(it) && !self.was_ended(it);
        let is_about = |it: &Promotion| {
            let left = it.spec.replaces.as_deref().filter(|_| is_rollback(it));
            it.spec.revision == revision || left == Some(revision)
        };
        let mut sites = self.input.promotions_by_site(self.environment);
        sites.any(|promotions| {
            let mut newest_first = promotions.iter().rev();
            let last = newest_first.find(|it| counts(it) && is_about(it));
            last.is_some_and(|it| it.spec.revision != revision)
        })
    }

    /// Whether a revision is good again because the rollback that rejected it was taken back, and nothing came after
    /// that. What failed its checks stays rejected: otherwise the rollback would be derived again.
    fn is_restored(&self, revision: &str) -> bool {
        let mut facts = RollbackFacts {
            is_in_force: self.was_left(revision),
            ..RollbackFacts::default()
        };
        for promotions in self.input.promotions_by_site(self.environment) {
            let leaves = |it: &&&Promotion| is_rollback(it) && leaves(self.input, it, revision);
            let mut derived = promotions.iter().filter(|it| it.spec.cause.is_some());
            facts.is_in_force |= derived.any(|it| leaves(&it));
            let Some(last) = promotions.last().filter(leaves) else {
                continue;
            };
            match self.was_ended(last) && !was_merged(last) {
                true => facts.is_taken_back = true,
                false => facts.is_in_force = true,
            }
        }
        facts.is_taken_back && !facts.is_in_force
    }
}

/// Whether a rollback was to replace a revision: of a whole environment, whatever its targets run.
fn leaves(input: &PlanInput<'_>, rollback: &Promotion, revision: &str) -> bool {
    let spec = &rollback.spec;
    let mut targets = input.targets(&spec.environment).iter();
    let runs = |target: &TargetStatus| target.revision.as_deref() == Some(revision);
    spec.revision != revision
        && (spec.replaces.as_deref() == Some(revision)
            || spec.target.is_none() && targets.any(runs))
}

/// Whether taking a promotion back rejects its revision: not where it was to go back to one that ran before, by a
/// rollback or instead of a newer one. That one is not proposed again, and people can still roll back to it.
pub(crate) fn rejects_revision(promotion: &Promotion, status: Option<&EnvironmentStatus>) -> bool {
    let goes_back = |status: &EnvironmentStatus| goes_back(promotion, status);
    promotion.spec.cause.is_none() && !status.is_some_and(goes_back)
}

/// Whether a promotion was to bring a revision that ran before, by a rollback or instead of a newer one. A rollback
/// to what is newer, or came later where neither is older, is no way back.
fn goes_back(promotion: &Promotion, status: &EnvironmentStatus) -> bool {
    let spec = &promotion.spec;
    let position = |revision: &str| status.ran_revisions().position(|it| it == revision);
    let own = position(&spec.revision);
    let Some(replaced) = spec.replaces.as_deref() else {
        return own.is_some() && is_rollback(promotion);
    };
    let entry = position(replaced).map(|it| &status.ran[it]);
    let version = entry.and_then(|it| it.version.as_deref());
    let shown = [spec.shown_revision(), shown(replaced, version)];
    let is_older = |one: usize, other: usize| version_order::is_older(&shown[one], &shown[other]);
    let came_earlier = is_rollback(promotion) && own > position(replaced);
    own.is_some() && (is_older(0, 1) || came_earlier && !is_older(1, 0))
}
