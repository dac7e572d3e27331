//! Decides about one source event: start a run, follow the run it has, hold, or refuse.
//!
//! Failed runs are retried with exponential backoff where the trigger asks for retries.

use std::time::Duration;

use api::{
    names::label_value,
    tekton::Progress,
    trigger::{Concurrency, PipelineTemplate},
};
use jiff::SignedDuration;
use serde_json::Value;

use super::{
    event::SourceEvent,
    event_record::{self, EventRecord},
    filter,
    observed::{CredentialState, ObservedRun, ObservedTrigger, PipelineState},
    parameters::DeclaredTypes,
    run::{self, Predecessor, RunInputs},
    tekton::TektonVersion,
    template::RunTemplate,
    unhandled_request,
};

/// The backoff before the first retry of a failed run; doubled before each further one.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// One event and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedEvent {
    pub(crate) event: SourceEvent,
    pub(crate) decision: RunDecision,
    pub(crate) requeue_after: Option<Duration>,
}

/// What to do about an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunDecision {
    /// Start a run.
    Start {
        run: String,
        object: Value,
        retry: i64,
    },
    /// It has its run already; early releases did not always record the name.
    Follow { run: Option<String> },
    /// Start nothing for now.
    Hold {
        reason: &'static str,
        message: String,
    },
    /// No valid run can be built for it.
    Refuse { message: String },
}

/// Plans the events of one trigger.
pub(crate) struct EventPlanner<'a> {
    pub(crate) observed: &'a ObservedTrigger<'a>,
    pub(crate) template: &'a RunTemplate,
    pub(crate) version: TektonVersion,
    pub(crate) can_start: bool,
    pub(crate) events: &'a [SourceEvent],
}

