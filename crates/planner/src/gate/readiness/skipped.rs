//! What the gate would have answered about a revision that a person requested: that it failed or was rejected in
//! a source environment, or is not ready there. Of a source environment that runs another revision, nothing is
//! known.

use api::pipeline::{EnvironmentStatus, TargetStatus, When};

use super::is_vouched_for;
use crate::{
    gate::{GateVerdict, PromotionQuestion},
    hold::{Hold, HoldReason},
    release::{failed_revision, failure_message},
    requests::never_deployed,
};

pub(in crate::gate) fn skipped(question: &PromotionQuestion<'_>) -> GateVerdict {
    let (revision, shown) = (
        &question.promotion.spec.revision,
        question.promotion.spec.shown_revision(),
    );
    let failed = |(name, status): (&str, &EnvironmentStatus)| {
        let when = question.when(status);
        let sentence = failed(status, revision, when)
            .map(|because| format!("{shown} failed to deploy in {name}{because}"))
            .or_else(|| {
                let is_told = is_rejected(status, revision);
                is_told.then(|| format!("{shown} was rolled back or rejected in {name}"))
            })?;
        let resolved_by = format!("a newer revision or a request for {shown}");
        let hold = Hold::new(HoldReason::SourceFailed, sentence, resolved_by);
        Some(GateVerdict::Fail(hold))
    };
    let unready = |(name, status): (&str, &EnvironmentStatus)| {
        let (is_unready, needed) = match question.when(status) {
            When::AnyTargetReady => (is_unready_everywhere(status, revision), "one ready target"),
            When::AllTargetsReady => (
                is_unready_somewhere(status, revision),
                "readiness of all targets",
            ),
        };
        is_unready.then(|| {
            GateVerdict::Wait(Hold::new(
                HoldReason::SourceNotReady,
                format!("{name} is not ready at {shown}"),
                format!("{needed} of {name}"),
            ))
        })
    };
    let sources = question.observed_sources();
    let sources: Vec<_> = sources
        .map(|(it, status)| (it.name.as_str(), status))
        .collect();
    let mut all = sources.iter().copied();
    let failed = all.find_map(failed);
    let closed = failed.or_else(|| sources.into_iter().find_map(unready));
    closed.unwrap_or(GateVerdict::Pass)
}

/// How its release fails, where the environment does not vouch for it, or failed, where it never ran.
fn failed(status: &EnvironmentStatus, revision: &str, when: When) -> Option<String> {
    if is_vouched_for(status, revision, when) {
        return None;
    }
    let mut targets = status.targets.iter();
    if let Some(target) = targets.find(|it| failed_revision(it) == Some(revision)) {
        let message = failure_message(target).map(|text| format!(": {text}"));
        return Some(message.unwrap_or_default());
    }
    never_deployed(status, revision).then(String::new)
}

/// Whether it was rejected there, by people. That it failed a check is told by the gate `verified`.
fn is_rejected(status: &EnvironmentStatus, revision: &str) -> bool {
    let mut ran = status.ran.iter();
    let has_failed_check = ran.any(|it| it.revision == revision && it.failed_check.is_some());
    status.rejected.iter().any(|it| it == revision) && !has_failed_check
}

/// Whether a target that runs it is not ready.
fn is_unready_somewhere(status: &EnvironmentStatus, revision: &str) -> bool {
    running(status, revision).any(|it| !it.ready)
}

/// Whether targets run it, none of which is ready.
fn is_unready_everywhere(status: &EnvironmentStatus, revision: &str) -> bool {
    is_unready_somewhere(status, revision) && !running(status, revision).any(|it| it.ready)
}

fn running<'a>(
    status: &'a EnvironmentStatus,
    revision: &'a str,
) -> impl Iterator<Item = &'a TargetStatus> {
    let targets = status.targets.iter();
    targets.filter(move |it| it.revision.as_deref() == Some(revision))
}
