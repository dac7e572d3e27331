//! Summarises a target, an environment or a pipeline in one state, and says whether a rollout is complete.
//!
//! CLI, REST and dashboard all show these states, so they agree on which state counts when several
//! apply, on its word, its glyph and its severity.

use api::{
    Pipeline, conditions,
    pipeline::{
        Environment, EnvironmentStatus, PipelineStatus, RanRevision, TargetProblem, TargetStatus,
    },
    promotion::Phase,
    revision::identity,
};

use crate::{
    checks::CheckStates,
    evidence::is_reported,
    gate::{approvals::is_unapprovable, suspended::is_suspended},
    hold::HoldReason,
    plan::pending_request,
    release::failed_release,
    sources::sources,
};

/// The state of a target, an environment or a pipeline. Where several apply, the first one listed
/// here counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SummaryState {
    /// A promotion or a release failed.
    Failed,
    /// A target cannot be read, or its app does not exist.
    Unreadable,
    /// The pipeline or the environment is suspended.
    Suspended,
    /// A promotion waits for a person's approval.
    AwaitingApproval,
    /// A promotion is under way.
    Promoting,
    /// The app is deployed, but not ready.
    NotReady,
    /// A gate holds the next promotion.
    Held,
    /// Nothing has been observed yet.
    Unknown,
    /// The environment has no targets.
    Empty,
    /// Everything is ready at its revision.
    Ready,
}

/// How urgent a state is. It decides the colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is broken.
    Error,
    /// Something is not as it should be, or waits.
    Warning,
    /// A person has to decide.
    Attention,
    /// Work is under way.
    Progress,
    /// There is nothing to say.
    Neutral,
    /// All is well.
    Success,
}

impl SummaryState {
    /// Every state, in order of precedence.
    pub const ALL: [Self; 10] = [
        Self::Failed,
        Self::Unreadable,
        Self::Suspended,
        Self::AwaitingApproval,
        Self::Promoting,
        Self::NotReady,
        Self::Held,
        Self::Unknown,
        Self::Empty,
        Self::Ready,
    ];

    /// Identifier, word, glyph and severity of a state.
    const fn row(self) -> (&'static str, &'static str, &'static str, Severity) {
        match self {
            Self::Failed => ("failed", "failed", "✖", Severity::Error),
            Self::Unreadable => ("unreachable", "unreadable", "▲", Severity::Error),
            Self::Suspended => ("suspended", "suspended", "‖", Severity::Neutral),
            Self::AwaitingApproval => ("approval", "awaiting approval", "◇", Severity::Attention),
            Self::Promoting => ("promoting", "promoting", "▶", Severity::Progress),
            Self::NotReady => ("deploying", "not ready", "◐", Severity::Warning),
            Self::Held => ("held", "held", "◆", Severity::Warning),
            Self::Unknown => ("unknown", "unknown", "○", Severity::Neutral),
            Self::Empty => ("empty", "no targets", "·", Severity::Neutral),
            Self::Ready => ("ready", "ready", "●", Severity::Success),
        }
    }

    /// The identifier in REST answers and URLs, which stays as it is.
    pub const fn id(self) -> &'static str {
        self.row().0
    }

    /// The state as people read it.
    pub const fn word(self) -> &'static str {
        self.row().1
    }

    /// A character that no other state has.
    pub const fn glyph(self) -> &'static str {
        self.row().2
    }

    /// How urgent it is.
    pub const fn severity(self) -> Severity {
        self.row().3
    }

    /// The state with an identifier.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.id() == id)
    }
}

/// The state of a target.
pub fn target_state(target: &TargetStatus) -> SummaryState {
    let is_known = target.ready || target.failed.is_some();
    let problem = target
        .problem
        .filter(|_| !(is_known && is_reported(target)));
    match problem {
        Some(TargetProblem::NotSynced) => SummaryState::Unknown,
        Some(_) => SummaryState::Unreadable,
        None if target.ready => SummaryState::Ready,
        None if target.failed.is_some() => SummaryState::Failed,
        None => SummaryState::NotReady,
    }
}

