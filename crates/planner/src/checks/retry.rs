//! Starts failed checks again because a person asked for it.

use api::{
    check_run::{CheckCause, CheckVerdict},
    pipeline::{CheckStatus, Environment, Request, RequestKind},
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
    // What failed and was rolled back is kept to say why; measured again, it would tell of another revision.
    let is_kept_only = |it: &CheckStatus| {
        let is_gone = !status
            .targets
            .iter()
            .any(|target| target.revision.as_ref() == Some(&it.revision));
        it.cause == CheckCause::Verify && is_gone && status.rejected.contains(&it.revision)
    };
    let here = status.checks.iter().filter(is_named);
    let here: Vec<_> = here.filter(|it| !is_kept_only(it)).collect();
    let is_over =
        |it: &&&CheckStatus| matches!(it.verdict, CheckVerdict::Failed | CheckVerdict::Error);
    let over: Vec<_> = here.iter().filter(is_over).collect();
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
