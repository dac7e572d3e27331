//! Decides the next action for a Change: a file to propose in git.
//!
//! [`refuse`] says which files are never proposed, [`pull_request_lookup`] whether the forge must be
//! queried first, [`plan`] what to do and the status to write, [`conclude`] the status after the attempt,
//! and [`surplus`] which Changes are removed. They guarantee: what was merged or closed is not proposed
//! again; transient failures are retried with exponential backoff, others rarely.

mod path;

use std::time::Duration;

use api::{
    Change,
    change::{ChangePhase as Phase, ChangeStatus},
    conditions::{self as stored_conditions, READY},
};

use crate::{
    Failure, ObservedPullRequest, Outcome, PullRequestLookup, Remedy,
    attempt::backoff,
    conditions::{self, ConditionValue, cut},
    time::{Timestamp, later, stored},
};

pub use path::{refuse, suggested_path};

/// The reason of a change that no repository is configured for.
pub const NOT_CONFIGURED: &str = "NotConfigured";

/// How long a finished change is kept.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
/// The longest error message, in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// The next action for a Change.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePlan {
    /// Whether to propose the file now, which is idempotent.
    pub propose: bool,
    /// The status to write; where there is something to propose, what [`conclude`] starts from.
    pub status: ChangeStatus,
    /// When to decide again even if nothing changes.
    pub requeue_at: Option<Timestamp>,
}

/// How to query the forge for the Change's pull request before [`plan`]. `edited` is whether what it
/// failed on was edited since.
pub fn pull_request_lookup(change: &Change, edited: bool, now: Timestamp) -> PullRequestLookup {
    let status = change.status.clone().unwrap_or_default();
    let due = status.next_attempt.map(|due| due.0);
    match status.phase {
        Some(Phase::Merged | Phase::Abandoned) => PullRequestLookup::Skip,
        Some(Phase::Proposed) => PullRequestLookup::Cached,
        _ if due.is_some_and(|due| now < due) && !edited => PullRequestLookup::Skip,
        _ => PullRequestLookup::Fresh,
    }
}

/// The next action, given why the file may not be proposed and what was observed of its pull request.
pub fn plan(
    change: &Change,
    refused: Option<&Failure>,
    seen: &ObservedPullRequest,
    now: Timestamp,
) -> ChangePlan {
    let before = change.status.clone().unwrap_or_default();
    if matches!(before.phase, Some(Phase::Merged | Phase::Abandoned)) {
        return rest(before);
    }
    if let Some(refusal) = refused {
        return refused_now(change, before, refusal, now);
    }
    let (phase, url, message) = match seen {
        ObservedPullRequest::NotQueried | ObservedPullRequest::Unanswered => return rest(before),
        ObservedPullRequest::Missing => {
            let propose = true;
            let next = rest(before);
            return ChangePlan { propose, ..next };
        }
        ObservedPullRequest::Open { url, .. } => (Phase::Proposed, url, WAITS),
        ObservedPullRequest::Merged { url, .. } => {
            (Phase::Merged, url, "the pull request was merged")
        }
        ObservedPullRequest::Closed { url } => {
            let message = "the pull request was closed unmerged; to propose the file again, create \
                           another Change";
            (Phase::Abandoned, url, message)
        }
    };
    let mut status = before;
    status.url = Some(url.clone());
    status.next_attempt = None;
    rest(with_phase(status, change, (phase, message), now))
}

const WAITS: &str = "the pull request waits to be merged";

/// Where no repository is configured, a Change that another process works on is left alone.
fn refused_now(
    change: &Change,
    mut status: ChangeStatus,
    refusal: &Failure,
    now: Timestamp,
) -> ChangePlan {
    if status.phase.is_none() || refusal.reason != NOT_CONFIGURED {
        status.next_attempt = None;
        status = failed(status, change, refusal, now);
    }
    rest(status)
}

/// No action. A finished Change is decided on again when it has been kept long enough.
fn rest(status: ChangeStatus) -> ChangePlan {
    let due = status.next_attempt.as_ref().map(|due| due.0);
    let ends = ended_at(&status).map(|ended| later(ended, KEEP));
    ChangePlan {
        propose: false,
        requeue_at: [due, ends].into_iter().flatten().min(),
        status,
    }
}