/// The state of an environment: of its targets, and of the promotion into it.
pub fn environment_state(pipeline: &Pipeline, model: &PipelineStatus, name: &str) -> SummaryState {
    let spec = pipeline.spec.environments.iter().find(|it| it.name == name);
    let unobserved = match spec.is_some_and(|spec| spec.targets.is_empty()) {
        true => SummaryState::Empty,
        false => SummaryState::Unknown,
    };
    let suspended = spec.filter(|spec| is_suspended(&pipeline.spec, spec));
    let suspended = suspended.map(|_| SummaryState::Suspended);
    let status = model.environments.get(name);
    let targets = status.into_iter().flat_map(|status| &status.targets);
    let targets = targets.map(target_state).min().unwrap_or(unobserved);
    let all = [Some(targets), status.and_then(promotion_state), suspended];
    all.into_iter().flatten().min().unwrap_or(unobserved)
}

/// The state of a pipeline, and the environment that is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineSummary<'a> {
    /// The first state in order of precedence of all environments.
    pub state: SummaryState,
    /// The environment in that state; none where the state is that of the whole pipeline.
    pub environment: Option<&'a str>,
}

/// The state of a pipeline, by that of its environments.
pub fn pipeline_summary<'a>(pipeline: &'a Pipeline, model: &PipelineStatus) -> PipelineSummary<'a> {
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let states = names.map(|name| (environment_state(pipeline, model, name), name));
    let Some((state, name)) = states.min_by_key(|(state, _)| *state) else {
        return PipelineSummary {
            state: SummaryState::Empty,
            environment: None,
        };
    };
    let is_whole = match state {
        SummaryState::Ready => true,
        SummaryState::Suspended => pipeline.spec.suspend,
        _ => false,
    };
    PipelineSummary {
        state,
        environment: (!is_whole).then_some(name),
    }
}

/// The reasons for which a promotion that exists does not go on by itself.
const STUCK: [HoldReason; 5] = [
    HoldReason::Frozen,
    HoldReason::InvalidFreeze,
    HoldReason::CheckFailed,
    HoldReason::RolloutStopped,
    HoldReason::TooManyUnreachable,
];

/// The state that the promotion into an environment and its hold imply.
fn promotion_state(status: &EnvironmentStatus) -> Option<SummaryState> {
    let phase = status.promotion.as_ref().map(|it| it.phase);
    let reason = status.hold.as_ref().map(|hold| hold.reason.as_str());
    let is_reason = |expected: HoldReason| reason == Some(expected.word());
    let message = status
        .promotion
        .as_ref()
        .and_then(|it| it.message.as_deref());
    match phase {
        Some(Some(Phase::Failed)) => Some(SummaryState::Failed),
        _ if is_reason(HoldReason::PromotionFailed) => Some(SummaryState::Failed),
        Some(phase) if is_unapprovable(phase, message) => Some(SummaryState::Held),
        Some(Some(Phase::AwaitingApproval)) => Some(SummaryState::AwaitingApproval),
        _ if is_reason(HoldReason::AwaitingApproval) => Some(SummaryState::AwaitingApproval),
        Some(phase) if phase.is_none_or(|phase| !phase.is_terminal()) => {
            match STUCK.into_iter().any(is_reason) {
                true => Some(SummaryState::Held),
                false => Some(SummaryState::Promoting),
            }
        }
        // It is ahead of its source environment: there is nothing newer to bring.
        _ if is_reason(HoldReason::OlderThanRunning) => None,
        _ => reason.map(|_| SummaryState::Held),
    }
}

/// Whether the environments of a pipeline have what they should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Every environment runs what it should.
    Complete,
    /// Nothing is under way, and only people or a newer revision change what is held; the text says what.
    Held(String),
    /// Something is under way or held; the text says what.
    InProgress(String),
    /// Something failed, and waiting will not help; the text says what.
    Failed(String),
}

