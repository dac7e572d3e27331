//! Gate `verified`: the revision passed every check in `verify` of every source environment.
//!
//! Of an existing promotion it is asked only whether a check has failed since. A source that has moved on to
//! another revision, so that its checks have ended, is no failure.

use api::{
    pipeline::{EnvironmentStatus, When},
    revision::shown,
};

use super::{Ask, Gate, GateStage, GateVerdict, PromotionQuestion, readiness};
use crate::{
    checks::CheckStates,
    hold::{Hold, HoldReason},
    plan::{CandidateSource, CommonRevision, SourceEnvironments, SourceVotes, Standing},
    promotion_phase::is_unmerged,
    sources::sources,
};

pub(super) const GATE: Gate = Gate {
    name: "verified",
    skipped: Some(skipped),
    rollback_skips: true,
    stage: GateStage::Creation(&[Ask::Source(ask)]),
    again: Some(again),
};

pub(super) fn ask(source: &CandidateSource<'_>) -> GateVerdict {
    let votes = match source {
        CandidateSource::Environment(votes) => votes,
        CandidateSource::Environments(sources) => return ask_all(source, sources),
        CandidateSource::Nothing | CandidateSource::Proposal { .. } => return GateVerdict::Pass,
    };
    if votes.source.verify.is_none() {
        return GateVerdict::Pass;
    }
    if readiness::ask(source).is_closed() {
        return GateVerdict::NotAsked;
    }
    let newest_first = votes.newest_first();
    let revisions: Vec<_> = match votes.when {
        When::AllTargetsReady => {
            let revision = votes.shared_revision().ok();
            revision
                .map(|it| (it, votes.shown(it)))
                .into_iter()
                .collect()
        }
        When::AnyTargetReady => newest_first
            .iter()
            .map(|vote| (vote.revision, vote.shown()))
            .collect(),
    };
    let has_passed = |(revision, _): &(&str, String)| votes.checks(revision).have_passed();
    match revisions
        .first()
        .filter(|_| !revisions.iter().any(has_passed))
    {
        Some((revision, shown)) => closed(votes, revision, shown),
        None => GateVerdict::Pass,
    }
}

/// Whether the newest revision that several source environments have passed the checks of each.
fn ask_all(source: &CandidateSource<'_>, sources: &SourceEnvironments<'_>) -> GateVerdict {
    if readiness::ask(source).is_closed() {
        return GateVerdict::NotAsked;
    }
    match sources.newest().filter(|_| sources.candidate().is_none()) {
        Some(common) => of_common(sources, common),
        None => GateVerdict::Pass,
    }
}

/// The answer of the first source environment whose checks a common revision has not passed.
pub(crate) fn of_common(
    sources: &SourceEnvironments<'_>,
    common: &CommonRevision<'_>,
) -> GateVerdict {
    let revision = common.revision;
    let mut standings = sources.standings(common);
    let open = standings.find(|(votes, standing)| {
        matches!(standing, Standing::Ready(_)) && !votes.checks(revision).have_passed()
    });
    match open {
        Some((votes, _)) => closed(votes, revision, &common.shown()),
        None => GateVerdict::Pass,
    }
}

/// The answer about a revision that has not passed its checks.
pub(crate) fn closed(votes: &SourceVotes<'_>, revision: &str, shown: &str) -> GateVerdict {
    let name = &votes.source.name;
    let states = votes.checks(revision);
    match states.failed() {
        Some(failed) => failed_verdict(name, shown, &failed.failure()),
        None => GateVerdict::Wait(not_passed(name, shown, &states)),
    }
}

fn not_passed(source: &str, shown: &str, states: &CheckStates<'_>) -> Hold {
    Hold::new(
        HoldReason::Verifying,
        format!(
            "{shown} has not passed the checks of {source}: {}",
            states.open()
        ),
        "those checks, once they pass",
    )
}

fn failed_verdict(source: &str, shown: &str, failure: &str) -> GateVerdict {
    GateVerdict::Fail(Hold::new(
        HoldReason::VerificationFailed,
        format!("{shown} failed in {source}: the check {failure}"),
        format!("a newer revision, a retry of the checks of {source}, or a request for {shown}"),
    ))
}

/// Whether a check of a source environment has failed for the revision since the promotion was created.
fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    if !is_unmerged(question.promotion) {
        return GateVerdict::Pass;
    }
    let sources = sources(
        &question.pipeline.spec,
        &question.promotion.spec.environment,
    );
    let verified = sources.iter().filter(|it| it.verify.is_some());
    let mut verdicts = verified.map(|source| again_in(question, &source.name));
    let closed = verdicts.find(GateVerdict::is_closed);
    closed.unwrap_or(GateVerdict::Pass)
}

/// What the gate would have answered about a revision that a person requested.
pub(super) fn skipped(question: &PromotionQuestion<'_>) -> GateVerdict {
    let verified = question.observed_sources();
    let verified = verified.filter(|(source, _)| source.verify.is_some());
    let verdicts = verified.map(|(source, status)| skipped_in(question, &source.name, status));
    let mut closed: Vec<_> = verdicts.filter(GateVerdict::is_closed).collect();
    closed.sort_by_key(|it| !matches!(it, GateVerdict::Fail(_)));
    closed.into_iter().next().unwrap_or(GateVerdict::Pass)
}

fn skipped_in(
    question: &PromotionQuestion<'_>,
    source: &str,
    status: &EnvironmentStatus,
) -> GateVerdict {
    let spec = &question.promotion.spec;
    let shown = spec.shown_revision();
    let pipeline = &question.pipeline.spec;
    let states = CheckStates::verify(pipeline, source, Some(status), &spec.revision);
    let mut ran = status.ran.iter();
    let entry = ran.find(|it| it.revision == spec.revision);
    let has_passed = entry.is_some_and(|it| it.checked_at.is_some()) || states.have_passed();
    let remembered = entry.and_then(|it| it.failed_check.as_deref());
    let remembered = remembered.filter(|_| !has_passed);
    match states.failed().map(|it| it.check).or(remembered) {
        Some(check) => GateVerdict::Fail(Hold::new(
            HoldReason::VerificationFailed,
            format!("{shown} failed the check {check} in {source}"),
            format!("a newer revision, or a retry of the checks of {source}"),
        )),
        None if has_passed => GateVerdict::Pass,
        None => GateVerdict::Wait(not_passed(source, &shown, &states)),
    }
}

fn again_in(question: &PromotionQuestion<'_>, source: &str) -> GateVerdict {
    let spec = &question.promotion.spec;
    let pipeline = &question.pipeline.spec;
    let status = question.model.environments.get(source);
    let states = CheckStates::verify(pipeline, source, status, &spec.revision);
    let shown = shown(&spec.revision, Some(&spec.version));
    if let Some(failed) = states.failed() {
        return failed_verdict(source, &shown, &failed.failure());
    }
    let mut ran = status.into_iter().flat_map(|it| &it.ran);
    let entry = ran.find(|it| it.revision == spec.revision);
    let remembered = entry.and_then(|it| it.failed_check.as_deref());
    match remembered.filter(|_| !states.have_passed()) {
        Some(check) => failed_verdict(source, &shown, &format!("{check} failed")),
        None => GateVerdict::Pass,
    }
}
