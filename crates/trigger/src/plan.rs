//! Decides which PipelineRuns a PipelineTrigger creates, cancels and deletes, and what its status says.
//!
//! [`plan()`] turns what was observed into a list of actions that leave nothing to decide. [`status()`]
//! and [`kubernetes_events()`] report how they went. All are pure functions of their arguments: no I/O,
//! no clock, no randomness. Run names are derived from their inputs, so carrying a plan out twice, or
//! again after a crash, creates nothing twice.

mod conditions;
mod decision;
mod event;
mod event_record;
mod expression;
mod filter;
mod history;
mod kubernetes_events;
mod observed;
mod parameters;
mod run;
mod status;
mod tekton;
mod template;
mod triggers_of;

use std::time::Duration;

use api::{names, trigger::Concurrency};
use serde_json::Value;

pub use event::{EventSubject, SourceEvent, events_of};
pub use kubernetes_events::{CreateFailures, KubernetesEvent, kubernetes_events};
pub use observed::{
    CredentialState, ObservedRun, ObservedTrigger, PipelineState, SourceState, pipeline_needed,
    relevant_fields,
};
pub use parameters::DeclaredTypes;
pub use run::RunCredential;
pub use status::{ConditionSample, condition_samples, status};
pub use tekton::TektonVersion;
pub use template::{group_and_plural, lint};
pub use triggers_of::{ListedTrigger, TriggerObjects, triggers_of};

use decision::{EventPlanner, RunDecision};

/// What to do for one PipelineTrigger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TriggerPlan {
    /// To be carried out in this order.
    pub actions: Vec<RunAction>,
    /// When to reconcile again even if nothing changes.
    pub requeue_after: Option<Duration>,
    planned_events: Vec<decision::PlannedEvent>,
    problem: Option<TriggerProblem>,
    request: Option<String>,
}

/// One change to a PipelineRun. Carrying it out requires no further decision.
#[derive(Clone, Debug, PartialEq)]
pub enum RunAction {
    /// Cancel a run.
    Cancel {
        /// Its name.
        run: String,
    },
    /// Create a run. If one of that name exists and belongs to the trigger, it is the same run.
    Create {
        /// Its name.
        run: String,
        /// The whole object.
        object: Value,
    },
    /// Delete a finished run.
    Delete {
        /// Its name.
        run: String,
        /// The uid of the object to delete; a later object of the same name stays.
        uid: String,
    },
}

/// Why a trigger cannot start any run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TriggerProblem {
    /// The reason of the `Ready` condition.
    pub(crate) reason: &'static str,
    /// The message of the `Ready` condition.
    pub(crate) message: String,
}

fn problem(reason: &'static str, message: impl Into<String>) -> Option<TriggerProblem> {
    Some(TriggerProblem {
        reason,
        message: message.into(),
    })
}

/// Decides what to do for one PipelineTrigger.
pub fn plan(observed: &ObservedTrigger<'_>) -> TriggerPlan {
    let template = match template::run_template(observed.trigger) {
        Ok(template) => template,
        Err(because) => return blocked(problem("InvalidSpec", because)),
    };
    let events = match source_events(observed) {
        Ok(events) => events,
        Err(problem) => return blocked(problem),
    };
    let version = template::version_of(observed.tekton);
    let problem = match (&version, &observed.pipeline) {
        (Err(because), _) => problem("TektonNotInstalled", because.as_str()),
        (Ok(_), PipelineState::Missing { name }) => problem(
            "PipelineNotFound",
            format!("pipelines.{} {name:?} not found", api::tekton::GROUP),
        ),
        _ => None,
    };
    let planner = EventPlanner {
        observed,
        template: &template,
        version: version.unwrap_or(TektonVersion::V1),
        can_start: problem.is_none(),
        events: &events,
    };
    assemble(&planner, problem)
}

/// The events of the source, or why there are none.
fn source_events(
    observed: &ObservedTrigger<'_>,
) -> Result<Vec<SourceEvent>, Option<TriggerProblem>> {
    let source = &observed.trigger.spec.source;
    let (group, plural) = group_and_plural(source.kind);
    match observed.source {
        SourceState::Forbidden(because) => Err(problem("Forbidden", because)),
        SourceState::NotServed => Err(problem(
            "SourceKindNotInstalled",
            format!(
                "{:?} is not installed: nothing serves {plural} in {group}",
                source.kind
            ),
        )),
        SourceState::Missing => Err(problem(
            "SourceNotFound",
            format!("{plural}.{group} {:?} not found", source.name),
        )),
        SourceState::Found(object) => events_of(source.kind, &source.name, object)
            .map_err(|because| problem("NoRevision", because)),
    }
}

fn blocked(problem: Option<TriggerProblem>) -> TriggerPlan {
    TriggerPlan {
        problem,
        ..TriggerPlan::default()
    }
}

fn assemble(planner: &EventPlanner<'_>, problem: Option<TriggerProblem>) -> TriggerPlan {
    let planned_events: Vec<decision::PlannedEvent> = planner
        .events
        .iter()
        .map(|event| planner.plan_event(event))
        .collect();
    let mut actions = Vec::new();
    for planned in &planned_events {
        let RunDecision::Start { run, object, .. } = &planned.decision else {
            continue;
        };
        if planner.observed.trigger.spec.concurrency == Some(Concurrency::Replace) {
            let unfinished = planner.unfinished(&planned.event);
            actions.extend(
                unfinished
                    .filter(|other| !other.is_cancelled && other.name != *run)
                    .map(|other| RunAction::Cancel {
                        run: other.name.clone(),
                    }),
            );
        }
        actions.push(RunAction::Create {
            run: run.clone(),
            object: object.clone(),
        });
    }
    actions.extend(history::deletions(planner.observed, &planned_events));
    TriggerPlan {
        requeue_after: planned_events
            .iter()
            .filter_map(|planned| planned.requeue_after)
            .min(),
        request: unhandled_request(planner.observed),
        actions,
        planned_events,
        problem,
    }
}

/// The value of the annotation that requests a run, unless it was handled before.
fn unhandled_request(observed: &ObservedTrigger<'_>) -> Option<String> {
    let annotations = observed.trigger.metadata.annotations.as_ref()?;
    let asked = annotations.get(names::RUN_REQUEST_ANNOTATION)?;
    let status = observed.trigger.status.as_ref();
    let handled = status.and_then(|status| status.last_handled_reconcile_at.as_ref());
    (handled != Some(asked)).then(|| asked.clone())
}

#[cfg(test)]
mod tests;
