//! Gate `soak`: every source environment has been ready at the revision without a break for `soak`.

use api::pipeline::When;

use super::{Ask, Gate, GateStage, GateVerdict, PromotionQuestion, readiness, verified};
use crate::{
    hold::{Hold, HoldReason},
    plan::{CandidateSource, CommonRevision, SourceEnvironments, SourceVotes, Standing},
    time::{Timestamp, later},
};

pub(super) const GATE: Gate = Gate {
    name: "soak",
    skipped: Some(skipped),
    rollback_skips: true,
    stage: GateStage::Creation(&[Ask::Source(ask)]),
    again: None,
};

fn ask(source: &CandidateSource<'_>) -> GateVerdict {
    if readiness::ask(source).is_closed() || verified::ask(source).is_closed() {
        return GateVerdict::NotAsked;
    }
    let votes = match source {
        CandidateSource::Environment(votes) => votes,
        CandidateSource::Environments(sources) => {
            let newest = sources.newest();
            let newest = newest.filter(|_| sources.candidate().is_none());
            return newest.and_then(|it| of_common(sources, it)).into();
        }
        CandidateSource::Nothing | CandidateSource::Proposal { .. } => return GateVerdict::Pass,
    };
    if votes.candidate().is_some() {
        return GateVerdict::Pass;
    }
    let hold = match votes.when {
        When::AllTargetsReady => {
            let shared = votes.shared_revision().ok();
            shared.map(|revision| hold(votes, &votes.shown(revision), votes.all_opens_at()))
        }
        When::AnyTargetReady => {
            let next = votes.soaking_vote();
            next.map(|vote| hold(votes, &vote.shown(), votes.opens_at(&vote)))
        }
    };
    hold.into()
}

/// The hold of a common revision that is still soaking, of the source environment where that takes longest.
pub(crate) fn of_common(
    sources: &SourceEnvironments<'_>,
    common: &CommonRevision<'_>,
) -> Option<Hold> {
    let soaking = sources.standings(common).filter_map(|(votes, standing)| {
        let Standing::Ready(opens_at) = standing else {
            return None;
        };
        (opens_at > votes.now).then_some((votes, opens_at))
    });
    let (votes, opens_at) = soaking.max_by_key(|(_, opens_at)| *opens_at)?;
    Some(hold(votes, &common.shown(), opens_at))
}

/// What the gate would have answered about a revision that a person requested, as far as a source environment is
/// ready at it.
pub(super) fn skipped(question: &PromotionQuestion<'_>) -> GateVerdict {
    let spec = &question.promotion.spec;
    let soak = question.settings.and_then(|it| it.soak.as_ref());
    let soaking = question.observed_sources().filter_map(|(source, status)| {
        let targets = status.targets.iter();
        let at_it = targets.filter(|it| it.revision.as_ref() == Some(&spec.revision));
        let since = at_it.map(|it| Some(it.ready_since.as_ref().filter(|_| it.ready)?.0));
        let since = match question.when(status) {
            When::AnyTargetReady => since.flatten().min(),
            When::AllTargetsReady => {
                let since: Option<Vec<Timestamp>> = since.collect();
                since?.into_iter().max()
            }
        };
        let opens_at = later(since?, soak?.length());
        (opens_at > question.now)
            .then(|| hold_until(&source.name, &spec.shown_revision(), opens_at))
    });
    soaking.max_by_key(|hold| hold.opens_at).into()
}

/// The hold of a revision that is still soaking.
pub(crate) fn hold(votes: &SourceVotes<'_>, revision: &str, opens_at: Timestamp) -> Hold {
    hold_until(&votes.source.name, revision, opens_at)
}

fn hold_until(name: &str, revision: &str, opens_at: Timestamp) -> Hold {
    let sentence = format!("{revision} has not been ready in {name} for long enough");
    let resolved_by = format!("waiting until {opens_at:.0}");
    Hold {
        opens_at: Some(opens_at),
        ..Hold::new(HoldReason::Soaking, sentence, resolved_by)
    }
}
