//! Starts failed checks again because a person asked for it.

use api::{
    check_run::{CheckCause, CheckVerdict},
    pipeline::{CheckStatus, Environment, EnvironmentStatus, Request, RequestKind, TargetStatus},
    revision::identity,
};

use super::runs;
use crate::{
    hold::list,
    plan::{PlanInput, Step, pending_request},
};

/// The pending request to retry, the steps that start the checks of an environment again which have failed
/// or could not be measured, and what the person who asked reads; nothing where no check has failed.
pub(crate) fn retry(
    input: &PlanInput<'_>,
    environment: &Environment,
) -> Option<(Request, Vec<Step>, String)> {
    let request = pending_request(input.pipeline, input.model, &environment.name)
        .filter(|it| it.kind == RequestKind::Retry)?;
    let status = input.status(&environment.name)?;
    let is_named = |it: &&CheckStatus| {
        request.revision.is_empty() || it.revision == identity(&request.revision)
    };
    let here = status.checks.iter().filter(is_named);
    let here: Vec<_> = here.filter(|it| !is_kept_only(status, it)).collect();
    let over: Vec<_> = here.iter().filter(|it| is_over(it)).collect();
    let steps: Vec<_> = over
        .iter()
        .filter_map(|it| {
            let check = input.spec.check(&it.check)?;
            let version = input.version_of(&it.revision);
            let revision = (it.revision.clone(), version);
            let (what, attempt) = ((check, it.cause), it.attempt + 1);
            Some(runs::start(input, environment, what, &revision, attempt))
        })
        .collect();
    // A pass that started them and ended before its status was written.
    let is_again = |it: &&&CheckStatus| {
        let is_open = matches!(it.verdict, CheckVerdict::Pending | CheckVerdict::Running);
        is_open && it.attempt > 0
    };
    let again = here.iter().filter(is_again);
    let names = over.iter().copied().chain(again);
    let mut names: Vec<_> = names.map(|it| it.check.as_str()).collect();
    names.dedup();
    let text = format!("checking again: {}", list(&names));
    (!names.is_empty()).then_some((request, steps, text))
}

/// The revision whose checks a request to retry would start again in an environment.
pub(crate) fn checked_revision<'a>(input: &PlanInput<'a>, environment: &str) -> Option<&'a str> {
    let status = input.status(environment)?;
    let mut over = status.checks.iter().filter(|it| is_over(it));
    let failed = over.find(|it| !is_kept_only(status, it))?;
    Some(&failed.revision)
}

fn is_over(check: &CheckStatus) -> bool {
    matches!(check.verdict, CheckVerdict::Failed | CheckVerdict::Error)
}

/// Whether a check is kept only to say why its revision failed: the environment runs another one. Measured again, it
/// would tell of that one.
fn is_kept_only(status: &EnvironmentStatus, check: &CheckStatus) -> bool {
    check.cause == CheckCause::Verify && !runs_somewhere(status, &check.revision)
}

/// Whether a target runs the revision, or did when it was last read, or a report says so of the environment.
pub(crate) fn runs_somewhere(status: &EnvironmentStatus, revision: &str) -> bool {
    let runs = |target: &TargetStatus| target.revision.as_deref() == Some(revision);
    let reported = status.reported.as_ref();
    status.targets.iter().any(runs) || reported.is_some_and(|it| it.revision == revision)
}
