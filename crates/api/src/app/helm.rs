//! HelmReleases of any API version.

use super::{AppReading, FluxHealth, why_unknown};
use crate::{
    Revision,
    flux::{HelmRelease, Release},
    revision::without_oci_digest,
};

pub(super) fn reading(app: &HelmRelease, generation: i64) -> AppReading {
    let status = &app.status;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let health = FluxHealth::of(conditions, status.observed_generation, generation);
    let deployed = deployed(&status.history);
    let version = deployed_version(app, deployed, health.is_ready);
    let revision = version.as_deref().and_then(Revision::new);
    let newest_is_deployed = status
        .history
        .first()
        .is_none_or(|release| is(release, "deployed"));
    let is_ready = health.is_ready && newest_is_deployed && !health.lagging;
    AppReading {
        ready: is_ready && revision.is_some(),
        failed: has_failed(app, &health, generation),
        error: (health.is_ready && revision.is_none())
            .then(|| why_no_release(app, version.as_deref())),
        version: revision
            .as_ref()
            .map(|revision| revision.as_str().to_owned()),
        revision,
        digest: deployed.and_then(|release| release.oci_digest.clone()),
        source_commit: None,
        attempted: attempted(app),
        lagging: health.lagging,
        suspended: app.spec.suspend,
        message: health.message,
    }
}

/// The release that is installed. After a failed upgrade it may already count as superseded.
fn deployed(history: &[Release]) -> Option<&Release> {
    let is_interrupted = |newest: &&Release| {
        is(newest, "failed") || is(newest, "pending-upgrade") || is(newest, "pending-rollback")
    };
    let found = history.iter().find(|release| is(release, "deployed"));
    found.or_else(|| {
        history.first().filter(is_interrupted)?;
        history.iter().find(|release| is(release, "superseded"))
    })
}

/// The chart version that is installed. The history says so where there is one; a version that
/// was only tried counts when the object is ready and names no other.
fn deployed_version(
    app: &HelmRelease,
    deployed: Option<&Release>,
    is_ready: bool,
) -> Option<String> {
    let status = &app.status;
    let text = match deployed {
        Some(release) => release.chart_version.as_ref(),
        None if !status.history.is_empty() => None,
        None => {
            let attempted = status.last_attempted_revision.as_ref().filter(|_| is_ready);
            status.last_applied_revision.as_ref().or(attempted)
        }
    };
    let digest = match deployed {
        Some(release) => release.oci_digest.as_deref(),
        None => status.last_attempted_revision_digest.as_deref(),
    };
    text.map(|text| chart_version(app, text, digest))
}

fn why_no_release(app: &HelmRelease, version: Option<&str>) -> String {
    if version.is_none() && !app.status.history.is_empty() {
        return "no release in its history is deployed".to_owned();
    }
    why_unknown(version)
}

fn attempted(app: &HelmRelease) -> Option<Revision> {
    let status = &app.status;
    let digest = status.last_attempted_revision_digest.as_deref();
    let newest = || {
        let newest = status.history.first();
        newest.filter(|it| is(it, "failed"))?.chart_version.as_ref()
    };
    let text = status.last_attempted_revision.as_ref().or_else(newest)?;
    Revision::new(&chart_version(app, text, digest))
}

/// Flux appends a digest only to charts that come from an OCI artifact; elsewhere what follows
/// the `+` is the chart's own.
fn chart_version(app: &HelmRelease, text: &str, digest: Option<&str>) -> String {
    let source = app.spec.chart_ref.as_ref();
    let is_artifact = source.is_some_and(|source| source.kind.as_deref() != Some("HelmChart"));
    let may_carry_digest = digest.is_some() || is_artifact;
    let version = if may_carry_digest {
        without_oci_digest(text, digest)
    } else {
        text
    };
    version.to_owned()
}

/// A failure counts only for the spec it happened with. The observed generation does not tell:
/// Flux leaves it behind while it retries.
fn has_failed(app: &HelmRelease, health: &FluxHealth, generation: i64) -> bool {
    let status = &app.status;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let tried = status
        .last_attempted_generation
        .is_none_or(|tried| tried >= generation);
    let is_true = |kind: &str| conditions.iter().any(|condition| condition.is_true(kind));
    // While it is undecided whether the app is ready, that is left from the attempt before.
    let is_undecided = conditions
        .iter()
        .any(|it| it.type_ == "Ready" && it.status == "Unknown");
    let is_remediated = is_true("Remediated") && !is_undecided;
    tried && (health.failed || is_remediated || attempt_failed(app))
}

/// Whether the newest release in the history failed and is the one that was attempted last: while the
/// next one is rolled out, the history still begins with the failure before it.
fn attempt_failed(app: &HelmRelease) -> bool {
    let Some(newest) = app.status.history.first().filter(|it| is(it, "failed")) else {
        return false;
    };
    let digest = newest.oci_digest.as_deref();
    let version = newest.chart_version.as_deref();
    let version = version.map(|text| chart_version(app, text, digest));
    let attempted = attempted(app);
    attempted.is_none_or(|attempted| Some(attempted.as_str()) == version.as_deref())
}

fn is(release: &Release, state: &str) -> bool {
    release.status.as_deref() == Some(state)
}
