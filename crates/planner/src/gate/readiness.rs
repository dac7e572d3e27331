//! Gate `readiness`: every source environment is ready at the revision, by `when`, and its revision says
//! something about this environment.
//!
//! Of an existing promotion it is asked whether the revision has failed in the source environment since. A
//! source that has moved on to another revision is no failure: else a busy one would starve this one.

mod skipped;

use std::collections::BTreeSet;

use api::{
    flux::is_tag,
    pipeline::{Environment, EnvironmentStatus, TargetStatus, When},
};

use super::{Ask, CandidateQuestion, Gate, GateStage, GateVerdict, PromotionQuestion};
use crate::{
    hold::{Hold, HoldReason, and_more, list},
    hook::{how_to_sign, unsigned_report},
    plan::{
        CandidateSource, CommonRevision, SourceEnvironments, SourceVotes, Standing,
        unmatched_selector,
    },
    promotion_phase::is_unmerged,
    release::{failed_release, failed_revision, failure_message},
    site::target_name,
    sources::sources,
    time::Timestamp,
};

pub(super) use skipped::skipped;

pub(super) const GATE: Gate = Gate {
    name: "readiness",
    skipped: Some(skipped),
    rollback_skips: true,
    stage: GateStage::Creation(&[
        Ask::Source(ask),
        Ask::Candidate(shared_source),
        Ask::Candidate(one_digest),
    ]),
    again: Some(again),
};

pub(super) fn ask(source: &CandidateSource<'_>) -> GateVerdict {
    let votes = match source {
        CandidateSource::Environment(votes) => votes,
        CandidateSource::Environments(sources) => return ask_all(sources).into(),
        CandidateSource::Nothing | CandidateSource::Proposal { .. } => return GateVerdict::Pass,
    };
    if let Some(hold) = not_observed(votes) {
        return GateVerdict::Wait(hold);
    }
    let hold = match votes.when {
        When::AllTargetsReady => all_targets(votes),
        When::AnyTargetReady => any_target(votes),
    };
    let hold = hold.map(|hold| not_signed(votes, &hold).unwrap_or(hold));
    hold.into()
}

/// Why several source environments vouch for no revision, as far as it is not about checks and soaking.
fn ask_all(sources: &SourceEnvironments<'_>) -> Option<Hold> {
    let unobserved = sources.all.iter().find_map(not_observed);
    if unobserved.is_some() || sources.candidate().is_some() {
        return unobserved;
    }
    match sources.newest() {
        Some(common) => of_common(sources, common),
        None => Some(no_common_revision(sources)),
    }
}

/// Why a source environment that runs a common revision is not ready at it.
pub(crate) fn of_common(
    sources: &SourceEnvironments<'_>,
    common: &CommonRevision<'_>,
) -> Option<Hold> {
    let mut standings = sources.standings(common);
    let unready = standings.find(|(_, standing)| *standing == Standing::NotReady);
    let (votes, _) = unready?;
    let hold = match votes.when {
        When::AllTargetsReady => all_targets(votes),
        When::AnyTargetReady => None,
    };
    let hold = hold.unwrap_or_else(|| no_target_at(votes, &common.shown()));
    Some(not_signed(votes, &hold).unwrap_or(hold))
}

fn no_target_at(votes: &SourceVotes<'_>, shown: &str) -> Hold {
    let name = &votes.source.name;
    Hold::new(
        HoldReason::SourceNotReady,
        format!("no target of {name} is ready at {shown}"),
        format!("one target of {name} that is ready at {shown}"),
    )
}

/// Names the newest revision of each source environment.
fn no_common_revision(sources: &SourceEnvironments<'_>) -> Hold {
    let names: Vec<_> = sources
        .all
        .iter()
        .map(|it| it.source.name.as_str())
        .collect();
    let newest = |votes: &SourceVotes<'_>| {
        let name = &votes.source.name;
        let Some((revision, shown)) = votes.newest_known() else {
            return format!("{name} has none");
        };
        match votes.rejects(revision) {
            true => format!("{name} has {shown}, which was rejected there"),
            false => format!("{name} has {shown}"),
        }
    };
    let newest: Vec<_> = sources.all.iter().map(newest).collect();
    let (names, newest) = (list(&names), list(&newest));
    Hold::new(
        HoldReason::NoCommonRevision,
        format!("no revision is verified in each of {names}: {newest}"),
        format!("one revision that is verified in each of {names}"),
    )
}

/// Why nothing is known about the source environment.
fn not_observed(votes: &SourceVotes<'_>) -> Option<Hold> {
    let name = &votes.source.name;
    if votes.source.targets.is_empty() {
        return Some(Hold::new(
            HoldReason::SourceNotDeployed,
            format!("{name} has no targets"),
            format!("targets of {name}, or `after` without {name}"),
        ));
    }
    if let Some(namespace) = unmatched_selector(votes.model, votes.source) {
        return Some(Hold::new(
            HoldReason::SourceNotReady,
            format!("no cluster matches the selector of {name} for namespace {namespace}"),
            format!("a cluster that matches and is ready in {name}"),
        ));
    }
    votes.targets.is_empty().then(|| {
        Hold::new(
            HoldReason::SourceNotDeployed,
            format!("{name} has not been observed yet"),
            "its first observation",
        )
    })
}

