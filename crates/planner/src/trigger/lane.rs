//! The decision about one event: start its run, follow the one there is, wait, or refuse.

use std::time::Duration;

use api::{
    names::label_value,
    tekton::Progress,
    trigger::{Concurrency, PipelineTemplate},
};
use jiff::SignedDuration;
use serde_json::Value;

use super::{
    event::Event,
    filter,
    memory::{self, Past},
    parameters::DeclaredTypes,
    request,
    run::{self, Ingredients, Occasion},
    seen::{CredentialState, PipelineState, Run, Seen},
    tekton::Version,
    template::Draft,
};

/// The wait before the first repetition of a failed run; doubled before each next one.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// One event and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lane {
    pub(crate) event: Event,
    pub(crate) verdict: Verdict,
    pub(crate) look_again: Option<Duration>,
}

/// What to do about an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Start a run.
    Start {
        run: String,
        object: Value,
        retry: i64,
    },
    /// It has its run already, unless that was never noted down.
    Follow { run: Option<String> },
    /// Nothing for now.
    Hold {
        reason: &'static str,
        message: String,
    },
    /// It cannot have a run.
    Refuse { message: String },
}

/// What every event of one trigger is judged by.
pub(crate) struct Judge<'a> {
    pub(crate) seen: &'a Seen<'a>,
    pub(crate) draft: &'a Draft,
    pub(crate) version: Version,
    pub(crate) can_start: bool,
    pub(crate) events: &'a [Event],
}

impl Judge<'_> {
    /// Decides about one event.
    pub(crate) fn lane(&self, event: &Event) -> Lane {
        let past = self.recall(event);
        let mut look_again = None;
        let verdict = if past.is_handled && request(self.seen).is_none() {
            match self.repetition(&past) {
                Repetition::None => Verdict::Follow { run: past.run },
                Repetition::In(wait) => {
                    look_again = Some(wait);
                    Verdict::Follow { run: past.run }
                }
                Repetition::Now { retry } => self.start(event, &past, retry),
            }
        } else {
            self.start(event, &past, 0)
        };
        Lane {
            event: event.clone(),
            verdict,
            look_again,
        }
    }

    /// What the status remembers; where it remembers nothing, what the runs tell.
    fn recall(&self, event: &Event) -> Past {
        let status = self.seen.trigger.status.clone().unwrap_or_default();
        let kind = self.seen.trigger.spec.source.kind;
        let past = memory::recall(kind, &status, event, self.events);
        if past != Past::default() {
            return past;
        }
        let own = |run: &&Run| {
            run.event.as_deref() == Some(&event.key)
                && run.owner.is_some()
                && run.owner == self.seen.trigger.metadata.uid
        };
        let runs = self.seen.runs.iter().filter(own);
        match runs.max_by_key(|run| (run.created, run.name.clone())) {
            Some(run) => Past {
                is_handled: true,
                run: Some(run.name.clone()),
                revision: Some(event.text.clone()),
            },
            None => past,
        }
    }

    fn start(&self, event: &Event, past: &Past, retry: i64) -> Verdict {
        let hold = |reason, message: &str| Verdict::Hold {
            reason,
            message: message.to_owned(),
        };
        let spec = &self.seen.trigger.spec;
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
        let occasion = Occasion {
            previous_run: past.run.as_deref(),
            previous_revision: past.revision.as_deref(),
            retry,
        };
        let name = run::name(&self.ingredients(), event, occasion);
        if spec.concurrency == Some(Concurrency::Forbid) {
            let mut earlier = self.unfinished(event).filter(|run| run.name != name);
            if let Some(earlier) = earlier.next() {
                let sentence = format!("waiting for {} to finish", earlier.name);
                return hold("WaitingForRun", &sentence);
            }
        }
        match run::build(&self.ingredients(), event, occasion) {
            Ok(object) => Verdict::Start {
                run: name,
                object,
                retry,
            },
            Err(message) => Verdict::Refuse { message },
        }
    }

    fn ingredients(&self) -> Ingredients<'_> {
        static NO_TYPES: DeclaredTypes = DeclaredTypes::new();
        Ingredients {
            trigger: self.seen.trigger,
            draft: self.draft,
            version: self.version,
            types: match &self.seen.pipeline {
                PipelineState::Found(types) => types,
                _ => &NO_TYPES,
            },
            credential: match &self.seen.credential {
                CredentialState::Found(credential) => Some(credential),
                _ => None,
            },
        }
    }

    /// The runs of an event's lane that have not ended.
    pub(crate) fn unfinished(&self, event: &Event) -> impl Iterator<Item = &Run> {
        let lane = event
            .lane()
            .map(|branch| label_value(&branch.replace('/', "-")));
        let runs = self.seen.runs.iter();
        runs.filter(move |run| !run.is_finished() && run.lane == lane)
    }

    /// Whether a failed run is repeated.
    fn repetition(&self, past: &Past) -> Repetition {
        let limit = self
            .seen
            .trigger
            .spec
            .pipeline
            .as_ref()
            .map_or(0, repetitions);
        let current = past.run.as_ref();
        let current = self.seen.runs.iter().find(|run| Some(&run.name) == current);
        let Some((run, Progress::Failed { reason, .. })) = current.map(|run| (run, &run.progress))
        else {
            return Repetition::None;
        };
        let status = self.seen.trigger.status.as_ref();
        let noted = status.and_then(|status| status.current_pipeline_retry);
        let so_far = run.retry.or(noted).unwrap_or(0).max(0);
        if so_far >= limit || is_cancellation(reason) {
            return Repetition::None;
        }
        let due = run.completed.unwrap_or(run.created)
            + SignedDuration::try_from(wait(so_far)).unwrap_or_default();
        match Duration::try_from(due.duration_since(self.seen.now)) {
            Ok(left) if !left.is_zero() => Repetition::In(left),
            _ => Repetition::Now { retry: so_far + 1 },
        }
    }
}

enum Repetition {
    None,
    In(Duration),
    Now { retry: i64 },
}

/// How often a failed run is repeated: `retries` counts the repetitions, `maxFailedRetries` all
/// runs.
pub(crate) fn repetitions(pipeline: &PipelineTemplate) -> i64 {
    let in_all = pipeline.max_failed_retries.map(|runs| runs - 1);
    pipeline.retries.or(in_all).unwrap_or(0).max(0)
}

/// Somebody stopped the run on purpose.
fn is_cancellation(reason: &str) -> bool {
    matches!(
        reason,
        "Cancelled" | "CancelledRunFinally" | "StoppedRunFinally" | "PipelineRunCancelled"
    )
}

fn wait(repetitions: i64) -> Duration {
    let doublings = u32::try_from(repetitions.clamp(0, 16)).unwrap_or(0);
    LONGEST_WAIT.min(FIRST_WAIT * 2_u32.pow(doublings))
}
