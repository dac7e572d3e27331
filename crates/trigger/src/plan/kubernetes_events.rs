//! The Kubernetes events that report how carrying out a plan went.

use std::collections::BTreeMap;

use api::{
    conditions,
    trigger::{PipelineTriggerStatus, Template},
};

use super::{
    TriggerPlan,
    decision::RunDecision,
    observed::{CredentialState, ObservedTrigger},
};

/// The runs that could not be created when a plan was carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateFailures {
    /// The error message by run name.
    pub by_run: BTreeMap<String, String>,
}

impl CreateFailures {
    /// Why a run could not be created.
    pub(crate) fn of(&self, run: &str) -> Option<&str> {
        self.by_run.get(run).map(String::as_str)
    }

    /// Whether all runs were created.
    pub fn is_empty(&self) -> bool {
        self.by_run.is_empty()
    }
}

/// One Kubernetes event about a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesEvent {
    /// Whether its type is `Warning`.
    pub is_warning: bool,
    /// Its reason.
    pub reason: &'static str,
    /// Its note.
    pub note: String,
}

fn normal(note: String) -> KubernetesEvent {
    KubernetesEvent {
        is_warning: false,
        reason: "Info",
        note,
    }
}

fn warning(reason: &'static str, note: String) -> KubernetesEvent {
    KubernetesEvent {
        is_warning: true,
        reason,
        note,
    }
}

/// The events to record, given the status that is about to be written.
pub fn kubernetes_events(
    observed: &ObservedTrigger<'_>,
    plan: &TriggerPlan,
    failures: &CreateFailures,
    status: &PipelineTriggerStatus,
) -> Vec<KubernetesEvent> {
    let namespace = observed
        .trigger
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default();
    let source = &observed.trigger.spec.source.name;
    let is_early = matches!(
        observed.trigger.spec.template(),
        Some(Template::Pipeline(_))
    );
    let mut list = Vec::new();
    for planned in &plan.planned_events {
        let RunDecision::Start { run, retry, .. } = &planned.decision else {
            continue;
        };
        if let Some(because) = failures.of(run) {
            list.push(warning("Error", because.to_owned()));
            continue;
        }
        // Early and late releases recorded different events; one of them saves a request.
        let event = &planned.event.text;
        list.push(normal(match is_early && *retry == 0 {
            true => format!("Source {source} in namespace {namespace} got new event {event}"),
            false => format!("Started the pipeline {run} in namespace {namespace}"),
        }));
        if let CredentialState::Missing { because } = &observed.credential {
            let note = format!("Failed to get ManagedCredential: {because}");
            list.push(warning("Warning", note));
        }
    }
    list.extend(processing_error(observed, plan, status));
    list
}

/// The error of a trigger that cannot work, recorded once per message and not at every reconcile.
fn processing_error(
    observed: &ObservedTrigger<'_>,
    plan: &TriggerPlan,
    status: &PipelineTriggerStatus,
) -> Option<KubernetesEvent> {
    let refused = plan
        .planned_events
        .iter()
        .find_map(|planned| match &planned.decision {
            RunDecision::Refuse { message } => Some(message),
            _ => None,
        });
    let problem = plan.problem.as_ref();
    let problem = problem.filter(|problem| problem.reason != "NoRevision");
    let message = problem.map(|problem| &problem.message).or(refused)?;
    let ready = |status: &PipelineTriggerStatus| {
        let ready = conditions::find(&status.conditions, conditions::READY);
        ready.map(|condition| condition.message.clone())
    };
    let before = observed.trigger.status.as_ref().and_then(ready);
    (before != ready(status)).then(|| warning("ProcessingError", message.clone()))
}