impl EventPlanner<'_> {
    /// Decides about one event.
    pub(crate) fn plan_event(&self, event: &SourceEvent) -> PlannedEvent {
        let record = self.record_of(event);
        let mut requeue_after = None;
        let decision = if record.is_handled && unhandled_request(self.observed).is_none() {
            match self.retry_decision(&record) {
                RetryDecision::Never => RunDecision::Follow { run: record.run },
                RetryDecision::After(wait) => {
                    requeue_after = Some(wait);
                    RunDecision::Follow { run: record.run }
                }
                RetryDecision::Now { retry } => self.start(event, &record, retry),
            }
        } else {
            self.start(event, &record, 0)
        };
        PlannedEvent {
            event: event.clone(),
            decision,
            requeue_after,
        }
    }

    /// What the status records about an event; if nothing, what its existing runs show.
    fn record_of(&self, event: &SourceEvent) -> EventRecord {
        let status = self.observed.trigger.status.clone().unwrap_or_default();
        let kind = self.observed.trigger.spec.source.kind;
        let record = event_record::record_of(kind, &status, event, self.events);
        if record != EventRecord::default() {
            return record;
        }
        let own = |run: &&ObservedRun| {
            run.event.as_deref() == Some(&event.key)
                && run.owner.is_some()
                && run.owner == self.observed.trigger.metadata.uid
        };
        let runs = self.observed.runs.iter().filter(own);
        match runs.max_by_key(|run| (run.created, run.name.clone())) {
            Some(run) => EventRecord {
                is_handled: true,
                run: Some(run.name.clone()),
                revision: Some(event.text.clone()),
            },
            None => record,
        }
    }

    fn start(&self, event: &SourceEvent, record: &EventRecord, retry: i64) -> RunDecision {
        let hold = |reason, message: &str| RunDecision::Hold {
            reason,
            message: message.to_owned(),
        };
        let spec = &self.observed.trigger.spec;
        if spec.suspend {
            return hold("Suspended", "the trigger is suspended");
        }
        if !filter::passes(spec.filters.as_ref(), event) {
            let sentence = format!("{} does not pass the filters", event.text);
            return hold("Filtered", &sentence);
        }
        if !self.can_start {
            return hold("Hindered", "the trigger cannot start runs");
        }
        let predecessor = Predecessor {
            run: record.run.as_deref(),
            revision: record.revision.as_deref(),
            retry,
        };
        let name = run::name(&self.inputs(), event, predecessor);
        if spec.concurrency == Some(Concurrency::Forbid) {
            let mut earlier = self.unfinished(event).filter(|run| run.name != name);
            if let Some(earlier) = earlier.next() {
                let sentence = format!("waiting for {} to finish", earlier.name);
                return hold("WaitingForRun", &sentence);
            }
        }
        match run::build(&self.inputs(), event, predecessor) {
            Ok(object) => RunDecision::Start {
                run: name,
                object,
                retry,
            },
            Err(message) => RunDecision::Refuse { message },
        }
    }

    fn inputs(&self) -> RunInputs<'_> {
        static NO_TYPES: DeclaredTypes = DeclaredTypes::new();
        RunInputs {
            trigger: self.observed.trigger,
            template: self.template,
            version: self.version,
            types: match &self.observed.pipeline {
                PipelineState::Found(types) => types,
                _ => &NO_TYPES,
            },
            credential: match &self.observed.credential {
                CredentialState::Found(credential) => Some(credential),
                _ => None,
            },
        }
    }

    /// The unfinished runs that an event's run would run beside: those of the same pull request
    /// branch, or all runs for other sources.
    pub(crate) fn unfinished(&self, event: &SourceEvent) -> impl Iterator<Item = &ObservedRun> {
        let branch = event
            .pull_request_branch()
            .map(|branch| label_value(&branch.replace('/', "-")));
        let runs = self.observed.runs.iter();
        runs.filter(move |run| !run.is_finished() && run.pull_request_branch == branch)
    }

    /// Whether and when a failed run is retried.
    fn retry_decision(&self, record: &EventRecord) -> RetryDecision {
        let limit = self
            .observed
            .trigger
            .spec
            .pipeline
            .as_ref()
            .map_or(0, max_retries);
        let current = record.run.as_ref();
        let current = self
            .observed
            .runs
            .iter()
            .find(|run| Some(&run.name) == current);
        let Some((run, Progress::Failed { reason, .. })) = current.map(|run| (run, &run.progress))
        else {
            return RetryDecision::Never;
        };
        let status = self.observed.trigger.status.as_ref();
        let recorded = status.and_then(|status| status.current_pipeline_retry);
        let so_far = run.retry.or(recorded).unwrap_or(0).max(0);
        if so_far >= limit || is_cancellation(reason) {
            return RetryDecision::Never;
        }
        let due = run.completed.unwrap_or(run.created)
            + SignedDuration::try_from(backoff(so_far)).unwrap_or_default();
        match Duration::try_from(due.duration_since(self.observed.now)) {
            Ok(left) if !left.is_zero() => RetryDecision::After(left),
            _ => RetryDecision::Now { retry: so_far + 1 },
        }
    }
}

enum RetryDecision {
    Never,
    After(Duration),
    Now { retry: i64 },
}

/// How often a failed run is retried: `retries` counts the retries, `maxFailedRetries` all runs.
pub(crate) fn max_retries(pipeline: &PipelineTemplate) -> i64 {
    let in_all = pipeline.max_failed_retries.map(|runs| runs - 1);
    pipeline.retries.or(in_all).unwrap_or(0).max(0)
}

/// Whether somebody stopped the run on purpose.
fn is_cancellation(reason: &str) -> bool {
    matches!(
        reason,
        "Cancelled" | "CancelledRunFinally" | "StoppedRunFinally" | "PipelineRunCancelled"
    )
}

fn backoff(retries: i64) -> Duration {
    let doublings = u32::try_from(retries.clamp(0, 16)).unwrap_or(0);
    MAX_BACKOFF.min(FIRST_BACKOFF * 2_u32.pow(doublings))
}
