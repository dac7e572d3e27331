//! Kustomizations of any API version.

use super::{Health, Reading, why_unknown};
use crate::{
    Revision,
    flux::{Kustomization, ObjectReference},
    revision::SourceRevision,
};

pub(super) fn reading(app: &Kustomization, generation: i64) -> Reading {
    let status = &app.status;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let health = Health::of(conditions, status.observed_generation, generation);
    let revision = status
        .last_applied_revision
        .as_deref()
        .and_then(Revision::new);
    let source = revision
        .as_ref()
        .map(|revision| SourceRevision::parse(revision.as_str()));
    Reading {
        ready: health.is_ready && !health.lagging && revision.is_some(),
        error: (health.is_ready && revision.is_none())
            .then(|| why_unknown(status.last_applied_revision.as_deref())),
        version: source
            .as_ref()
            .and_then(|source| version(source, &app.spec.source_ref)),
        digest: source.and_then(|source| source.digest()),
        attempted: status
            .last_attempted_revision
            .as_deref()
            .and_then(Revision::new),
        revision,
        lagging: health.lagging,
        failed: health.failed,
        suspended: app.spec.suspend,
        message: health.message,
    }
}

fn version(revision: &SourceRevision, source: &ObjectReference) -> Option<String> {
    match source.kind.as_deref() {
        Some("OCIRepository") => revision.oci_version(),
        _ => revision.git_version().map(str::to_owned),
    }
}
