//! One word for how a target, an environment or a pipeline is doing, for pictures and for scripts
//! that wait.

use api::{
    Pipeline, conditions,
    pipeline::{EnvironmentStatus, PipelineStatus, TargetProblem, TargetStatus},
    promotion::Phase,
    revision::identity,
};

use crate::{evidence::is_reported, hold::HoldReason, release::failed_release};

/// How something is doing. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Something was tried and did not work.
    Failed,
    /// It cannot be read, or the app is not there.
    Unreadable,
    /// Nothing starts because somebody said so.
    Suspended,
    /// A person must approve.
    AwaitingApproval,
    /// A promotion is under way.
    Promoting,
    /// It is there, but not ready.
    NotReady,
    /// What comes next waits for something else.
    Held,
    /// Nothing is known yet.
    Unknown,
    /// There is nothing to run it.
    Empty,
    /// It runs its revision as it should.
    Ready,
}

impl State {
    /// The word itself.
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unreadable => "unreadable",
            Self::AwaitingApproval => "awaiting approval",
            Self::Suspended => "suspended",
            Self::Promoting => "promoting",
            Self::Held => "held",
            Self::NotReady => "not ready",
            Self::Unknown => "unknown",
            Self::Empty => "no targets",
            Self::Ready => "ready",
        }
    }
}

/// How a target is doing.
pub fn target_state(target: &TargetStatus) -> State {
    let is_known = target.ready || target.failed.is_some();
    let problem = target
        .problem
        .filter(|_| !(is_known && is_reported(target)));
    match problem {
        Some(TargetProblem::NotSynced) => State::Unknown,
        Some(_) => State::Unreadable,
        None if target.ready => State::Ready,
        None if target.failed.is_some() => State::Failed,
        None => State::NotReady,
    }
}

/// How an environment is doing, with the promotion into it.
pub fn environment_state(pipeline: &Pipeline, model: &PipelineStatus, name: &str) -> State {
    let spec = pipeline.spec.environments.iter().find(|it| it.name == name);
    let is_empty = spec.is_some_and(|spec| spec.targets.is_empty());
    let is_suspended = pipeline.spec.suspend || spec.is_some_and(|spec| spec.suspend);
    let nothing = match is_empty {
        true => State::Empty,
        false => State::Unknown,
    };
    let Some(status) = model.environments.get(name) else {
        return nothing;
    };
    let targets = status.targets.iter().map(target_state).min();
    let suspended = is_suspended.then_some(State::Suspended);
    let all = [Some(targets.unwrap_or(nothing)), motion(status), suspended];
    all.into_iter().flatten().min().unwrap_or(nothing)
}

/// What the promotion into an environment makes of it.
fn motion(status: &EnvironmentStatus) -> Option<State> {
    let phase = status.promotion.as_ref().and_then(|it| it.phase);
    let reason = status.hold.as_ref().map(|hold| hold.reason.as_str());
    let is_running = phase.is_some_and(|phase| !phase.is_terminal());
    match (phase, reason) {
        (Some(Phase::Failed), _) => Some(State::Failed),
        (_, Some(reason)) if reason == HoldReason::PromotionFailed.word() => Some(State::Failed),
        (Some(Phase::AwaitingApproval), _) => Some(State::AwaitingApproval),
        (_, Some(reason)) if reason == HoldReason::AwaitingApproval.word() => {
            Some(State::AwaitingApproval)
        }
        _ if is_running => Some(State::Promoting),
        (_, Some(_)) => Some(State::Held),
        _ => None,
    }
}

/// Whether there is anything left to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Every environment runs what it should.
    Yes,
    /// Something is under way or held; the text says what.
    NotYet(String),
    /// Something failed, and waiting will not help; the text says what.
    Never(String),
}

/// Whether a pipeline, or one environment of it, has come to rest; at that revision, if one is
/// named.
pub fn settled(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    only: Option<&str>,
    revision: Option<&str>,
) -> Settled {
    if model.observed_generation.is_none()
        || model.observed_generation < pipeline.metadata.generation
    {
        return Settled::NotYet("the pipeline has not been looked at yet".to_owned());
    }
    let ready = conditions::find(&model.conditions, conditions::READY);
    if let Some(ready) = ready.filter(|ready| ready.reason == HoldReason::InvalidSpec.word()) {
        return Settled::Never(ready.message.clone());
    }
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let names = names.filter(|name| only.is_none_or(|only| only == *name));
    let states = names.map(|name| (environment_state(pipeline, model, name), name));
    let Some((state, name)) = states.min_by_key(|(state, _)| *state) else {
        return Settled::Yes;
    };
    if matches!(state, State::Ready | State::Empty) {
        return arrived(pipeline, model, only, revision);
    }
    let text = format!("{name} is {}{}", state.word(), because(model, name));
    match state {
        State::Failed => Settled::Never(text),
        _ => Settled::NotYet(text),
    }
}

/// Whether everything that is ready runs the revision that is waited for.
fn arrived(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    only: Option<&str>,
    revision: Option<&str>,
) -> Settled {
    let Some(revision) = revision.map(identity) else {
        return Settled::Yes;
    };
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    for name in names.filter(|name| only.is_none_or(|only| only == *name)) {
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
            return Settled::NotYet(format!("{name} runs {runs}, not {revision}"));
        }
    }
    Settled::Yes
}

fn because(model: &PipelineStatus, name: &str) -> String {
    let status = model.environments.get(name);
    let hold = status.and_then(|status| status.hold.as_ref());
    let promotion = status.and_then(|status| status.promotion.as_ref());
    let message = promotion.and_then(|promotion| promotion.message.as_ref());
    let url = promotion.and_then(|promotion| promotion.url.as_ref());
    match (hold, message.or(url)) {
        (Some(hold), _) => format!(": {}", hold.message),
        (None, Some(text)) => format!(": {text}"),
        (None, None) => {
            let targets = status.map(|status| status.targets.as_slice());
            let mut targets = targets.unwrap_or_default().iter();
            let failed = targets.find_map(failed_release);
            failed.map(|text| format!(": {text}")).unwrap_or_default()
        }
    }
}
