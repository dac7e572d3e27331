//! Folds reports of webhooks into the state of targets that cannot be read.
//!
//! An event counts as a deployment only when it says that one succeeded. For a target that should be
//! read and cannot be, a report counts that is newer than what was last read.

use api::{
    Time,
    app::AppType,
    pipeline::{Evidence, PipelineSpec, Report, ReportedRevision, TargetStatus},
    revision::{SourceRevision, identity, tag, without_oci_digest},
};

use super::{FoldContext, LONGEST_TEXT};
use crate::{conditions::cut, observation::ObservedTarget, site::target_report_key, time::stored};

/// The error of a target whose Flagger Canary a report cannot replace.
const CANARY_UNKNOWN: &str = "its Flagger Canary cannot be read while the target cannot be";

/// What a report means for its app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportMeaning {
    /// The revision runs.
    Deployed,
    /// The revision failed, or the app was uninstalled or rolled back.
    Failed,
    /// A deployment is under way; the previous revision may still run.
    UnderWay,
}

impl ReportMeaning {
    pub(crate) fn of(report: &Report) -> Self {
        let reason = report.reason.as_deref().unwrap_or_default();
        let is_error = report.severity.as_deref() == Some("error");
        let is_retreat = matches!(reason, "UninstallSucceeded" | "RollbackSucceeded");
        if is_error || is_retreat || reason.ends_with("Failed") {
            return Self::Failed;
        }
        if matches!(reason, "HelmChartCreated" | "Progressing") || reason.ends_with("NotReady") {
            return Self::UnderWay;
        }
        Self::Deployed
    }
}

impl FoldContext<'_> {
    /// The report that replaces reading the target, if there is one.
    pub(super) fn report(
        &self,
        environment: &str,
        seen: &ObservedTarget,
        known: Option<&TargetStatus>,
        unreadable_since: Option<&Time>,
    ) -> Option<&Report> {
        if !seen.state.is_not_readable() || self.reports_name_another_revision() {
            return None;
        }
        let cluster = seen.cluster.as_ref();
        let key = target_report_key(environment, cluster, &seen.namespace, self.namespace());
        let report = self.before.reports.get(&key)?;
        let is_newer = || unreadable_since.is_some_and(|since| self.is_newer(report, known, since));
        (self.trusts(report) && (seen.relies_on_reports || is_newer())).then_some(report)
    }

    /// Whether a report is newer than what was last read of the target.
    fn is_newer(&self, report: &Report, known: Option<&TargetStatus>, since: &Time) -> bool {
        let Some(at) = &report.at else { return false };
        if at >= since {
            return true;
        }
        let Some(known) = known else { return false };
        // The connection may have been lost some time before that was noticed.
        let (revision, _) = revision_and_version(&self.pipeline.spec, &report.revision);
        let is_later = known.ready_since.as_ref().is_some_and(|since| at > since);
        known.source == Some(Evidence::Report)
            || is_later && known.revision.as_ref() != Some(&revision)
    }

    /// The state of a target by a report.
    pub(super) fn reported_target(
        &self,
        report: &Report,
        blank: TargetStatus,
        known: Option<&TargetStatus>,
    ) -> TargetStatus {
        let blank = TargetStatus {
            source: Some(Evidence::Report),
            follows: known.and_then(|known| known.follows.clone()),
            apps: known.map(|known| known.apps.clone()).unwrap_or_default(),
            ..blank
        };
        let before = known.cloned().unwrap_or_else(|| blank.clone());
        let (revision, version) = revision_and_version(&self.pipeline.spec, &report.revision);
        match ReportMeaning::of(report) {
            ReportMeaning::Deployed if awaits_canary(&blank, &revision) => TargetStatus {
                revision: Some(revision),
                version: Some(version),
                error: Some(CANARY_UNKNOWN.to_owned()),
                ..blank
            },
            ReportMeaning::Deployed => TargetStatus {
                ready: true,
                ready_since: Some(self.ready_since(Some(&revision), known)),
                revision: Some(revision),
                version: Some(version),
                ..blank
            },
            ReportMeaning::Failed => TargetStatus {
                revision: before.revision,
                version: before.version,
                failed: Some(revision),
                failed_because: report.message.as_deref().map(|it| cut(it, LONGEST_TEXT)),
                ..blank
            },
            ReportMeaning::UnderWay => TargetStatus {
                revision: before.revision,
                version: before.version,
                ready_since: before.ready_since.clone(),
                ready: before.ready_since.is_some(),
                ..blank
            },
        }
    }

    /// Whether events are about another revision than the one that is compared: Flux's events name
    /// the chart or the source, and `track` compares the image.
    pub(super) fn reports_name_another_revision(&self) -> bool {
        let spec = &self.pipeline.spec;
        let app = spec.app_ref.clone().unwrap_or_default();
        let kind = AppType::of(&app.api_version, &app.kind);
        spec.track.is_some()
            && matches!(
                kind,
                AppType::HelmRelease | AppType::Kustomization | AppType::ResourceSet
            )
    }

    fn trusts(&self, report: &Report) -> bool {
        report.signed || self.trusts_unsigned
    }
}

/// Whether an app of the target has Flagger's Canaries that have not let the revision pass yet.
fn awaits_canary(target: &TargetStatus, revision: &str) -> bool {
    let mut canaries = target.apps.iter().filter_map(|app| app.canary.as_ref());
    canaries.any(|canary| canary.promoted.as_deref() != Some(revision))
}

/// The revision that a report names, as apps of that kind have it, and what to write to git for it.
pub(crate) fn revision_and_version(spec: &PipelineSpec, text: &str) -> (String, String) {
    let app = spec.app_ref.clone().unwrap_or_default();
    match AppType::of(&app.api_version, &app.kind) {
        AppType::HelmRelease => {
            let version = without_oci_digest(text, None);
            (version.to_owned(), version.to_owned())
        }
        AppType::Kustomization if spec.track.is_none() => {
            let source = SourceRevision::parse(text);
            let digest = source.content_digest();
            (
                digest.unwrap_or_else(|| text.to_owned()),
                source.version().unwrap_or_else(|| text.to_owned()),
            )
        }
        _ => (identity(text).to_owned(), tag(text).to_owned()),
    }
}

/// What a report that names no target says about an environment.
pub(super) fn environment(
    report: &Report,
    known: Option<&ReportedRevision>,
    context: &FoldContext<'_>,
) -> Option<ReportedRevision> {
    if !context.trusts(report) {
        return None;
    }
    match ReportMeaning::of(report) {
        ReportMeaning::Failed => None,
        ReportMeaning::UnderWay => known.cloned(),
        ReportMeaning::Deployed => {
            let (revision, _) = revision_and_version(&context.pipeline.spec, &report.revision);
            let since = known
                .filter(|known| known.revision == revision)
                .and_then(|known| known.ready_since.clone());
            Some(ReportedRevision {
                revision,
                ready_since: since.or_else(|| Some(stored(context.now))),
            })
        }
    }
}
