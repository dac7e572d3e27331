//! Which check run a reported result is for, and whether it may be stored.

use std::fmt;

use api::{
    CheckRun,
    check_run::{CheckCause, CheckResult, CheckVerdict},
    pipeline::{Check, PipelineSpec},
    revision::identity,
};

use crate::time::Timestamp;

/// The longest message of a result, in bytes.
const MAX_MESSAGE: usize = 1024;
/// The longest URL of a result, in bytes.
const MAX_URL: usize = 2048;

/// A result that somebody reports.
#[derive(Clone, Copy, Debug)]
pub struct ReportedCheck<'a> {
    /// The name of the pipeline.
    pub pipeline: &'a str,
    /// The environment.
    pub environment: &'a str,
    /// The name of the check.
    pub check: &'a str,
    /// The revision that was checked; the one that waits where it is not given.
    pub revision: Option<&'a str>,
    /// When the call was signed and the digest of what was signed, if it was.
    pub signature: Option<(Timestamp, &'a str)>,
}

/// Why a result is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckReportRefusal {
    /// No check run waits for it.
    NoCheckRun,
    /// The revision is not given, and several are checked.
    SeveralRevisions,
    /// A result is stored already.
    Reported,
    /// The check run has ended without a result.
    Ended,
    /// The call was signed before the check run was created.
    SignedBefore,
    /// The result cannot be stored as it is.
    Invalid(&'static str),
}

impl fmt::Display for CheckReportRefusal {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(match self {
            Self::NoCheckRun => "no external check of that name and revision waits for a result",
            Self::SeveralRevisions => "several revisions are checked; say which one",
            Self::Reported => "a result is stored already; to check again, retry the check",
            Self::Ended => "the check has ended; to check again, retry it",
            Self::SignedBefore => {
                "the signature is older than the check run; check the clock and sign the call again"
            }
            Self::Invalid(why) => why,
        })
    }
}

/// The Secret with the key of an external check.
pub fn check_secret<'a>(spec: &'a PipelineSpec, check: &str) -> Option<&'a str> {
    let check = spec.checks.iter().find(|it| it.name == check)?;
    let reference = check.external.as_ref()?.secret_ref.as_ref()?;
    Some(&reference.name)
}

/// The check run that a result is for: the newest attempt for the revision. If the same check is asked before
/// the revision enters the environment and after it has arrived, the one that waits.
pub fn reported_run<'a>(
    runs: &'a [CheckRun],
    reported: &ReportedCheck<'_>,
) -> Result<&'a CheckRun, CheckReportRefusal> {
    let meant: Vec<&CheckRun> = runs.iter().filter(|run| is_meant(run, reported)).collect();
    let revision = meant.first().map(|run| &run.spec.revision);
    if meant.iter().any(|run| Some(&run.spec.revision) != revision) {
        return Err(CheckReportRefusal::SeveralRevisions);
    }
    if meant.iter().any(|run| is_stored_in(run, reported)) {
        return Err(CheckReportRefusal::Reported);
    }
    let newest_of = |cause: CheckCause| {
        let of_cause = meant.iter().filter(|run| run.spec.cause == cause);
        of_cause.max_by_key(|run| run.spec.attempt).copied()
    };
    let causes = [CheckCause::Promotion, CheckCause::Verify];
    let asked = causes.into_iter().filter_map(newest_of);
    let mut asked = asked.map(|run| refuse_run(run, reported).map_or(Ok(run), Err));
    let first = asked.next().unwrap_or(Err(CheckReportRefusal::NoCheckRun));
    first.or_else(|refusal| asked.next().and_then(Result::ok).ok_or(refusal))
}

fn is_meant(run: &CheckRun, reported: &ReportedCheck<'_>) -> bool {
    let spec = &run.spec;
    let is_revision = |asked: &str| spec.revision == asked || spec.version == asked;
    spec.pipeline == reported.pipeline
        && spec.environment == reported.environment
        && spec.check.name == reported.check
        && spec.check.external.is_some()
        && is_ours(run)
        && reported.revision.map(identity).is_none_or(is_revision)
}

/// Whether a result of the same signed call is stored.
fn is_stored_in(run: &CheckRun, reported: &ReportedCheck<'_>) -> bool {
    let stored = run.spec.result.as_ref();
    let stored = stored.and_then(|result| result.signature.as_deref());
    reported
        .signature
        .is_some_and(|(_, digest)| stored == Some(digest))
}

/// Why a check run takes no result.
fn refuse_run(run: &CheckRun, reported: &ReportedCheck<'_>) -> Option<CheckReportRefusal> {
    if run.spec.result.is_some() {
        return Some(CheckReportRefusal::Reported);
    }
    let verdict = run.status.as_ref().map(|status| status.verdict);
    if verdict == Some(CheckVerdict::Failed) {
        return Some(CheckReportRefusal::Ended);
    }
    let created = run.metadata.creation_timestamp.as_ref();
    // A later attempt can begin in the second in which the result of the one before was signed.
    let earliest = i64::from(run.spec.attempt > 0);
    let was_there =
        |at: Timestamp| created.is_none_or(|it| it.0.as_second() + earliest <= at.as_second());
    let signed = reported.signature;
    (!signed.is_none_or(|(at, _)| was_there(at))).then_some(CheckReportRefusal::SignedBefore)
}

/// Refuses a result that cannot be stored or shown.
pub fn refuse_result(result: &CheckResult) -> Result<(), CheckReportRefusal> {
    let message = result.message.as_deref().unwrap_or_default();
    let is_text = |c: char| !c.is_control() || c == '\n';
    if message.len() > MAX_MESSAGE || !message.chars().all(is_text) {
        let why = "message must be plain text of at most 1024 bytes";
        return Err(CheckReportRefusal::Invalid(why));
    }
    let Some(url) = result.url.as_deref() else {
        return Ok(());
    };
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
    match is_web && url.len() <= MAX_URL && url.chars().all(is_plain) {
        true => Ok(()),
        false => Err(CheckReportRefusal::Invalid(
            "url must be a URL with http or https",
        )),
    }
}

/// Whether a check run has the name that the controller gives it.
fn is_ours(run: &CheckRun) -> bool {
    run.metadata.name.as_deref() == Some(&api::names::check_run_name(&run.spec))
}

/// The names of the external checks of a pipeline.
pub fn external_checks(spec: &PipelineSpec) -> Vec<&str> {
    let is_external = |check: &&Check| check.external.is_some();
    spec.checks
        .iter()
        .filter(is_external)
        .map(|it| it.name.as_str())
        .collect()
}
