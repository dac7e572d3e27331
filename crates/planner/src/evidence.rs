//! How the state of a target is known: by reading the cluster, or by what webhooks reported.

use api::pipeline::{Evidence, TargetProblem, TargetStatus};

/// Whether the state comes from reports only, because Sluice is configured not to read clusters.
pub(crate) fn relies_on_reports(target: &TargetStatus) -> bool {
    target.source == Some(Evidence::Report) && target.unreadable_since.is_none()
}

/// Whether reports replace reading the target. Then it does not matter that it cannot be read.
pub fn is_reported(target: &TargetStatus) -> bool {
    target.source == Some(Evidence::Report) && needs_reports(target)
}

/// Whether only reports would tell the state, and none has come.
pub(crate) fn is_silent(target: &TargetStatus) -> bool {
    let is_known = target.revision.is_some() || target.failed.is_some();
    relies_on_reports(target) && needs_reports(target) && !is_known
}

/// Whether a report counts, because the target cannot be read otherwise.
pub(crate) fn needs_reports(target: &TargetStatus) -> bool {
    let is_unreadable = target.unreadable_since.is_some();
    let is_refused = target.problem == Some(TargetProblem::Forbidden) && !is_unreadable;
    (is_unreadable || relies_on_reports(target)) && !is_refused
}