/// The status after an attempt to propose the file. The seed is for the jitter of the backoff.
pub fn conclude(
    change: &Change,
    before: ChangeStatus,
    outcome: Outcome,
    now: Timestamp,
    seed: u64,
) -> ChangeStatus {
    let mut status = before;
    status.attempts = status.attempts.saturating_add(1);
    status.next_attempt = None;
    let done = match outcome {
        Outcome::Opened { url, .. } => {
            status.url = Some(url);
            (Phase::Proposed, WAITS)
        }
        Outcome::Failed(failure) => {
            let attempts = status.attempts;
            let pause = match failure.remedy {
                Remedy::Retry => backoff::backoff(attempts, seed),
                Remedy::RetryAfter(least) => backoff::backoff(attempts, seed).max(least),
                Remedy::WaitForEdit => backoff::slow_backoff(attempts, seed),
            };
            status.next_attempt = Some(stored(later(now, pause)));
            return failed(status, change, &failure, now);
        }
        _ => (
            Phase::Merged,
            "the repository has exactly this file already",
        ),
    };
    with_phase(status, change, done, now)
}

/// The status of a Change after a failed query for its pull request. A proposed one is still followed, and
/// only another reason than before is reported.
pub fn status_after_failed_lookup(
    change: &Change,
    before: ChangeStatus,
    failure: &Failure,
    now: Timestamp,
    seed: u64,
) -> ChangeStatus {
    if before.phase != Some(Phase::Proposed) {
        let outcome = Outcome::Failed(failure.clone());
        return conclude(change, before, outcome, now, seed);
    }
    let ready = stored_conditions::find(&before.conditions, READY);
    match ready.is_some_and(|ready| ready.reason == failure.reason) {
        true => before,
        false => with_failure(before, change, (Phase::Proposed, failure), now),
    }
}

fn failed(
    status: ChangeStatus,
    change: &Change,
    failure: &Failure,
    now: Timestamp,
) -> ChangeStatus {
    let phase = match failure.remedy {
        Remedy::WaitForEdit => Phase::Failed,
        Remedy::Retry | Remedy::RetryAfter(_) => Phase::Pending,
    };
    with_failure(status, change, (phase, failure), now)
}

fn with_failure(
    status: ChangeStatus,
    change: &Change,
    (phase, failure): (Phase, &Failure),
    now: Timestamp,
) -> ChangeStatus {
    let message = cut(&failure.message, LONGEST_MESSAGE);
    with_condition(status, change, phase, (&failure.reason, &message), now)
}

fn with_phase(
    status: ChangeStatus,
    change: &Change,
    (phase, message): (Phase, &str),
    now: Timestamp,
) -> ChangeStatus {
    let reason = format!("{phase:?}");
    with_condition(status, change, phase, (&reason, message), now)
}

/// The status in a phase, with the condition that goes with it.
fn with_condition(
    mut status: ChangeStatus,
    change: &Change,
    phase: Phase,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> ChangeStatus {
    let word = match phase {
        Phase::Merged => "True",
        Phase::Abandoned | Phase::Failed => "False",
        Phase::Pending | Phase::Proposed => "Unknown",
    };
    status.phase = Some(phase);
    status.message = Some(message.to_owned());
    status.observed_generation = change.metadata.generation;
    let verdict = ConditionValue::new(word, reason, message);
    conditions::set(&mut status.conditions, READY, &verdict, now);
    status
}

/// When a Change ended: `Ready` changes then and not again.
fn ended_at(status: &ChangeStatus) -> Option<Timestamp> {
    status.phase.filter(|phase| phase.is_over())?;
    let ready = stored_conditions::find(&status.conditions, READY)?;
    Some(ready.last_transition_time.0)
}

/// The Changes of a namespace to remove: ended ones beyond the limit, or ended for a week.
pub fn surplus<'a>(changes: &[&'a Change], limit: usize, now: Timestamp) -> Vec<&'a Change> {
    let over = changes.iter().filter_map(|change| {
        let ended = ended_at(change.status.as_ref()?)?;
        Some((ended, *change))
    });
    let mut over: Vec<_> = over.collect();
    over.sort_by_key(|(ended, change)| (std::cmp::Reverse(*ended), change.metadata.name.clone()));
    let is_old = |ended: Timestamp| later(ended, KEEP) <= now;
    let surplus = over.into_iter().enumerate();
    surplus
        .filter(|(nth, (ended, _))| *nth >= limit || is_old(*ended))
        .map(|(_, (_, change))| change)
        .collect()
}
