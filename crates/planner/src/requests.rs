//! What people can approve and reject, which revision a rollback goes back to, and the annotation that holds
//! requests.

use std::collections::BTreeMap;

use api::{
    Pipeline, Promotion,
    pipeline::{EnvironmentStatus, FailedRelease, PipelineStatus, Request},
    revision::identity,
};
use serde_json::Value;

use crate::{
    gate::approvals::is_awaited,
    plan::{rejects_revision, written_requests},
    promotion_phase::{is_unmerged, merged_at, names_revision},
    release::failed_revision,
    time::Timestamp,
    version_order,
};

/// A pending request of another person that would be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictingRequest {
    /// The environment it is for.
    pub environment: String,
    /// The revision it asks for.
    pub revision: String,
    /// Who asked.
    pub by: String,
}

/// The value of the annotation with one more request beside those that are pending.
///
/// Everything in the annotation counts as written by its last writer, so that requests of other people
/// cannot be kept; the first of them is the error. With `replace` they are dropped.
pub fn request_annotation(
    pipeline: &Pipeline,
    environment: &str,
    request: &Request,
    replace: bool,
) -> Result<String, ConflictingRequest> {
    let environments = pipeline.status.as_ref().map(|status| &status.environments);
    let is_handled = |name: &str, request: &Request| {
        let status = environments.and_then(|environments| environments.get(name));
        let last = status.and_then(|status| status.last_request.as_ref());
        last.is_some_and(|last| last.covers(&request.id))
    };
    let mut all = BTreeMap::new();
    for (name, waiting) in written_requests(pipeline) {
        if name == environment || is_handled(&name, &waiting) {
            continue;
        }
        match &waiting.by {
            Some(by) if Some(by) != request.by.as_ref() => {
                if !replace {
                    return Err(ConflictingRequest {
                        environment: name,
                        revision: waiting.revision,
                        by: by.clone(),
                    });
                }
            }
            _ => drop(all.insert(name, waiting)),
        }
    }
    // The override is in an annotation of its own.
    let written = Request {
        override_gates: None,
        ..request.clone()
    };
    all.insert(environment.to_owned(), written);
    Ok(serde_json::to_value(all).unwrap_or(Value::Null).to_string())
}

/// The promotions into an environment that a person can approve now.
pub fn approvable<'a>(
    promotions: &'a [Promotion],
    pipeline: &str,
    environment: &str,
) -> Vec<&'a Promotion> {
    let there = leading_into(promotions, pipeline, environment);
    there.filter(|it| is_awaited(it)).collect()
}

/// The promotions into an environment that a person can reject: of a revision, or of any, and not merged
/// yet.
pub fn rejectable<'a>(
    promotions: &'a [Promotion],
    pipeline: &str,
    environment: &str,
    revision: Option<&str>,
) -> Vec<&'a Promotion> {
    let there = leading_into(promotions, pipeline, environment);
    let revision = revision.unwrap_or_default();
    let open = there
        .filter(|it| is_unmerged(it) && merged_at(it).is_none() && it.spec.rejection.is_none());
    open.filter(|it| names_revision(it, revision)).collect()
}

/// What rejecting a promotion means for the revisions of its environment, as a clause.
pub fn rejection_effect(pipeline: &Pipeline, promotion: &Promotion) -> String {
    let (environment, shown) = (&promotion.spec.environment, promotion.spec.shown_revision());
    let status = pipeline.status.as_ref();
    let status = status.and_then(|status| status.environments.get(environment));
    match rejects_revision(promotion, status) {
        true => {
            format!("{shown} is not promoted into {environment} again until somebody requests it")
        }
        false => format!("{environment} stays as it is, and {shown} can be requested again"),
    }
}

fn leading_into<'a>(
    promotions: &'a [Promotion],
    pipeline: &str,
    environment: &str,
) -> impl Iterator<Item = &'a Promotion> {
    promotions.iter().filter(move |promotion| {
        promotion.spec.pipeline == pipeline && promotion.spec.environment == environment
    })
}

/// A revision that ran in an environment, to which a rollback can go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollbackTarget<'a> {
    /// The revision.
    pub revision: &'a str,
    /// Why it is not a good choice, if it is not.
    pub caution: Option<&'static str>,
}

/// The revisions to which a rollback can go back, the best first: those that ran before what runs now, or
/// where a release failed also what still runs, newest first; then those that were rejected there, or failed a
/// check in any environment.
pub fn rollback_targets<'a>(
    model: &'a PipelineStatus,
    environment: &str,
) -> Vec<RollbackTarget<'a>> {
    let Some(status) = model.environments.get(environment) else {
        return Vec::new();
    };
    let has_failed = status
        .targets
        .iter()
        .any(|it| failed_revision(it).is_some());
    let runs = |revision: &str| {
        let mut targets = status.targets.iter();
        !has_failed && targets.any(|target| target.revision.as_deref() == Some(revision))
    };
    let ran = status.ran_revisions().filter(|it| !runs(it));
    let mut targets: Vec<_> = ran
        .map(|revision| RollbackTarget {
            revision,
            caution: caution(model, environment, revision),
        })
        .collect();
    targets.sort_by_key(|it| it.caution.is_some());
    targets
}

/// The caution about a revision that an environment rejects.
pub(crate) const REJECTED_HERE: &str = "rejected here";

/// Why a revision is not a good choice for an environment, if it is not.
pub fn caution(model: &PipelineStatus, environment: &str, revision: &str) -> Option<&'static str> {
    let status = model.environments.get(environment);
    let mut ran = model.environments.values().flat_map(|it| &it.ran);
    let mut rejected = status.into_iter().flat_map(|it| &it.rejected);
    match () {
        () if ran.any(|it| it.revision == revision && it.failed_check.is_some()) => {
            Some("failed a check")
        }
        () if rejected.any(|it| it == revision) => Some(REJECTED_HERE),
        () if status.is_some_and(|status| never_deployed(status, revision)) => {
            Some("failed to deploy here")
        }
        () => None,
    }
}

/// Whether a release of the revision failed in an environment, which has never run it.
pub(crate) fn never_deployed(status: &EnvironmentStatus, revision: &str) -> bool {
    never_deployed_before(status, revision, Timestamp::MAX)
}

/// Whether that is so because of a release that failed before this time.
pub(crate) fn never_deployed_before(
    status: &EnvironmentStatus,
    revision: &str,
    before: Timestamp,
) -> bool {
    let mut failures = status.failures.iter();
    let is_earlier = |it: &FailedRelease| it.at.as_ref().is_none_or(|at| at.0 < before);
    failures.any(|it| identity(&it.revision) == revision && is_earlier(it))
        && !status.ran_revisions().any(|it| it == revision)
}

/// Sorts revisions that can be requested for an environment, the best first: those without a caution, and of those
/// the newest.
pub fn sort_choices(revisions: &mut [String], model: &PipelineStatus, environment: &str) {
    revisions.sort_by(|one, other| {
        let [a, b] = [one, other].map(|it| caution(model, environment, it).is_some());
        a.cmp(&b).then_with(|| version_order::total(other, one))
    });
}

/// The revision that a rollback goes back to by default.
pub fn previous_revision<'a>(model: &'a PipelineStatus, environment: &str) -> Option<&'a str> {
    let targets = rollback_targets(model, environment);
    let best = targets.first().filter(|it| it.caution.is_none())?;
    Some(best.revision)
}
