//! Reads revision, version and readiness of an app from its object.
//!
//! One function for every kind and API version. An app whose controller has not observed its newest spec,
//! whose last release failed, or that is being deleted is not ready.

mod generic;
mod helm;
mod kustomization;
mod resource_set;
mod workload;

pub use resource_set::{
    AppliedApp, GROUP as RESOURCE_SET_GROUP, KIND as RESOURCE_SET_KIND, applied_apps,
};

use kube::core::DynamicObject;
use serde_json::Value;

pub use kustomization::source_commit;

use crate::{
    Revision, flux,
    third_party::{StatusCondition, read as read_fields},
    workload as workloads,
};

/// What the object of an app says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppReading {
    /// The revision it runs.
    pub revision: Option<Revision>,
    /// What to write to git to get that revision.
    pub version: Option<String>,
    /// The digest of what it runs, where the object has it.
    pub digest: Option<String>,
    /// The commit of the source code that its artifact was built from, where that says so.
    pub source_commit: Option<String>,
    /// The revision last tried, whether or not it runs.
    pub attempted: Option<Revision>,
    /// Whether it is ready at the revision.
    pub ready: bool,
    /// Whether its controller has not observed its newest spec yet.
    pub lagging: bool,
    /// Whether the last try of its newest spec failed.
    pub failed: bool,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Its message.
    pub message: Option<String>,
    /// Why its revision could not be read.
    pub error: Option<String>,
}

/// The types of apps that are read in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppType {
    /// Flux's HelmRelease.
    HelmRelease,
    /// Flux's Kustomization.
    Kustomization,
    /// Flux Operator's ResourceSet.
    ResourceSet,
    /// A Deployment, StatefulSet or DaemonSet.
    Workload(workloads::WorkloadKind),
    /// Anything else that has conditions and a `lastAppliedRevision`.
    Other,
}

impl AppType {
    /// The kind of an object of any API version.
    pub fn of(api_version: &str, kind: &str) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            (flux::HELM_GROUP, "HelmRelease") => Self::HelmRelease,
            (flux::KUSTOMIZE_GROUP, "Kustomization") => Self::Kustomization,
            (resource_set::GROUP, resource_set::KIND) => Self::ResourceSet,
            (workloads::GROUP, "Deployment") => Self::Workload(workloads::WorkloadKind::Deployment),
            (workloads::GROUP, "StatefulSet") => {
                Self::Workload(workloads::WorkloadKind::StatefulSet)
            }
            (workloads::GROUP, "DaemonSet") => Self::Workload(workloads::WorkloadKind::DaemonSet),
            _ => Self::Other,
        }
    }
}

/// Reads an app. A workload's revision is the tag of its first container's image.
pub fn read(app: &DynamicObject) -> AppReading {
    read_as(kind_of(app), app, None)
}

/// Reads an app. A workload's revision is the tag of the image of that name.
pub fn read_tracking(app: &DynamicObject, image: &str) -> AppReading {
    read_as(kind_of(app), app, Some(image))
}

/// Reads an app of a known kind, for objects that do not carry their own.
pub fn read_as(kind: AppType, app: &DynamicObject, image: Option<&str>) -> AppReading {
    let generation = app.metadata.generation.unwrap_or_default();
    let fields: &Value = &app.data;
    let mut reading = match kind {
        AppType::HelmRelease => helm::reading(&read_fields(fields), generation),
        AppType::Kustomization => kustomization::reading(&read_fields(fields), generation),
        AppType::ResourceSet => resource_set::reading(&read_fields(fields), generation),
        AppType::Workload(kind) => workload::reading(kind, &read_fields(fields), generation, image),
        AppType::Other => generic::reading(&read_fields(fields), generation),
    };
    if app.metadata.deletion_timestamp.is_some() {
        reading.ready = false;
        reading.message = Some("it is being deleted".to_owned());
    }
    reading
}

/// The source of which an app of this kind applies the revisions. A HelmRelease names it only where its
/// chart is an OCI artifact.
pub fn source_of(kind: AppType, app: &DynamicObject) -> Option<flux::ObjectReference> {
    let fields: &Value = &app.data;
    match kind {
        AppType::Kustomization => Some(read_fields::<flux::Kustomization>(fields).spec.source_ref),
        AppType::HelmRelease => {
            let chart = read_fields::<flux::HelmRelease>(fields).spec.chart_ref?;
            Some(chart).filter(|chart| chart.kind.as_deref() == Some("OCIRepository"))
        }
        AppType::ResourceSet | AppType::Workload(_) | AppType::Other => None,
    }
}

fn kind_of(app: &DynamicObject) -> AppType {
    match &app.types {
        Some(types) => AppType::of(&types.api_version, &types.kind),
        None => AppType::Other,
    }
}

/// What the conditions and generations of a Flux-like status say.
struct FluxHealth {
    is_ready: bool,
    lagging: bool,
    failed: bool,
    message: Option<String>,
}

impl FluxHealth {
    fn of(conditions: &[StatusCondition], observed: Option<i64>, generation: i64) -> Self {
        let ready = conditions
            .iter()
            .find(|condition| condition.type_ == "Ready");
        let is_current = |condition: &StatusCondition| {
            condition
                .observed_generation
                .is_none_or(|observed| observed >= generation)
        };
        let is_stalled = |condition: &StatusCondition| condition.is_true("Stalled");
        let is_failure = |condition| is_stalled(condition) || tells_failure(condition);
        let observed = observed.or_else(|| ready?.observed_generation);
        let lagging = observed.is_some_and(|observed| observed < generation);
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        Self {
            is_ready,
            lagging,
            failed: conditions
                .iter()
                .any(|condition| is_current(condition) && is_failure(condition)),
            // That an earlier generation succeeded is not why the app is not ready now.
            message: ready
                .filter(|_| !(is_ready && lagging))
                .and_then(|ready| ready.message.clone())
                .filter(|text| !text.is_empty()),
        }
    }
}

/// Whether it is the `Ready` condition and says that the revision itself failed. A failure before the
/// revision was tried does not count.
fn tells_failure(ready: &StatusCondition) -> bool {
    let reason = ready.reason.as_deref().unwrap_or_default();
    let is_remedy = matches!(
        reason,
        "RollbackSucceeded" | "UninstallSucceeded" | "RetriesExceeded"
    );
    let is_prelude = matches!(reason, "ArtifactFailed" | "GetLastReleaseFailed");
    let is_false = ready.type_ == "Ready" && ready.status == "False";
    is_false && (is_remedy || reason.ends_with("Failed") && !is_prelude)
}

/// Why a ready app names no revision that can be dealt with, in words people know.
fn why_unknown(text: Option<&str>) -> String {
    let reason = match text {
        Some(text) if !text.trim().is_empty() => "its revision is too long or not printable",
        _ => "unable to find .status.lastAppliedRevision in ready target object",
    };
    reason.to_owned()
}

#[cfg(test)]
mod tests;
