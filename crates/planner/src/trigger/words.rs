//! How carrying out a plan went, and the events that are published about it.

use std::collections::BTreeMap;

use api::{
    conditions,
    trigger::{PipelineTriggerStatus, Template},
};

use super::{
    Plan,
    lane::Verdict,
    seen::{CredentialState, Seen},
};

/// How carrying out a plan went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Runs that could not be created, and why.
    pub failures: BTreeMap<String, String>,
}

impl Outcome {
    /// Why a run could not be created.
    pub(crate) fn failure(&self, run: &str) -> Option<&str> {
        self.failures.get(run).map(String::as_str)
    }

    /// Whether everything worked.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }
}

/// One event to publish about a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Whether something is wrong.
    pub is_warning: bool,
    /// A fixed word.
    pub reason: &'static str,
    /// A sentence.
    pub note: String,
}

fn information(note: String) -> Announcement {
    Announcement {
        is_warning: false,
        reason: "Info",
        note,
    }
}

fn warning(reason: &'static str, note: String) -> Announcement {
    Announcement {
        is_warning: true,
        reason,
        note,
    }
}

/// What to publish, given the status that is written.
pub fn announcements(
    seen: &Seen<'_>,
    plan: &Plan,
    outcome: &Outcome,
    status: &PipelineTriggerStatus,
) -> Vec<Announcement> {
    let namespace = seen
        .trigger
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default();
    let source = &seen.trigger.spec.source.name;
    let is_early = matches!(seen.trigger.spec.template(), Some(Template::Pipeline(_)));
    let mut list = Vec::new();
    for lane in &plan.lanes {
        let Verdict::Start { run, retry, .. } = &lane.verdict else {
            continue;
        };
        if let Some(because) = outcome.failure(run) {
            list.push(warning("Error", because.to_owned()));
            continue;
        }
        // Each release said one thing; one event is one request less.
        let event = &lane.event.text;
        list.push(information(match is_early && *retry == 0 {
            true => format!("Source {source} in namespace {namespace} got new event {event}"),
            false => format!("Started the pipeline {run} in namespace {namespace}"),
        }));
        if let CredentialState::Missing { because } = &seen.credential {
            let note = format!("Failed to get ManagedCredential: {because}");
            list.push(warning("Warning", note));
        }
    }
    list.extend(complaint(seen, plan, status));
    list
}

/// A trigger that cannot work says so once, not at every look.
fn complaint(seen: &Seen<'_>, plan: &Plan, status: &PipelineTriggerStatus) -> Option<Announcement> {
    let refused = plan.lanes.iter().find_map(|lane| match &lane.verdict {
        Verdict::Refuse { message } => Some(message),
        _ => None,
    });
    let trouble = plan.trouble.as_ref();
    let trouble = trouble.filter(|trouble| trouble.reason != "NoRevision");
    let message = trouble.map(|trouble| &trouble.message).or(refused)?;
    let ready = |status: &PipelineTriggerStatus| {
        let ready = conditions::find(&status.conditions, conditions::READY);
        ready.map(|condition| condition.message.clone())
    };
    let before = seen.trigger.status.as_ref().and_then(ready);
    (before != ready(status)).then(|| warning("ProcessingError", message.clone()))
}