/// Whether a pipeline, or one environment of it, has what it should; with a revision, whether it
/// runs that one.
pub fn completion(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    only: Option<&str>,
    revision: Option<&str>,
) -> Completion {
    if model.observed_generation.is_none()
        || model.observed_generation < pipeline.metadata.generation
    {
        return Completion::InProgress("the pipeline has not been observed yet".to_owned());
    }
    let ready = conditions::find(&model.conditions, conditions::READY);
    if let Some(ready) = ready.filter(|ready| ready.reason == HoldReason::InvalidSpec.word()) {
        return Completion::Failed(ready.message.clone());
    }
    if let Some(text) = revision.and_then(|it| rejection(pipeline, model, only, identity(it))) {
        return Completion::Failed(text);
    }
    let names = environment_names(pipeline, only);
    let states = names.map(|name| (environment_state(pipeline, model, name), name));
    let Some((state, name)) = states.min_by_key(|(state, _)| *state) else {
        return Completion::Complete;
    };
    let arrived = at_revision(pipeline, model, only, revision);
    // A hold is about what comes after the revision that runs.
    let is_only_held = state == SummaryState::Held && revision.is_some();
    match state {
        SummaryState::Ready | SummaryState::Empty => return arrived,
        _ if is_only_held && arrived == Completion::Complete => return arrived,
        _ => {}
    }
    if state == SummaryState::Held && arrived == Completion::Complete {
        return held(pipeline, model, only, name);
    }
    let text = state_and_message(model, state, name);
    match state {
        SummaryState::Failed => Completion::Failed(text),
        _ => Completion::InProgress(text),
    }
}

/// Whether what is held comes by itself, a request waits, or an environment is not known yet; the text names the first
/// such environment, else this one.
fn held(pipeline: &Pipeline, model: &PipelineStatus, only: Option<&str>, name: &str) -> Completion {
    // Also for an environment that does not wait for anything: what comes of it may reach the others.
    let is_asked = |it: &&str| pending_request(pipeline, model, it).is_some();
    if let Some(asked) = environment_names(pipeline, None).find(is_asked) {
        return Completion::InProgress(format!("a request for {asked} is about to be handled"));
    }
    let states =
        environment_names(pipeline, only).map(|it| (environment_state(pipeline, model, it), it));
    let mut open = states.filter(|(state, it)| match state {
        SummaryState::Unknown => true,
        SummaryState::Held => !is_held_for_people(pipeline, model, it),
        _ => false,
    });
    match open.next() {
        Some((state, open)) => Completion::InProgress(state_and_message(model, state, open)),
        None => Completion::Held(state_and_message(model, SummaryState::Held, name)),
    }
}

/// `prod is held: …`
fn state_and_message(model: &PipelineStatus, state: SummaryState, name: &str) -> String {
    let message = environment_message(model.environments.get(name));
    let because = message.map(|text| format!(": {text}")).unwrap_or_default();
    format!("{name} is {}{because}", state.word())
}

/// Whether only people, or a newer revision, change why an environment is held.
fn is_held_for_people(pipeline: &Pipeline, model: &PipelineStatus, name: &str) -> bool {
    let status = model.environments.get(name);
    let reason = status.and_then(|it| it.hold.as_ref());
    let reason = reason.map(|hold| hold.reason.as_str());
    let settled = [
        HoldReason::Rejected,
        HoldReason::AlreadyRan,
        HoldReason::VerificationFailed,
        HoldReason::RollbackNotPossible,
    ];
    let is_check = reason == Some(HoldReason::VerificationFailed.word());
    settled.iter().any(|it| Some(it.word()) == reason)
        && !(is_check && is_verifying_before(pipeline, model, name))
}

