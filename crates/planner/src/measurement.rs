//! How measurements become the verdict of a check run.
//!
//! Passed and failed measurements in a row count against the thresholds of the check. A missing answer is
//! neither: a check without answers ends as Error, never as Failed. Failed is final; what has passed goes on
//! being measured where the check has an interval, and can still fail. The status changes with the verdict
//! only.

use std::time::Duration;

use api::{
    CheckRun,
    check_run::{CheckRunStatus, CheckVerdict},
    pipeline::Check,
};

use crate::{
    check_definition::is_measured,
    time::{Timestamp, later, stored},
};

/// How often a check without an interval is measured until it has passed or failed.
const INTERVAL: Duration = Duration::from_secs(30);
/// The shortest interval.
pub(crate) const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long a check may take unless it says otherwise.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How often a Job is looked at.
const JOB_INTERVAL: Duration = Duration::from_secs(10);

/// What one measurement gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// The condition is met.
    Passed {
        /// What was measured.
        observed: Option<String>,
    },
    /// The condition is not met.
    Failed {
        /// A fixed word.
        reason: String,
        /// Why, for people. Never a part of an answer's body.
        message: String,
        /// What was measured.
        observed: Option<String>,
    },
    /// There is nothing to compare: no answer, or no value in it.
    Unknown {
        /// A fixed word.
        reason: String,
        /// Why, for people.
        message: String,
        /// Whether it can only be measured after somebody edits something.
        needs_edit: bool,
    },
    /// It is not done yet.
    Pending,
}

/// What a process remembers about a check run between measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasurementProgress {
    /// When this process first saw it.
    pub first_seen: Timestamp,
    /// When it was last measured.
    pub last: Option<Timestamp>,
    /// How many measurements in a row passed.
    pub passed: i64,
    /// How many measurements in a row failed.
    pub failed: i64,
    /// What the last measurement that did not pass said.
    pub message: Option<String>,
}

impl MeasurementProgress {
    /// Nothing is measured yet.
    pub fn new(first_seen: Timestamp) -> Self {
        Self {
            first_seen,
            last: None,
            passed: 0,
            failed: 0,
            message: None,
        }
    }
}

/// How long a check may take after its initial delay.
pub fn timeout_of(check: &Check) -> Duration {
    check.timeout.as_ref().map_or(TIMEOUT, |it| it.length())
}

/// When a check run is to be measured next: nothing if never again. `seed` spreads the first measurements
/// after a restart.
pub fn measure_at(run: &CheckRun, progress: &MeasurementProgress, seed: u64) -> Option<Timestamp> {
    let check = &run.spec.check;
    match verdict(run) {
        CheckVerdict::Failed => return None,
        CheckVerdict::Passed if check.interval.is_none() || !is_measured(check) => return None,
        CheckVerdict::Passed if progress.last.is_none() => {
            let milliseconds = u64::try_from(interval(check).as_millis()).unwrap_or(u64::MAX);
            let spread = Duration::from_millis(seed % milliseconds.max(1));
            return Some(later(progress.first_seen, spread));
        }
        _ => {}
    }
    let start = later(created(run, progress), delay(check));
    match progress.last {
        None => Some(start),
        // Its result comes with a change of the object.
        Some(last) if run.spec.result.is_some() => Some(last),
        Some(last) if check.external.is_some() => Some(deadline(run, progress).max(last)),
        Some(last) => Some(later(last, interval(check))),
    }
}

/// Takes a measurement into account; returns the status, which is the stored one if the verdict is the same.
pub fn judge(
    run: &CheckRun,
    progress: &mut MeasurementProgress,
    measurement: Measurement,
    now: Timestamp,
) -> CheckRunStatus {
    progress.last = Some(now);
    let before = run.status.clone().unwrap_or_default();
    let check = &run.spec.check;
    let is_answered = !matches!(measurement, Measurement::Unknown { .. });
    let decided = match measurement {
        Measurement::Passed { observed } => {
            (progress.passed, progress.failed) = (progress.passed.saturating_add(1), 0);
            let is_reached = progress.passed >= threshold(check, check.success_threshold);
            let passes = is_reached && before.verdict != CheckVerdict::Passed;
            passes.then(|| decision(&before, CheckVerdict::Passed, None, None, observed))
        }
        Measurement::Failed {
            reason,
            message,
            observed,
        } => {
            (progress.passed, progress.failed) = (0, progress.failed.saturating_add(1));
            progress.message = Some(message.clone());
            let is_reached = progress.failed >= threshold(check, check.failure_threshold);
            let message = in_a_row(message, progress.failed);
            is_reached.then(|| {
                decision(
                    &before,
                    CheckVerdict::Failed,
                    Some(&reason),
                    Some(message),
                    observed,
                )
            })
        }
        Measurement::Unknown {
            reason,
            message,
            needs_edit,
        } => {
            progress.passed = 0;
            progress.message = Some(message.clone());
            let verdict = match needs_edit || now >= deadline(run, progress) {
                true => CheckVerdict::Error,
                false => CheckVerdict::Running,
            };
            let is_news = before.verdict != CheckVerdict::Passed
                && (before.verdict != verdict || before.reason.as_ref() != Some(&reason));
            is_news.then(|| decision(&before, verdict, Some(&reason), Some(message), None))
        }
        Measurement::Pending => None,
    };
    let status = decided.unwrap_or_else(|| undecided(run, &before, progress, is_answered, now));
    dated(run, &before, status, now)
}

