//! Triggers: which runs a source's events should start, and what is said about them.
//!
//! `plan` decides from what was seen; the plan leaves no choice to whoever carries it out.
//! `status` and `announcements` say how it went. All are functions of their arguments: carrying a
//! plan out twice, or crashing halfway, ends in the same place because run names do not depend on
//! chance.

mod conditions;
mod event;
mod expression;
mod filter;
mod history;
mod lane;
mod listing;
mod memory;
mod parameters;
mod run;
mod seen;
mod status;
mod tekton;
mod template;
mod words;

use std::time::Duration;

use api::{names, trigger::Concurrency};
use serde_json::Value;

pub use event::{Event, Subject, events_of};
pub use listing::{Around, Listed, triggers_of};
pub use parameters::DeclaredTypes;
pub use run::Credential;
pub use seen::{CredentialState, PipelineState, Run, Seen, SourceState, essence, pipeline_needed};
pub use status::{Signal, signals, status};
pub use tekton::Version;
pub use template::{group_and_plural, lint};
pub use words::{Announcement, Outcome, announcements};

use lane::{Judge, Verdict};

/// What to do for one trigger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// When to look again although nothing changed.
    pub look_again: Option<Duration>,
    lanes: Vec<lane::Lane>,
    trouble: Option<Trouble>,
    request: Option<String>,
}

/// One thing to do. Carrying it out requires no further decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Cancel a run.
    Cancel {
        /// Its name.
        run: String,
    },
    /// Create a run; one of that name that belongs to the trigger is the same run.
    Start {
        /// Its name.
        run: String,
        /// The whole object.
        object: Value,
    },
    /// Remove a finished run.
    Remove {
        /// Its name.
        run: String,
        /// Only this very object.
        uid: String,
    },
}

/// What keeps a trigger from working at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// A fixed word.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) message: String,
}

fn trouble(reason: &'static str, message: impl Into<String>) -> Option<Trouble> {
    Some(Trouble {
        reason,
        message: message.into(),
    })
}

/// Decides what to do for a trigger.
pub fn plan(seen: &Seen<'_>) -> Plan {
    let draft = match template::draft(seen.trigger) {
        Ok(draft) => draft,
        Err(because) => return hindered(trouble("InvalidSpec", because)),
    };
    let events = match events_seen(seen) {
        Ok(events) => events,
        Err(trouble) => return hindered(trouble),
    };
    let version = template::version_of(seen.tekton);
    let trouble = match (&version, &seen.pipeline) {
        (Err(because), _) => trouble("TektonNotInstalled", because.as_str()),
        (Ok(_), PipelineState::Missing { name }) => trouble(
            "PipelineNotFound",
            format!("pipelines.{} {name:?} not found", api::tekton::GROUP),
        ),
        _ => None,
    };
    let judge = Judge {
        seen,
        draft: &draft,
        version: version.unwrap_or(Version::V1),
        can_start: trouble.is_none(),
        events: &events,
    };
    assemble(&judge, trouble)
}

/// What the source has to say, or why it says nothing.
fn events_seen(seen: &Seen<'_>) -> Result<Vec<Event>, Option<Trouble>> {
    let source = &seen.trigger.spec.source;
    let (group, plural) = group_and_plural(source.kind);
    match seen.source {
        SourceState::Forbidden(because) => Err(trouble("Forbidden", because)),
        SourceState::NotServed => Err(trouble(
            "SourceKindNotInstalled",
            format!(
                "{:?} is not installed: nothing serves {plural} in {group}",
                source.kind
            ),
        )),
        SourceState::Missing => Err(trouble(
            "SourceNotFound",
            format!("{plural}.{group} {:?} not found", source.name),
        )),
        SourceState::Found(object) => events_of(source.kind, &source.name, object)
            .map_err(|because| trouble("NoRevision", because)),
    }
}

fn hindered(trouble: Option<Trouble>) -> Plan {
    Plan {
        trouble,
        ..Plan::default()
    }
}

fn assemble(judge: &Judge<'_>, trouble: Option<Trouble>) -> Plan {
    let lanes: Vec<lane::Lane> = judge.events.iter().map(|event| judge.lane(event)).collect();
    let mut steps = Vec::new();
    for lane in &lanes {
        let Verdict::Start { run, object, .. } = &lane.verdict else {
            continue;
        };
        if judge.seen.trigger.spec.concurrency == Some(Concurrency::Replace) {
            let unfinished = judge.unfinished(&lane.event);
            steps.extend(
                unfinished
                    .filter(|other| !other.is_cancelled && other.name != *run)
                    .map(|other| Step::Cancel {
                        run: other.name.clone(),
                    }),
            );
        }
        steps.push(Step::Start {
            run: run.clone(),
            object: object.clone(),
        });
    }
    steps.extend(history::removals(judge.seen, &lanes));
    Plan {
        look_again: lanes.iter().filter_map(|lane| lane.look_again).min(),
        request: request(judge.seen),
        steps,
        lanes,
        trouble,
    }
}

/// The value of the request annotation, if it was not dealt with yet.
fn request(seen: &Seen<'_>) -> Option<String> {
    let annotations = seen.trigger.metadata.annotations.as_ref()?;
    let asked = annotations.get(names::RUN_REQUEST_ANNOTATION)?;
    let status = seen.trigger.status.as_ref();
    let handled = status.and_then(|status| status.last_handled_reconcile_at.as_ref());
    (handled != Some(asked)).then(|| asked.clone())
}

#[cfg(test)]
mod tests;