fn all_targets(votes: &SourceVotes<'_>) -> Option<Hold> {
    let revision = match votes.shared_revision() {
        Ok(revision) => revision,
        Err(running) if running.len() > 1 => return Some(targets_differ(votes, &running)),
        Err(_) => return Some(not_deployed(votes)),
    };
    let unready: Vec<_> = votes.targets.iter().filter(|it| !it.ready).collect();
    let shown = votes.shown(revision);
    let first = unready.first()?;
    Some(not_ready(votes, first, unready.len(), &shown))
}

fn any_target(votes: &SourceVotes<'_>) -> Option<Hold> {
    let name = &votes.source.name;
    votes.newest_first().is_empty().then(|| {
        let failed = votes.targets.iter().find_map(failed_release);
        let because = failed.map(|text| format!(": {text}")).unwrap_or_default();
        Hold::new(
            HoldReason::SourceNotReady,
            format!("no target of {name} is ready{because}"),
            format!("one ready target of {name}"),
        )
    })
}

fn targets_differ(votes: &SourceVotes<'_>, running: &[String]) -> Hold {
    let name = &votes.source.name;
    let failed = |target: &TargetStatus| {
        let text = failed_release(target)?;
        Some(format!(" ({}: {text})", target_name(target)))
    };
    let failed = votes.targets.iter().find_map(failed).unwrap_or_default();
    Hold::new(
        HoldReason::SourceTargetsDiffer,
        format!("{name} targets run {}{failed}", list(running)),
        format!("one revision on all targets of {name}"),
    )
}

fn not_deployed(votes: &SourceVotes<'_>) -> Hold {
    let name = &votes.source.name;
    if let Some(reported) = votes.reported {
        let revision = &reported.revision;
        return Hold::new(
            HoldReason::TargetsNotDistinguishable,
            format!("reports say that {name} runs {revision}, but not on which of its targets"),
            "the metadata field `cluster` on the alerts, or `when: AnyTargetReady`",
        );
    }
    let mut targets = votes.targets.iter();
    let unknown = targets.find(|target| target.revision.is_none());
    let sentence = match unknown {
        Some(target) => {
            let because = target.error.clone().or_else(|| failed_release(target));
            let because = because.unwrap_or("no revision is known".to_owned());
            format!("{name} target {}: {because}", target_name(target))
        }
        None => format!("no revision of {name} is known"),
    };
    let has_error = unknown.is_some_and(|target| target.error.is_some());
    let first = if has_error { "mending that, then " } else { "" };
    let resolved_by = format!("{first}one revision on all targets of {name}");
    Hold::new(HoldReason::SourceNotDeployed, sentence, resolved_by)
}

fn not_ready(votes: &SourceVotes<'_>, target: &TargetStatus, count: usize, revision: &str) -> Hold {
    let more = and_more(count);
    let message = failure_message(target).map(|it| format!(": {it}"));
    let message = message.unwrap_or_default();
    let because = match target.error.clone().or_else(|| failed_release(target)) {
        Some(error) => format!("{more}: {error}"),
        // While the next release is installed, the target still runs the one before.
        None if count > 1 => format!("{more} run {revision} and are not ready{message}"),
        None => format!(" runs {revision} and is not ready{message}"),
    };
    let name = &votes.source.name;
    Hold::new(
        HoldReason::SourceNotReady,
        format!("{name} target {}{because}", target_name(target)),
        format!("readiness of all targets of {name}"),
    )
}

/// The hold instead, where the source environment is not ready because its report has no signature.
fn not_signed(votes: &SourceVotes<'_>, hold: &Hold) -> Option<Hold> {
    let is_unready = matches!(
        hold.reason,
        HoldReason::SourceNotDeployed
            | HoldReason::SourceNotReady
            | HoldReason::SourceTargetsDiffer
    );
    let name = &votes.source.name;
    let report = unsigned_report(votes.pipeline, votes.model, name).filter(|_| is_unready)?;
    let revision = &report.revision;
    let how = how_to_sign(votes.pipeline, name);
    Some(Hold::new(
        HoldReason::ReportNotSigned,
        format!("{name} reported {revision} without a signature, which does not count"),
        format!("a signed report: {how}"),
    ))
}

/// A chart version that was published twice: what the source environment verified is not what the site
/// runs, or not clear.
fn one_digest(question: &CandidateQuestion<'_>) -> GateVerdict {
    let revision = &question.candidate.revision;
    let here = question
        .sites
        .iter()
        .flat_map(|site| site.targets.iter().copied());
    let here = here.filter(|target| target.revision.as_ref() == Some(revision));
    let all = question.candidate.vouched_by.iter().copied().chain(here);
    let recorded = question.candidate.digests.iter().copied();
    let digests = all.filter_map(|target| target.digest.as_deref());
    let digests: BTreeSet<&str> = digests.chain(recorded).collect();
    let digests: Vec<&str> = digests.into_iter().collect();
    let differ = (digests.len() > 1).then(|| {
        Hold::new(
            HoldReason::DigestDiffers,
            format!(
                "{revision} is the version of different artifacts: {}",
                list(&digests)
            ),
            "a version of its own for each artifact, or the same artifact everywhere",
        )
    });
    differ.into()
}

