//! Says whether a pipeline, or one environment of it, has what it should, for those who wait for that.
//!
//! What only people or a newer revision change is told apart from what comes by itself.

use api::{
    Pipeline, conditions,
    pipeline::{Environment, PipelineStatus, RanRevision, TargetStatus},
    revision::identity,
};

use crate::{
    checks::CheckStates,
    hold::HoldReason,
    plan::pending_request,
    sources::sources,
    summary::{SummaryState, environment_message, environment_state},
};

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
