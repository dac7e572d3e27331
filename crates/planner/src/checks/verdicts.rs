//! How the checks of a revision in an environment stand, as the status has it.

use api::{
    Time,
    check_run::{CheckCause, CheckVerdict},
    pipeline::{
        CheckStatus, Environment, EnvironmentStatus, PipelineSpec, PipelineStatus, RanRevision,
    },
    promotion::CheckSummary,
};
use serde::Serialize;

use crate::{
    hold::list,
    time::{Timestamp, stored},
};

/// How the checks that a revision needs stand, in the order of the spec.
pub(crate) struct CheckStates<'a>(Vec<CheckState<'a>>);

/// How one check stands.
#[derive(Clone, Copy)]
pub(crate) struct CheckState<'a> {
    pub(crate) check: &'a str,
    /// Its newest attempt; none while there is no CheckRun.
    pub(crate) status: Option<&'a CheckStatus>,
}

impl CheckState<'_> {
    pub(crate) fn verdict(&self) -> CheckVerdict {
        self.status.map(|it| it.verdict).unwrap_or_default()
    }

    /// The check and what is known about it, for people.
    fn described(&self) -> String {
        let check = self.check;
        let message = self.status.and_then(|it| it.message.as_deref());
        let because = message.map(|it| format!(": {it}")).unwrap_or_default();
        match self.verdict() {
            CheckVerdict::Pending => format!("{check} has not started"),
            CheckVerdict::Running => format!("{check} is running"),
            CheckVerdict::Passed => format!("{check} passed"),
            CheckVerdict::Failed => format!("{check} failed{because}"),
            CheckVerdict::Error => format!("{check} cannot be measured{because}"),
        }
    }
}

impl<'a> CheckStates<'a> {
    /// The checks of `verify` for a revision.
    pub(crate) fn verify(
        spec: &'a PipelineSpec,
        environment: &str,
        status: Option<&'a EnvironmentStatus>,
        revision: &str,
    ) -> Self {
        let names = spec.verify_checks(environment);
        Self::new(names, CheckCause::Verify, status, revision)
    }

    /// The checks of `promotion.checks` for a revision.
    pub(crate) fn promotion(
        names: &'a [String],
        status: Option<&'a EnvironmentStatus>,
        revision: &str,
    ) -> Self {
        Self::new(names, CheckCause::Promotion, status, revision)
    }

    fn new(
        names: &'a [String],
        cause: CheckCause,
        status: Option<&'a EnvironmentStatus>,
        revision: &str,
    ) -> Self {
        let known = status.map(|it| it.checks.as_slice()).unwrap_or_default();
        let state = |check: &'a String| {
            let is_it = |it: &&CheckStatus| {
                it.check == *check && it.cause == cause && it.revision == revision
            };
            CheckState {
                check,
                status: known.iter().find(is_it),
            }
        };
        Self(names.iter().map(state).collect())
    }

    /// The checks without those that something else lets pass.
    pub(crate) fn without(mut self, passes: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|state| !passes(state.check));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every check passed.
    pub(crate) fn have_passed(&self) -> bool {
        let mut states = self.0.iter();
        states.all(|state| state.verdict() == CheckVerdict::Passed)
    }

    /// The first check that failed.
    pub(crate) fn failed(&self) -> Option<CheckState<'a>> {
        let mut states = self.0.iter();
        states
            .find(|it| it.verdict() == CheckVerdict::Failed)
            .copied()
    }

    /// Whether checks have yet to end, and none has failed.
    pub(crate) fn are_open(&self) -> bool {
        let is_open = |it: &CheckState<'_>| {
            matches!(it.verdict(), CheckVerdict::Pending | CheckVerdict::Running)
        };
        self.failed().is_none() && self.0.iter().any(is_open)
    }

    /// What keeps the revision from having passed, for people.
    pub(crate) fn open(&self) -> String {
        let open = self.0.iter();
        let open = open.filter(|it| it.verdict() != CheckVerdict::Passed);
        list(&open.map(CheckState::described).collect::<Vec<_>>())
    }

    fn summaries(&self, cause: CheckCause) -> impl Iterator<Item = CheckSummary> {
        self.0.iter().map(move |state| CheckSummary {
            check: state.check.to_owned(),
            cause,
            verdict: state.verdict(),
        })
    }
}