/// Where the source environment and the site follow the same source, they change together by
/// themselves. A tag that both follow may never move, so it holds only what shows that it has moved.
fn shared_source(question: &CandidateQuestion<'_>) -> GateVerdict {
    let (sites, candidate) = (question.sites, question.candidate);
    if question.spec.track.is_some() {
        return GateVerdict::Pass;
    }
    let targets = sites.iter().flat_map(|site| &site.targets);
    let here: Vec<_> = targets
        .filter_map(|target| target.follows.as_deref())
        .collect();
    let is_settled = sites.iter().all(|site| site.runs(&candidate.revision));
    let shared = candidate
        .vouched_by
        .iter()
        .filter_map(|target| target.follows.as_deref())
        .find(|follows| here.contains(follows) && !(is_settled && is_tag(follows)));
    let hold = shared.map(|shared| {
        Hold::new(
            HoldReason::SharedSource,
            format!("this environment and its source environment both follow {shared}"),
            "`track` with the image's name, or a source of its own",
        )
    });
    hold.into()
}

/// Whether the revision has failed in a source environment since the promotion was created, or one of several
/// has rejected it.
fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    if !is_unmerged(question.promotion) {
        return GateVerdict::Pass;
    }
    let failed = failed_in_source(question).or_else(|| rejected_in_source(question));
    failed.map_or(GateVerdict::Pass, GateVerdict::Fail)
}

fn failed_in_source(question: &PromotionQuestion<'_>) -> Option<Hold> {
    let spec = &question.promotion.spec;
    let verified_at = spec.verified_at.as_ref().map(|at| at.0);
    let failed = |source: &Environment| {
        let status = question.model.environments.get(&source.name)?;
        let when = question.when(status);
        let because = failed_since(status, &spec.revision, verified_at, when)?;
        Some((source.name.clone(), because))
    };
    let sources = sources(&question.pipeline.spec, &spec.environment);
    let (source, because) = sources.into_iter().find_map(failed)?;
    let shown = spec.shown_revision();
    Some(Hold::new(
        HoldReason::SourceFailed,
        format!("{shown} has failed in {source} since it was verified there{because}"),
        format!("readiness of {source} at {shown}, a newer revision or a request for {shown}"),
    ))
}

/// What one of several source environments rejected is no longer common to them. One alone runs something
/// else then, which replaces the promotion.
fn rejected_in_source(question: &PromotionQuestion<'_>) -> Option<Hold> {
    let spec = &question.promotion.spec;
    let sources = sources(&question.pipeline.spec, &spec.environment);
    let rejects = |source: &&Environment| {
        let status = question.model.environments.get(&source.name);
        status.is_some_and(|it| it.rejected.contains(&spec.revision))
    };
    let is_one_of_several = sources.len() > 1;
    let source = &sources.into_iter().find(rejects)?.name;
    let shown = spec.shown_revision();
    is_one_of_several.then(|| {
        Hold::new(
            HoldReason::SourceFailed,
            format!("{shown} was rolled back or rejected in {source}"),
            format!("a newer revision or a request for {shown}"),
        )
    })
}

/// Whether a source environment is ready at a revision, as far as its releases tell.
fn is_vouched_for(source: &EnvironmentStatus, revision: &str, when: When) -> bool {
    let targets = source.targets.iter();
    let fails = |target: &TargetStatus| failed_revision(target) == Some(revision);
    let is_ready =
        |target: &TargetStatus| target.ready && target.revision.as_deref() == Some(revision);
    targets.clone().any(is_ready) && (when == When::AnyTargetReady || !targets.clone().any(fails))
}

/// How a revision failed in a source environment: it fails now, or it did after it was verified and has not
/// recovered.
pub(crate) fn failed_since(
    source: &EnvironmentStatus,
    revision: &str,
    verified_at: Option<Timestamp>,
    when: When,
) -> Option<String> {
    let mut targets = source.targets.iter();
    let failing = targets.find(|it| failed_revision(it) == Some(revision));
    if is_vouched_for(source, revision, when) {
        return None;
    }
    if let Some(target) = failing {
        let because = failure_message(target).map(|text| format!(": {text}"));
        return Some(because.unwrap_or_default());
    }
    let verified_at = verified_at?;
    let is_later = |at: &api::Time| at.0 >= verified_at;
    let mut failures = source.failures.iter().filter(|it| it.revision == revision);
    let failure = failures.find(|it| it.at.as_ref().is_some_and(is_later))?;
    let because = failure.message.as_ref().map(|text| format!(": {text}"));
    Some(because.unwrap_or_default())
}
