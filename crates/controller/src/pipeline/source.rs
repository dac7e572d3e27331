//! What a pipeline's source proposes, where that is an object on the hub. It is watched like an app.

use api::{
    Pipeline, Revision,
    app::AppType,
    flux::{IMAGE_GROUP, SOURCE_GROUP},
    pipeline::{PipelineSpec, SourceKind},
    revision::{SourceRevision, without_oci_digest},
};
use planner::ObservedSource;

use crate::{
    PipelineReconciler,
    apps::{AppLookup, WatchState},
    index::RequiredApp,
    keys::{AppKind, ClusterKey},
};
use runtime::ObjectKey;

/// What has to be watched for a pipeline's source.
pub(super) fn required_app(pipeline: &Pipeline) -> Option<RequiredApp> {
    let source = pipeline.spec.source.as_ref()?;
    Some(RequiredApp {
        cluster: ClusterKey::Hub,
        kind: app_kind(source.kind)?,
        namespace: ObjectKey::of(&pipeline.metadata).namespace,
        name: Some(source.name.clone()?),
    })
}

fn app_kind(kind: SourceKind) -> Option<AppKind> {
    let group = match kind {
        SourceKind::HelmChart | SourceKind::OCIRepository | SourceKind::GitRepository => {
            SOURCE_GROUP
        }
        SourceKind::ImagePolicy => IMAGE_GROUP,
        SourceKind::Hook => return None,
    };
    Some(AppKind::new(group, &format!("{kind:?}")))
}

/// What the source of a pipeline proposes.
pub(super) fn observe(reconciler: &PipelineReconciler, pipeline: &Pipeline) -> ObservedSource {
    let Some(want) = required_app(pipeline) else {
        return ObservedSource::NotQueried;
    };
    let name = want.name.as_deref().unwrap_or_default();
    let look = reconciler
        .apps
        .find(&want.cluster, &want.kind, &want.namespace, name);
    let kind = &want.kind;
    let nothing = |because: String| ObservedSource::Nothing { because };
    let found = match look {
        AppLookup::Found(found) => found.into_iter().next(),
        AppLookup::Unknown(WatchState::KindMissing) => {
            return nothing(format!("the hub does not know {kind}"));
        }
        AppLookup::Unknown(WatchState::Forbidden(because) | WatchState::Failing(because)) => {
            return nothing(format!("{kind} {name} cannot be read: {because}"));
        }
        AppLookup::Unknown(WatchState::Starting | WatchState::Synced) => {
            return ObservedSource::NotQueried;
        }
    };
    let Some((_, record)) = found else {
        return nothing(format!("there is no {kind} {name} in {}", want.namespace));
    };
    let reading = &record.reading;
    match &reading.revision {
        // What it has is not what it is asked for now.
        _ if reading.lagging => ObservedSource::NotQueried,
        Some(revision) => {
            let version = reading.version.as_deref().unwrap_or(revision.as_str());
            let signature = record.signature.as_deref();
            let signed = signature.and_then(|it| it.about(reading)) == Some(true);
            proposes(&pipeline.spec, (revision.as_str(), version), signed)
        }
        None => nothing(format!("{kind} {name} has nothing yet")),
    }
}

/// The revision as the app will show it, and what to write to git for it, given both as the source
/// says them.
fn proposes(
    spec: &PipelineSpec,
    (revision, version): (&str, &str),
    signed: bool,
) -> ObservedSource {
    let kind = spec.source.as_ref().map(|source| source.kind);
    let app = spec.app_ref.clone().unwrap_or_default();
    let is_chart = AppType::of(&app.api_version, &app.kind) == AppType::HelmRelease;
    let (revision, version) = match kind {
        _ if spec.track.is_some() => (revision, version.to_owned()),
        Some(SourceKind::HelmChart) => {
            let chart = without_oci_digest(revision, None);
            (chart, chart.to_owned())
        }
        Some(SourceKind::OCIRepository) if is_chart => (version, version.to_owned()),
        Some(SourceKind::GitRepository) => {
            let source = SourceRevision::parse(revision);
            (revision, source.git_version().unwrap_or(version).to_owned())
        }
        _ => (revision, version.to_owned()),
    };
    match Revision::new(revision) {
        Some(revision) => ObservedSource::Proposes {
            version,
            revision,
            signed,
        },
        None => ObservedSource::Nothing {
            because: "its revision is too long or not printable".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use api::revision::identity;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_source_proposes_what_the_app_will_show() {
        let helm = ("helm.toolkit.fluxcd.io/v2", "HelmRelease");
        let kustomize = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
        let workload = ("apps/v1", "Deployment");
        let sha = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";
        let git = format!("main@sha1:{sha}");
        for (app, source, text, revision, version) in [
            (helm, "HelmChart", "6.5.0+0123456789ab", "6.5.0", "6.5.0"),
            (helm, "OCIRepository", "6.5.0@sha256:abc", "6.5.0", "6.5.0"),
            (kustomize, "GitRepository", &*git, &*git, sha),
            (
                kustomize,
                "OCIRepository",
                "v1@sha256:abc",
                "sha256:abc",
                "v1",
            ),
            (workload, "ImagePolicy", "6.5.0", "6.5.0", "6.5.0"),
            (
                workload,
                "ImagePolicy",
                "6.5.0@sha256:abc",
                "sha256:abc",
                "6.5.0",
            ),
        ] {
            let spec = json!({
                "appRef": {"apiVersion": app.0, "kind": app.1, "name": "app"},
                "source": {"kind": source, "name": "app"},
            });
            let spec = serde_json::from_value(spec).expect("a spec");
            let expected = ObservedSource::Proposes {
                revision: Revision::new(revision).expect("a revision"),
                version: version.to_owned(),
                signed: true,
            };
            let (has, tag) = (identity(text), api::revision::tag(text));
            assert_eq!(proposes(&spec, (has, tag), true), expected, "{source}");
        }
    }
}