impl CheckState<'_> {
    /// Why it failed, for people: `errors failed: …`.
    pub(crate) fn failure(&self) -> String {
        self.described()
    }
}

/// The verdicts of all checks about a revision that is to enter an environment, or has.
pub(crate) fn summary(
    spec: &PipelineSpec,
    environment: &str,
    status: Option<&EnvironmentStatus>,
    revision: &str,
) -> Vec<CheckSummary> {
    let settings = spec.promotion_into(environment);
    let names = settings.map(|it| it.checks.as_slice()).unwrap_or_default();
    let before = CheckStates::promotion(names, status, revision);
    let after = CheckStates::verify(spec, environment, status, revision);
    let before = before.summaries(CheckCause::Promotion);
    before.chain(after.summaries(CheckCause::Verify)).collect()
}

/// How a check of a revision stands in an environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckProgress {
    /// The environment.
    pub environment: String,
    /// The check.
    pub check: String,
    /// Why it is checked there.
    pub cause: CheckCause,
    /// The verdict.
    pub verdict: CheckVerdict,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Where people read more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// How the checks of a revision stand that is to enter an environment: those of the environments that it
/// has reached, and those before it enters.
pub(crate) fn progress(
    spec: &PipelineSpec,
    model: &PipelineStatus,
    into: &str,
    revision: &str,
) -> Vec<CheckProgress> {
    let mut all = Vec::new();
    for environment in &spec.environments {
        let status = model.environments.get(&environment.name);
        if environment.name == into {
            let settings = spec.promotion_into(into);
            let names = settings.map(|it| it.checks.as_slice()).unwrap_or_default();
            let states = CheckStates::promotion(names, status, revision);
            all.extend(states.progress(environment, CheckCause::Promotion, None));
            continue;
        }
        let mut ran = status.into_iter().flat_map(|it| &it.ran);
        if let Some(ran) = ran.find(|it| it.revision == revision) {
            let states = CheckStates::verify(spec, &environment.name, status, revision);
            all.extend(states.progress(environment, CheckCause::Verify, Some(ran)));
        }
    }
    all
}

impl CheckStates<'_> {
    /// Where a check has no CheckRun any more, the history says whether the revision passed.
    fn progress(
        &self,
        environment: &Environment,
        cause: CheckCause,
        ran: Option<&RanRevision>,
    ) -> impl Iterator<Item = CheckProgress> {
        let passed_at = ran.and_then(|it| it.checked_at.clone());
        let failed = ran.and_then(|it| it.failed_check.as_deref());
        self.0.iter().map(move |state| {
            let verdict = match state.status {
                Some(status) => status.verdict,
                None if failed == Some(state.check) => CheckVerdict::Failed,
                None if passed_at.is_some() => CheckVerdict::Passed,
                None => CheckVerdict::Pending,
            };
            let at = state.status.and_then(|it| it.at.clone());
            CheckProgress {
                environment: environment.name.clone(),
                check: state.check.to_owned(),
                cause,
                verdict,
                message: state.status.and_then(|it| it.message.clone()),
                at: at.or_else(|| passed_at.clone()),
                url: state.status.and_then(|it| it.url.clone()),
            }
        })
    }
}

/// Records in the history of an environment which revisions passed its checks, and which failed one. A
/// failure takes back that it passed.
pub(crate) fn remember(
    ran: &mut [RanRevision],
    spec: &PipelineSpec,
    environment: &str,
    status: &EnvironmentStatus,
    now: Timestamp,
) {
    for entry in ran {
        let states = CheckStates::verify(spec, environment, Some(status), &entry.revision);
        if states.is_empty() {
            continue;
        }
        if let Some(failed) = states.failed() {
            entry.checked_at = None;
            entry.failed_check = Some(failed.check.to_owned());
        } else if states.have_passed() {
            entry.failed_check = None;
            entry.checked_at = entry.checked_at.take().or(Some(stored(now)));
        }
    }
}
