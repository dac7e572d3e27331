//! Finds the promotion that failed and that a person wants to be tried again, and whether something can be retried.

use api::{
    Pipeline, Promotion,
    pipeline::{PipelineStatus, Request, RequestKind, TargetStatus},
    promotion::Phase,
};

use super::{environment::settings, input::PlanInput, site::WantedRevision};
use crate::{
    attempt::CHECK_FAILED,
    checks,
    promotion_phase::{is_unmerged, names_revision, phase_of},
    site::{site_of, site_of_key, target_key},
    time::Timestamp,
    version_order,
};

/// The revision of the last promotion into a site of the environment, if that failed; else why there is
/// nothing to retry.
pub(super) fn failed(
    input: &PlanInput<'_>,
    environment: &str,
    request: &Request,
) -> Result<WantedRevision, String> {
    let here = input.promotions.iter().rev().copied();
    let here = here.filter(|promotion| promotion.spec.environment == environment);
    let named = here.filter(|promotion| names_revision(promotion, &request.revision));
    let named: Vec<_> = named.collect();
    let is_answer = |promotion: &&&Promotion| {
        let asked = promotion.spec.request.as_ref();
        asked.is_some_and(|asked| asked.id == request.id)
    };
    let found = named.iter().find(is_answer);
    let failed = || named.iter().find(|it| can_be_retried(input, it));
    let Some(promotion) = found.or_else(failed) else {
        return Err(nothing_failed(input, environment, &named));
    };
    let spec = &promotion.spec;
    let kind = spec.request.as_ref().map(|request| request.kind);
    Ok(WantedRevision {
        revision: spec.revision.clone(),
        version: spec.version.clone(),
        verified_at: None,
        request: Some(Request {
            kind: kind.unwrap_or(RequestKind::Promote),
            ..request.clone()
        }),
        cause: None,
    })
}

/// What a request to retry starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryTarget {
    /// The failed checks of this revision.
    Checks(String),
    /// The failed promotion of this revision, as people read it.
    Promotion(String),
}

/// What a request to retry would start again in an environment; nothing where it would be refused.
pub fn retryable(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    promotions: &[Promotion],
    environment: &str,
) -> Option<RetryTarget> {
    let input = PlanInput::new(pipeline, model, promotions, Timestamp::MIN);
    if let Some(revision) = checks::checked_revision(&input, environment) {
        return Some(RetryTarget::Checks(revision.to_owned()));
    }
    let mut environments = input.spec.environments.iter();
    settings(&input, environments.find(|it| it.name == environment)?)?;
    let here = input.promotions.iter().rev();
    let mut here = here.filter(|it| it.spec.environment == environment);
    let failed = here.find(|it| can_be_retried(&input, it))?;
    Some(RetryTarget::Promotion(failed.spec.shown_revision()))
}

/// Whether a promotion failed and nothing came after it.
fn can_be_retried(input: &PlanInput<'_>, promotion: &Promotion) -> bool {
    phase_of(promotion) == Some(Phase::Failed)
        && is_last_of_site(input, promotion)
        && !is_checked_where_it_runs(input, promotion)
        && !has_moved_on(input, promotion)
}

/// Whether its site runs something newer than it and than what it was to replace, by whatever means: then it is not
/// tried again but requested.
fn has_moved_on(input: &PlanInput<'_>, promotion: &Promotion) -> bool {
    let (spec, home) = (&promotion.spec, input.namespace());
    let replaced = spec.replaces.as_deref().map(|it| input.version_of(it));
    let own: Vec<_> = [spec.shown_revision()]
        .into_iter()
        .chain(replaced)
        .collect();
    let is_newer = |running: String| own.iter().all(|it| version_order::is_older(it, &running));
    let is_there = |target: &&TargetStatus| {
        let site = site_of_key(&spec.environment, &target_key(target, home));
        spec.target.is_none() || site == site_of(spec, home)
    };
    let targets = input.targets(&spec.environment).iter().filter(is_there);
    targets
        .filter_map(TargetStatus::shown_revision)
        .any(is_newer)
}

fn is_last_of_site(input: &PlanInput<'_>, promotion: &Promotion) -> bool {
    let namespace = input.namespace();
    let site = site_of(&promotion.spec, namespace);
    let mut newest_first = input.promotions.iter().rev();
    let last = newest_first.find(|it| site_of(&it.spec, namespace) == site);
    last.is_some_and(|last| last.metadata.name == promotion.metadata.name)
}

/// Whether a check failed it and its revision still runs: then its checks are started again, not it.
fn is_checked_where_it_runs(input: &PlanInput<'_>, promotion: &Promotion) -> bool {
    let status = promotion.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let environment = input.status(&promotion.spec.environment);
    let is_running = |it| checks::runs_somewhere(it, &promotion.spec.revision);
    reason == Some(CHECK_FAILED) && environment.is_some_and(is_running)
}

/// Why there is nothing to retry. What only waits for its next attempt is retried without a request; what failed
/// and was replaced since, as by a rollback, is brought again by a request for it.
fn nothing_failed(input: &PlanInput<'_>, environment: &str, here: &[&Promotion]) -> String {
    let replaced = here.iter().find(|it| phase_of(it) == Some(Phase::Failed));
    if let Some(promotion) = replaced.filter(|it| !is_checked_where_it_runs(input, it)) {
        let shown = promotion.spec.shown_revision();
        let pipeline = &promotion.spec.pipeline;
        return format!(
            "{shown} failed in {environment} and was replaced since; to bring it again, request it \
             (`sluice promote {pipeline} {environment} {shown}`)"
        );
    }
    let text = format!("no promotion into {environment} has failed");
    let waiting = here.iter().find_map(|promotion| {
        let next = promotion.status.as_ref()?.next_attempt.as_ref()?;
        let shown = promotion.spec.shown_revision();
        is_unmerged(promotion).then(|| format!("; {shown} is retried by itself at {}", next.0))
    });
    text + &waiting.unwrap_or_default()
}
