//! What is kept of an app.

use api::{
    app::{AppReading, AppliedApp},
    flagger::Canary,
    flux::{ArtifactSignature, ObjectReference},
};

use super::{Workloads, images::AppWorkloads};

/// The cached fields of one app.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AppRecord {
    pub(crate) api_version: String,
    pub(crate) reading: AppReading,
    /// The pipeline whose label it carries.
    pub(crate) pipeline: Option<String>,
    /// The images it runs, once they have been read for this state.
    pub(crate) images: Option<Vec<String>>,
    /// What it says about the signature of its artifact, if it is a source.
    pub(crate) signature: Option<Box<ArtifactSignature>>,
    /// The HelmReleases and Kustomizations that it applied, if it is a ResourceSet.
    pub(crate) applied: Box<[AppliedApp]>,
    /// Its generation, if it is a source: an edit of a source need not change its reading.
    pub(crate) generation: Option<i64>,
    /// The source that its revision comes from.
    pub(crate) source: Option<ObjectReference>,
    /// Namespace and name of the Kustomization that applied it.
    pub(crate) applier: Option<Box<(String, String)>>,
    /// Namespace and name of the HelmRelease that created it, if it is a workload.
    pub(crate) release: Option<Box<(String, String)>>,
    /// Whether its images are only those of the workloads that it had before.
    pub(crate) has_provisional_images: bool,
    /// The workloads that Flux created for it when all were last listed.
    pub(crate) workloads: Option<Workloads>,
    /// The Canary, if it is one and not an app.
    pub(crate) canary: Option<Box<Canary>>,
}

impl AppRecord {
    pub(super) fn set_workloads(&mut self, read: AppWorkloads) {
        self.has_provisional_images = read.is_provisional();
        self.images = Some(read.images);
        if !self.has_provisional_images {
            self.workloads = Some(read.workloads.into());
        }
    }
}

/// Whether images that were read in one state are valid in the other.
pub(super) fn is_same_state(left: &AppReading, right: &AppReading) -> bool {
    left.revision == right.revision && left.ready == right.ready
}
