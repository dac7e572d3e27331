//! The conditions at the top: `Ready` for everyone, and the first releases' single one beside it.

use api::{
    Condition,
    conditions::READY,
    tekton::Progress,
    trigger::{PipelineTriggerStatus, Template, TriggerSourceKind},
};

use super::Scribe;
use crate::trigger::{
    conditions::{ERROR, FAILED, SUCCEEDED, SUCCESS, Saying, UNKNOWN},
    lane::Verdict,
};

/// How a trigger is doing, worst first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Hindered { reason: String, message: String },
    Failed { reason: String, message: String },
    Waiting { reason: String, message: String },
    Running { message: String },
    Idle { reason: String, message: String },
    Succeeded { message: String },
}

/// Writes the conditions at the top.
pub(super) fn sum_up(scribe: &Scribe<'_>, status: &mut PipelineTriggerStatus) {
    let state = state(scribe, status);
    let template = scribe.seen.trigger.spec.template();
    let has_top_list = !matches!(
        scribe.kind(),
        TriggerSourceKind::GitRepository
            | TriggerSourceKind::ImagePolicy
            | TriggerSourceKind::PullRequest
    );
    if matches!(template, Some(Template::Pipeline(_))) {
        say_alone(scribe, &mut status.conditions, &state);
    } else if !has_top_list {
        status.conditions.retain(|known| known.type_ == READY);
    }
    say_ready(scribe, &mut status.conditions, &state);
}

fn state(scribe: &Scribe<'_>, status: &PipelineTriggerStatus) -> State {
    if let Some(trouble) = &scribe.plan.trouble {
        let (reason, message) = (trouble.reason.to_owned(), trouble.message.clone());
        return match trouble.reason {
            "NoRevision" => State::Waiting { reason, message },
            _ => State::Hindered { reason, message },
        };
    }
    let lanes = scribe.plan.lanes.iter();
    let states = lanes.map(|lane| lane_state(scribe, status, &lane.verdict));
    states.min().unwrap_or_else(|| State::Idle {
        reason: "NoPullRequests".into(),
        message: "there is nothing to run for".into(),
    })
}

fn lane_state(scribe: &Scribe<'_>, status: &PipelineTriggerStatus, verdict: &Verdict) -> State {
    let hindered = |reason: &str, message: &str| State::Hindered {
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match verdict {
        Verdict::Refuse { message } => hindered("InvalidParameter", message),
        Verdict::Start { run, .. } => match scribe.outcome.failure(run) {
            Some(because) => hindered("CreateFailed", because),
            None => run_state(scribe, Some(run)),
        },
        Verdict::Follow { run } => {
            let run = run.as_ref().or(status.latest_pipeline_run.as_ref());
            run_state(scribe, run)
        }
        Verdict::Hold { reason, message } => {
            let (reason, message) = ((*reason).to_owned(), message.clone());
            match reason.as_str() {
                "WaitingForRun" => State::Waiting { reason, message },
                _ => State::Idle { reason, message },
            }
        }
    }
}

fn run_state(scribe: &Scribe<'_>, run: Option<&String>) -> State {
    let name = run.map_or("the run", String::as_str);
    match scribe.progress(run.map(String::as_str)) {
        Some(Progress::Succeeded) => State::Succeeded {
            message: format!("{name} succeeded"),
        },
        Some(Progress::Failed { reason, message }) => State::Failed {
            reason,
            message: format!("{name} failed: {message}"),
        },
        Some(Progress::Running) => State::Running {
            message: format!("{name} is running"),
        },
        Some(Progress::Unknown) => State::Running {
            message: format!("{name} was started"),
        },
        None => gone_or_new(scribe, name),
    }
}

/// A run that was just started is not seen yet; one that is gone leaves its last word.
fn gone_or_new(scribe: &Scribe<'_>, name: &str) -> State {
    let status = scribe.seen.trigger.status.as_ref();
    let ready = status.and_then(|status| api::conditions::find(&status.conditions, READY));
    let is_about = |known: &&Condition| known.message.contains(name);
    match ready.filter(is_about) {
        Some(known) if known.status == "True" => State::Succeeded {
            message: known.message.clone(),
        },
        Some(known) if known.status == "False" => State::Failed {
            reason: known.reason.clone(),
            message: known.message.trim_start_matches(' ').to_owned(),
        },
        _ => State::Running {
            message: format!("{name} was started"),
        },
    }
}

fn say_ready(scribe: &Scribe<'_>, list: &mut Vec<Condition>, state: &State) {
    let (status, reason, message) = match state {
        State::Hindered { reason, message } | State::Failed { reason, message } => {
            ("False", reason.as_str(), message)
        }
        State::Waiting { reason, message } => ("Unknown", reason.as_str(), message),
        State::Running { message } => ("Unknown", "Running", message),
        State::Idle { reason, message } => ("True", reason.as_str(), message),
        State::Succeeded { message } => ("True", "Succeeded", message),
    };
    let saying = Saying {
        type_: READY,
        status,
        reason,
        message,
    };
    scribe.pen.say(list, saying);
}

/// The first releases kept a single condition.
fn say_alone(scribe: &Scribe<'_>, list: &mut Vec<Condition>, state: &State) {
    let (type_, status, reason, message) = match state {
        State::Hindered { message, .. } => (ERROR, "True", FAILED, message.as_str()),
        State::Failed { message, .. } => (ERROR, "False", FAILED, message.as_str()),
        State::Succeeded { .. } => (SUCCESS, "True", SUCCEEDED, ""),
        // Held or idle: what was said about the last run stands.
        State::Idle { .. } if list.iter().any(|known| known.type_ != READY) => return,
        _ => (UNKNOWN, "Unknown", UNKNOWN, ""),
    };
    list.retain(|known| known.type_ == type_ || known.type_ == READY);
    let saying = Saying {
        type_,
        status,
        reason,
        message,
    };
    scribe.pen.say(list, saying);
    list.sort_by_key(|known| known.type_ == READY);
}