/// Whether a source environment runs a revision whose checks go on: that may come although another one failed.
fn is_verifying_before(pipeline: &Pipeline, model: &PipelineStatus, name: &str) -> bool {
    let spec = &pipeline.spec;
    let is_open = |source: &&Environment| {
        let status = model.environments.get(&source.name);
        let targets = status.into_iter().flat_map(|it| &it.targets);
        let mut revisions = targets.filter_map(|it| it.revision.as_deref());
        revisions.any(|it| CheckStates::verify(spec, &source.name, status, it).are_open())
    };
    sources(spec, name).iter().any(is_open)
}

fn environment_names<'a>(
    pipeline: &'a Pipeline,
    only: Option<&str>,
) -> impl Iterator<Item = &'a str> {
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    names.filter(move |name| only.is_none_or(|only| only == *name))
}

/// Why a revision does not come into an environment any more, unless a person requests it.
fn rejection(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    only: Option<&str>,
    revision: &str,
) -> Option<String> {
    environment_names(pipeline, only).find_map(|name| {
        let status = model.environments.get(name)?;
        let is_it =
            |it: &&RanRevision| it.revision == revision || it.version.as_deref() == Some(revision);
        let ran = status.ran.iter().find(is_it);
        let identity = ran.map_or(revision, |it| it.revision.as_str());
        let promotion = status.promotion.as_ref();
        let is_requested = promotion.is_some_and(|it| {
            it.revision == identity && it.phase.is_none_or(|phase| !phase.is_terminal())
        });
        if is_requested || !status.rejected.iter().any(|it| it == identity) {
            return None;
        }
        let check = ran.and_then(|it| it.failed_check.as_deref());
        Some(match check {
            Some(check) => format!("{name} rejected {revision}: it failed the check {check}"),
            None => format!("{name} rejected {revision}"),
        })
    })
}

/// Whether everything that is ready runs the revision that is waited for.
fn at_revision(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    only: Option<&str>,
    revision: Option<&str>,
) -> Completion {
    let Some(revision) = revision.map(identity) else {
        return Completion::Complete;
    };
    for name in environment_names(pipeline, only) {
        let targets = model.environments.get(name).map(|it| it.targets.as_slice());
        let mut targets = targets.unwrap_or_default().iter();
        let is_other = |target: &&TargetStatus| {
            let is_tag = target.version.as_deref() == Some(revision);
            target.revision.as_deref() != Some(revision) && !is_tag
        };
        let other = targets.find(is_other);
        if let Some(other) = other {
            let runs = other
                .shown_revision()
                .unwrap_or_else(|| "nothing yet".to_owned());
            return Completion::InProgress(format!("{name} runs {runs}, not {revision}"));
        }
    }
    Completion::Complete
}

/// Why an environment is in its state: its hold, the promotion's problem or pull request, a target's
/// error or its failed release.
pub fn environment_message(status: Option<&EnvironmentStatus>) -> Option<String> {
    let status = status?;
    let hold = status.hold.as_ref().map(|hold| hold.message.clone());
    let promotion = status.promotion.as_ref();
    // Why one was withdrawn or replaced says nothing about what runs.
    let has_gone = |phase| matches!(phase, Some(Phase::Withdrawn | Phase::Superseded));
    let promotion = promotion.filter(|it| !has_gone(it.phase));
    let problem = || promotion.and_then(|it| it.message.clone().or_else(|| it.url.clone()));
    let error = || status.targets.iter().find_map(|it| it.error.clone());
    let failed = || status.targets.iter().find_map(failed_release);
    hold.or_else(problem).or_else(error).or_else(failed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_state_has_its_own_identifier_word_and_glyph() {
        let distinct = |text: fn(SummaryState) -> &'static str| {
            let all: BTreeSet<_> = SummaryState::ALL.map(text).into();
            all.len()
        };
        assert_eq!(distinct(SummaryState::id), SummaryState::ALL.len());
        assert_eq!(distinct(SummaryState::word), SummaryState::ALL.len());
        assert_eq!(distinct(SummaryState::glyph), SummaryState::ALL.len());
        assert!(SummaryState::ALL.is_sorted());
    }
}
