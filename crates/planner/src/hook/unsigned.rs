//! Reports that do not count because they are not signed.

use api::{
    Pipeline,
    pipeline::{PipelineStatus, Report, TargetStatus},
};

use super::secret::report_secret;
use crate::{
    evidence::needs_reports,
    fold::{ReportMeaning, revision_and_version},
    site::{cluster_of_status, environment_report_key, is_report_of, target_report_key},
};

/// Whether an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureTrust {
    /// It carries a valid signature.
    Signed,
    /// It carries none and counts all the same.
    UnsignedCounts,
    /// It carries none and is stored, but never evidence.
    UnsignedIgnored,
}

/// Whether a report under a key would be the evidence for some target of the environment.
pub(super) fn would_count(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    environment: &str,
    key: &str,
) -> bool {
    let mut targets = targets_of(pipeline, model, environment, key);
    targets.any(needs_reports)
}

/// The newest report of an environment that does not count for want of a signature.
pub(crate) fn unsigned_report<'a>(
    pipeline: &Pipeline,
    model: &'a PipelineStatus,
    environment: &str,
) -> Option<&'a Report> {
    let reports = model.reports.iter().filter(|(key, report)| {
        let is_deployment = ReportMeaning::of(report) == ReportMeaning::Deployed;
        !report.signed && is_deployment && is_report_of(key, environment)
    });
    let ignored = reports.filter(|(key, report)| {
        would_count(pipeline, model, environment, key)
            && !has_counted(pipeline, model, environment, (key, report))
    });
    let reports = ignored.map(|(_, report)| report);
    reports.max_by_key(|report| report.at.as_ref().map(|at| at.0))
}

/// Whether the status already has what a report says. Then unsigned reports are trusted.
fn has_counted(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    environment: &str,
    (key, report): (&str, &Report),
) -> bool {
    let (revision, _) = revision_and_version(&pipeline.spec, &report.revision);
    let status = model.environments.get(environment);
    let reported = status.and_then(|status| status.reported.as_ref());
    if key == environment_report_key(environment) {
        return reported.is_some_and(|reported| reported.revision == revision);
    }
    let mut targets = targets_of(pipeline, model, environment, key);
    targets.any(|target| target.revision.as_ref() == Some(&revision))
}

/// The targets that a report under a key is about.
fn targets_of<'a>(
    pipeline: &'a Pipeline,
    model: &'a PipelineStatus,
    environment: &'a str,
    key: &'a str,
) -> impl Iterator<Item = &'a TargetStatus> {
    let home = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let status = model.environments.get(environment);
    let targets = status.into_iter().flat_map(|status| &status.targets);
    targets.filter(move |target| {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let own = target_report_key(environment, cluster_of_status(target), namespace, home);
        key == environment_report_key(environment) || key == own
    })
}

/// What makes reports of an environment count, as a clause.
pub(crate) fn how_to_sign(pipeline: &Pipeline, environment: &str) -> String {
    let provider = "a Provider of type generic-hmac";
    let how = match report_secret(&pipeline.spec, environment) {
        Some(secret) => format!("{provider} with `hmac-key` of the Secret {}", secret.name),
        None => format!(
            "a Secret with `hmac-key` that spec.promotion.strategy.secretRef names, and {provider}"
        ),
    };
    format!("{how}; or --allow-unsigned-reports")
}