/// The status without a new verdict: failed after the deadline, else running.
fn undecided(
    run: &CheckRun,
    before: &CheckRunStatus,
    progress: &MeasurementProgress,
    is_answered: bool,
    now: Timestamp,
) -> CheckRunStatus {
    let check = &run.spec.check;
    let waits = !matches!(before.verdict, CheckVerdict::Passed | CheckVerdict::Failed);
    if waits && is_answered && now >= deadline(run, progress) {
        let within = check
            .timeout
            .as_ref()
            .map_or("15m".to_owned(), ToString::to_string);
        let last = progress.message.as_ref().or(before.message.as_ref());
        let last = last.map(|last| format!(": {last}")).unwrap_or_default();
        let what = match check.external {
            Some(_) => "nobody reported a result",
            None => "did not pass",
        };
        let message = format!("{what} within {within}{last}");
        return decision(
            before,
            CheckVerdict::Failed,
            Some("CheckTimedOut"),
            Some(message),
            None,
        );
    }
    let measures = check.external.is_none();
    match before.verdict {
        CheckVerdict::Pending if measures => {
            decision(before, CheckVerdict::Running, None, None, None)
        }
        CheckVerdict::Error if is_answered => {
            decision(before, CheckVerdict::Running, None, None, None)
        }
        _ => before.clone(),
    }
}

fn decision(
    before: &CheckRunStatus,
    verdict: CheckVerdict,
    reason: Option<&str>,
    message: Option<String>,
    observed: Option<String>,
) -> CheckRunStatus {
    CheckRunStatus {
        verdict,
        reason: reason.map(str::to_owned),
        message: message.map(|message| shortened(&message, 1024)),
        observed: observed.map(|observed| shortened(&observed, 128)),
        decided_at: None,
        ..before.clone()
    }
}

/// Sets the times of a status whose verdict changed.
fn dated(
    run: &CheckRun,
    before: &CheckRunStatus,
    mut status: CheckRunStatus,
    now: Timestamp,
) -> CheckRunStatus {
    if status == *before {
        return status;
    }
    status.observed_generation = run.metadata.generation;
    if run.spec.check.external.is_none() {
        status.started_at.get_or_insert(stored(now));
    }
    status.decided_at = match status.verdict {
        CheckVerdict::Passed | CheckVerdict::Failed => Some(stored(now)),
        _ => None,
    };
    status
}

/// When a check that has not passed has failed. A process that first sees a check run late gives it the time
/// that passing takes, because nothing was measured meanwhile.
fn deadline(run: &CheckRun, progress: &MeasurementProgress) -> Timestamp {
    let check = &run.spec.check;
    let start = later(created(run, progress), delay(check));
    let deadline = later(start, timeout_of(check));
    if !is_measured(check) || progress.first_seen <= later(start, interval(check)) {
        return deadline;
    }
    let passes = u32::try_from(threshold(check, check.success_threshold)).unwrap_or(u32::MAX);
    deadline.max(later(
        progress.first_seen,
        interval(check).saturating_mul(passes),
    ))
}

fn verdict(run: &CheckRun) -> CheckVerdict {
    run.status
        .as_ref()
        .map(|status| status.verdict)
        .unwrap_or_default()
}

fn created(run: &CheckRun, progress: &MeasurementProgress) -> Timestamp {
    let created = run.metadata.creation_timestamp.as_ref();
    created.map_or(progress.first_seen, |created| created.0)
}

fn delay(check: &Check) -> Duration {
    let delay = check
        .initial_delay
        .as_ref()
        .filter(|_| check.external.is_none());
    delay.map_or(Duration::ZERO, |delay| delay.length())
}

fn interval(check: &Check) -> Duration {
    if check.job.is_some() {
        return JOB_INTERVAL;
    }
    let interval = check.interval.as_ref().map_or(INTERVAL, |it| it.length());
    interval.max(SHORTEST_INTERVAL)
}

/// A threshold; one for checks that have a single result.
fn threshold(check: &Check, threshold: Option<i64>) -> i64 {
    threshold.filter(|_| is_measured(check)).unwrap_or(1).max(1)
}

fn in_a_row(message: String, times: i64) -> String {
    match times {
        1 => message,
        times => format!("{message} ({times} times in a row)"),
    }
}

/// A text of at most so many bytes.
fn shortened(text: &str, limit: usize) -> String {
    match text.len() <= limit {
        true => text.to_owned(),
        false => {
            let end = text.floor_char_boundary(limit - '…'.len_utf8());
            format!("{}…", &text[..end])
        }
    }
}
