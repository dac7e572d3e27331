//! Kustomizations of any API version.

use super::{AppReading, FluxHealth, why_unknown};
use crate::{
    Revision,
    flux::{Kustomization, ObjectReference},
    revision::SourceRevision,
};

pub(super) fn reading(app: &Kustomization, generation: i64) -> AppReading {
    let status = &app.status;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let health = FluxHealth::of(conditions, status.observed_generation, generation);
    let applied = status.last_applied_revision.as_deref();
    let revision = applied.and_then(self::revision);
    let source = applied
        .filter(|_| revision.is_some())
        .map(SourceRevision::parse);
    AppReading {
        ready: health.is_ready && !health.lagging && revision.is_some(),
        error: (health.is_ready && revision.is_none()).then(|| why_unknown(applied)),
        version: source
            .as_ref()
            .and_then(|source| version(source, &app.spec.source_ref)),
        digest: source.and_then(|source| source.digest()),
        source_commit: status
            .last_applied_origin_revision
            .as_deref()
            .and_then(source_commit),
        attempted: status
            .last_attempted_revision
            .as_deref()
            .and_then(self::revision),
        revision,
        lagging: health.lagging,
        failed: health.failed,
        suspended: app.spec.suspend,
        message: health.message,
    }
}

/// The digest, in whatever form Flux wrote it, else the text as it is.
fn revision(text: &str) -> Option<Revision> {
    let digest = SourceRevision::parse(text).content_digest();
    Revision::new(digest.as_deref().unwrap_or(text))
}

fn version(revision: &SourceRevision, source: &ObjectReference) -> Option<String> {
    match source.kind.as_deref() {
        Some("OCIRepository") => revision.oci_version(),
        Some("GitRepository") => revision.git_version().map(str::to_owned),
        _ => revision.version(),
    }
}

/// The git commit in a revision such as `main@sha1:…`.
pub fn source_commit(text: &str) -> Option<String> {
    let source = SourceRevision::parse(text);
    let commit = source.commit().map(str::to_owned);
    commit.filter(|_| source.content_digest().is_none())
}
