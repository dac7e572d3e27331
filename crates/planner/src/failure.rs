//! What a person must know about an environment whose release failed: what failed, since when, what still runs,
//! and what helps.

use api::{
    Pipeline, Time,
    pipeline::{EnvironmentStatus, PipelineSpec, PipelineStatus, TargetStatus},
    revision::identity,
};

use crate::{
    release::{failed_revision, failure_message},
    requests::previous_revision,
    validity, version_order,
};

/// The failed release of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentFailure<'a> {
    /// The revision that failed, the newest where several did.
    pub revision: &'a str,
    /// When that was first seen.
    pub since: Option<&'a Time>,
    /// The message of the app.
    pub message: Option<&'a str>,
    /// How many targets failed, and how many there are.
    pub targets: (usize, usize),
    /// The other revisions that targets still run, as they are shown.
    pub still_runs: Vec<String>,
    /// What a rollback goes back to, where Sluice can write to the environment.
    pub rollback: Option<&'a str>,
    is_written: bool,
}

impl EnvironmentFailure<'_> {
    /// What resolves it, as sentences.
    pub fn advice(&self) -> String {
        let fix = "Push a fix: a newer revision replaces the failed one.";
        match self.rollback {
            Some(earlier) => format!("Roll back to {earlier}, or push a fix."),
            None if self.is_written => fix.to_owned(),
            None => format!("{fix} Or revert the change in git: Sluice does not write here."),
        }
    }
}

/// What failed in an environment; nothing where no release fails now.
pub fn environment_failure<'a>(
    pipeline: &Pipeline,
    model: &'a PipelineStatus,
    environment: &str,
) -> Option<EnvironmentFailure<'a>> {
    let status = model.environments.get(environment)?;
    let failed = status.targets.iter().filter_map(failed_revision);
    let revision = failed.max_by(|one, other| version_order::total(one, other))?;
    let is_it = |it: &&TargetStatus| failed_revision(it) == Some(revision);
    let there: Vec<_> = status.targets.iter().filter(is_it).collect();
    let is_written = is_written(&pipeline.spec, environment);
    Some(EnvironmentFailure {
        revision,
        since: failed_since(status, revision),
        message: there.iter().find_map(|it| failure_message(it)),
        targets: (there.len(), status.targets.len()),
        still_runs: still_runs(status, revision),
        rollback: previous_revision(model, environment).filter(|_| is_written),
        is_written,
    })
}

/// Whether Sluice has a strategy to change the environment by.
fn is_written(spec: &PipelineSpec, environment: &str) -> bool {
    let settings = spec.promotion_into(environment);
    settings.is_some_and(|it| !validity::strategies(&it.strategy).is_empty())
}

fn failed_since<'a>(status: &'a EnvironmentStatus, revision: &str) -> Option<&'a Time> {
    let mut failures = status.failures.iter();
    let failure = failures.find(|it| identity(&it.revision) == identity(revision))?;
    failure.at.as_ref()
}

fn still_runs(status: &EnvironmentStatus, failed: &str) -> Vec<String> {
    let targets = status.targets.iter();
    let others = targets.filter(|it| it.revision.as_deref() != Some(failed));
    let mut running: Vec<_> = others.filter_map(TargetStatus::shown_revision).collect();
    running.sort_by(|one, other| version_order::total(other, one));
    running.dedup();
    running
}
