//! The top-level conditions: `Ready`, and beside it the single condition of the first releases.

use api::{
    Condition,
    conditions::READY,
    tekton::Progress,
    trigger::{PipelineTriggerStatus, Template},
};

use super::{TriggerStatusWriter, has_block};
use crate::plan::{
    conditions::{ConditionContent, ERROR, FAILED, SUCCEEDED, SUCCESS, UNKNOWN},
    decision::RunDecision,
};

/// The state of a trigger, worst first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TriggerHealth {
    Blocked { reason: String, message: String },
    Failed { reason: String, message: String },
    Waiting { reason: String, message: String },
    Running { message: String },
    Idle { reason: String, message: String },
    Succeeded { message: String },
}

/// Writes the top-level conditions.
pub(super) fn write_top_conditions(
    writer: &TriggerStatusWriter<'_>,
    status: &mut PipelineTriggerStatus,
) {
    let health = health(writer, status);
    let template = writer.observed.trigger.spec.template();
    if matches!(template, Some(Template::Pipeline(_))) {
        write_single_condition(writer, &mut status.conditions, &health);
    } else if has_block(writer.kind()) {
        status.conditions.retain(|existing| existing.type_ == READY);
    }
    write_ready(writer, &mut status.conditions, &health);
}

fn health(writer: &TriggerStatusWriter<'_>, status: &PipelineTriggerStatus) -> TriggerHealth {
    if let Some(problem) = &writer.plan.problem {
        let (reason, message) = (problem.reason.to_owned(), problem.message.clone());
        return match problem.reason {
            "NoRevision" => TriggerHealth::Waiting { reason, message },
            _ => TriggerHealth::Blocked { reason, message },
        };
    }
    let planned_events = writer.plan.planned_events.iter();
    let healths = planned_events.map(|planned| event_health(writer, status, &planned.decision));
    healths.min().unwrap_or_else(|| TriggerHealth::Idle {
        reason: "NoPullRequests".into(),
        message: "there are no open pull requests".into(),
    })
}

fn event_health(
    writer: &TriggerStatusWriter<'_>,
    status: &PipelineTriggerStatus,
    decision: &RunDecision,
) -> TriggerHealth {
    let blocked = |reason: &str, message: &str| TriggerHealth::Blocked {
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match decision {
        RunDecision::Refuse { message } => blocked("InvalidParameter", message),
        RunDecision::Start { run, .. } => match writer.failures.of(run) {
            Some(because) => blocked("CreateFailed", because),
            None => run_health(writer, Some(run)),
        },
        RunDecision::Follow { run } => {
            let run = run.as_ref().or(status.latest_pipeline_run.as_ref());
            run_health(writer, run)
        }
        RunDecision::Hold { reason, message } => {
            let (reason, message) = ((*reason).to_owned(), message.clone());
            match reason.as_str() {
                "WaitingForRun" => TriggerHealth::Waiting { reason, message },
                _ => TriggerHealth::Idle { reason, message },
            }
        }
    }
}

fn run_health(writer: &TriggerStatusWriter<'_>, run: Option<&String>) -> TriggerHealth {
    let name = run.map_or("the run", String::as_str);
    match writer.progress(run.map(String::as_str)) {
        Some(Progress::Succeeded) => TriggerHealth::Succeeded {
            message: format!("{name} succeeded"),
        },
        Some(Progress::Failed { reason, message }) => TriggerHealth::Failed {
            reason,
            message: format!("{name} failed: {message}"),
        },
        Some(Progress::Running) => TriggerHealth::Running {
            message: format!("{name} is running"),
        },
        Some(Progress::Unknown) => TriggerHealth::Running {
            message: format!("{name} was started"),
        },
        None => missing_run_health(writer, name),
    }
}

/// A run that was just created is not in the cache yet; for one that was deleted the last `Ready`
/// condition stands.
fn missing_run_health(writer: &TriggerStatusWriter<'_>, name: &str) -> TriggerHealth {
    let status = writer.observed.trigger.status.as_ref();
    let ready = status.and_then(|status| api::conditions::find(&status.conditions, READY));
    let is_about = |existing: &&Condition| existing.message.contains(name);
    match ready.filter(is_about) {
        Some(existing) if existing.status == "True" => TriggerHealth::Succeeded {
            message: existing.message.clone(),
        },
        Some(existing) if existing.status == "False" => TriggerHealth::Failed {
            reason: existing.reason.clone(),
            message: existing.message.trim_start_matches(' ').to_owned(),
        },
        _ => TriggerHealth::Running {
            message: format!("{name} was started"),
        },
    }
}

fn write_ready(
    writer: &TriggerStatusWriter<'_>,
    list: &mut Vec<Condition>,
    health: &TriggerHealth,
) {
    let (status, reason, message) = match health {
        TriggerHealth::Blocked { reason, message } | TriggerHealth::Failed { reason, message } => {
            ("False", reason.as_str(), message)
        }
        TriggerHealth::Waiting { reason, message } => ("Unknown", reason.as_str(), message),
        TriggerHealth::Running { message } => ("Unknown", "Running", message),
        TriggerHealth::Idle { reason, message } => ("True", reason.as_str(), message),
        TriggerHealth::Succeeded { message } => ("True", "Succeeded", message),
    };
    let content = ConditionContent {
        type_: READY,
        status,
        reason,
        message,
    };
    writer.condition_writer.set(list, content);
}

/// The first releases wrote a single condition.
fn write_single_condition(
    writer: &TriggerStatusWriter<'_>,
    list: &mut Vec<Condition>,
    health: &TriggerHealth,
) {
    let (type_, status, reason, message) = match health {
        TriggerHealth::Blocked { message, .. } => (ERROR, "True", FAILED, message.as_str()),
        TriggerHealth::Failed { message, .. } => (ERROR, "False", FAILED, message.as_str()),
        TriggerHealth::Succeeded { .. } => (SUCCESS, "True", SUCCEEDED, ""),
        // While nothing is started, the condition of the last run stands.
        TriggerHealth::Idle { .. } if list.iter().any(|existing| existing.type_ != READY) => return,
        _ => (UNKNOWN, "Unknown", UNKNOWN, ""),
    };
    list.retain(|existing| existing.type_ == type_ || existing.type_ == READY);
    let content = ConditionContent {
        type_,
        status,
        reason,
        message,
    };
    writer.condition_writer.set(list, content);
    list.sort_by_key(|existing| existing.type_ == READY);
}
