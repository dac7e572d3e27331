//! What comes next for a Change: a file that is to be proposed in git.
//!
//! [`refuse`] says which files are never proposed. [`pull_request_lookup`] says whether the pull request must be
//! looked at first, [`plan`] what to do and the status to write, [`conclude`] the status once that
//! was done or has failed. [`surplus`] names those that were kept long enough. Promises: what is
//! merged or was turned down is not proposed again; what failed for a passing reason is tried again
//! for ever, ever more slowly; what failed for another is looked at now and then.

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
/// How much of an error is kept.
const LONGEST_MESSAGE: usize = 1024;

/// What comes next for a change.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePlan {
    /// Whether to propose the file now; doing it twice does it once.
    pub propose: bool,
    /// The status to write; where there is something to propose, what [`conclude`] starts from.
    pub status: ChangeStatus,
    /// When to look again even if nothing happens.
    pub requeue_at: Option<Timestamp>,
}

/// How closely to look at the change's pull request before [`plan`]. `edited` is whether what it
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

/// What comes next, given why the file may not be proposed and what was seen of its pull request.
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
    rest(told(status, change, (phase, message), now))
}

const WAITS: &str = "the pull request waits to be merged";

/// Where no repository is configured, what another process works on is left to that.
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

/// Nothing is to be done. Finished changes are looked at once more when they have been kept long
/// enough.
fn rest(status: ChangeStatus) -> ChangePlan {
    let due = status.next_attempt.as_ref().map(|due| due.0);
    let ends = ended_at(&status).map(|ended| later(ended, KEEP));
    ChangePlan {
        propose: false,
        requeue_at: [due, ends].into_iter().flatten().min(),
        status,
    }
}

/// The status after the file was proposed, or could not be. The seed sets changes that fail together
/// apart.
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
    told(status, change, done, now)
}

/// The status of a change whose pull request could not be looked at. What is proposed goes on being
/// followed, and only another reason than before is news.
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
        false => said(before, change, (Phase::Proposed, failure), now),
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
    said(status, change, (phase, failure), now)
}

fn said(
    status: ChangeStatus,
    change: &Change,
    (phase, failure): (Phase, &Failure),
    now: Timestamp,
) -> ChangeStatus {
    let message = cut(&failure.message, LONGEST_MESSAGE);
    with(status, change, phase, (&failure.reason, &message), now)
}

fn told(
    status: ChangeStatus,
    change: &Change,
    (phase, message): (Phase, &str),
    now: Timestamp,
) -> ChangeStatus {
    let reason = format!("{phase:?}");
    with(status, change, phase, (&reason, message), now)
}

/// The status in a phase, with the condition that goes with it.
fn with(
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

/// When a change that is over came to be so: `Ready` turns then and not again.
fn ended_at(status: &ChangeStatus) -> Option<Timestamp> {
    status.phase.filter(|phase| phase.is_over())?;
    let ready = stored_conditions::find(&status.conditions, READY)?;
    Some(ready.last_transition_time.0)
}

/// Those of one namespace that need not be kept: beyond so many that are over, or over for a week.
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
