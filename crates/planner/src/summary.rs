//! Summarises a target, an environment or a pipeline in one state.
//!
//! CLI, REST and dashboard all show these states, so they agree on which state counts when several
//! apply, on its word, its glyph and its severity.

use api::{
    Pipeline,
    pipeline::{EnvironmentStatus, PipelineStatus, TargetProblem, TargetStatus},
    promotion::Phase,
};

use crate::{
    evidence::is_reported,
    gate::{approvals::is_unapprovable, suspended::is_suspended},
    hold::HoldReason,
    release::failed_release,
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

    use serde_json::json;

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

    #[test]
    fn every_state_is_found_by_its_identifier() {
        for state in SummaryState::ALL {
            assert_eq!(SummaryState::from_id(state.id()), Some(state));
        }
        assert_eq!(SummaryState::from_id("other"), None);
    }

    /// The state of an environment by the promotion into it and by its hold, which may lack.
    fn state(phase: Option<&str>, hold: Option<&str>) -> Option<SummaryState> {
        let promotion = phase.map(|phase| json!({"revision": "2.0.0", "phase": phase}));
        let hold = hold.map(|reason| json!({"reason": reason, "message": "it waits"}));
        let status = json!({"promotion": promotion, "hold": hold});
        promotion_state(&serde_json::from_value(status).expect("a status"))
    }

    #[test]
    fn the_promotion_or_the_hold_tells_the_state() {
        let (failed, approval) = (SummaryState::Failed, SummaryState::AwaitingApproval);
        for (phase, hold, expected) in [
            (None, None, None),
            (Some("Failed"), None, Some(failed)),
            (None, Some("PromotionFailed"), Some(failed)),
            (Some("Failed"), Some("Frozen"), Some(failed)),
            (Some("AwaitingApproval"), None, Some(approval)),
            (
                Some("WaitingForMerge"),
                Some("AwaitingApproval"),
                Some(approval),
            ),
            (None, Some("AwaitingApproval"), Some(approval)),
            (Some("Running"), None, Some(SummaryState::Promoting)),
            (Some("Running"), Some("Frozen"), Some(SummaryState::Held)),
            (Some("Succeeded"), None, None),
            (Some("Succeeded"), Some("OlderThanRunning"), None),
            (Some("Succeeded"), Some("Soaking"), Some(SummaryState::Held)),
        ] {
            assert_eq!(state(phase, hold), expected, "{phase:?} {hold:?}");
        }
    }
}
