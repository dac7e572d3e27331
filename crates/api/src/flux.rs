//! The few fields Sluice reads of Flux's objects.
//!
//! Any API version is read by the same types: fields a version does not have
//! are absent, and a field of an unexpected type counts as absent too.

mod followed;
mod signature;

pub use followed::{followed, git_address, is_range, is_tag};
pub use signature::ArtifactSignature;

use crate::{
    image::Image,
    revision::SourceRevision,
    third_party::{Object, StatusCondition, lenient_structs},
};

/// API group of HelmRelease.
pub const HELM_GROUP: &str = "helm.toolkit.fluxcd.io";
/// API group of Kustomization.
pub const KUSTOMIZE_GROUP: &str = "kustomize.toolkit.fluxcd.io";
/// API group of the sources.
pub const SOURCE_GROUP: &str = "source.toolkit.fluxcd.io";
/// API group of ImagePolicy and ImageRepository.
pub const IMAGE_GROUP: &str = "image.toolkit.fluxcd.io";
/// Label Flux puts on what a Kustomization applied: the Kustomization's name.
pub const KUSTOMIZATION_NAME_LABEL: &str = "kustomize.toolkit.fluxcd.io/name";
/// Label Flux puts on what a Kustomization applied: the Kustomization's namespace.
pub const KUSTOMIZATION_NAMESPACE_LABEL: &str = "kustomize.toolkit.fluxcd.io/namespace";
/// Label that Flux puts on what a HelmRelease deploys: its name.
pub const RELEASE_NAME_LABEL: &str = "helm.toolkit.fluxcd.io/name";
/// Label that Flux puts on what a HelmRelease deploys: its namespace.
pub const RELEASE_NAMESPACE_LABEL: &str = "helm.toolkit.fluxcd.io/namespace";

/// A release of a Helm chart.
pub type HelmRelease = Object<HelmReleaseSpec, HelmReleaseStatus>;
/// Manifests applied from a source.
pub type Kustomization = Object<KustomizationSpec, KustomizationStatus>;
/// A git repository that Flux fetches.
pub type GitRepository = Object<GitRepositorySpec, SourceStatus>;
/// An OCI artifact that Flux fetches.
pub type OCIRepository = Object<OCIRepositorySpec, SourceStatus>;
/// A Helm repository that Flux fetches.
pub type HelmRepository = Object<HelmRepositorySpec, SourceStatus>;
/// A Helm chart that Flux fetches.
pub type HelmChart = Object<HelmChartSpec, SourceStatus>;
/// A bucket that Flux fetches.
pub type Bucket = Object<BucketSpec, SourceStatus>;
/// A choice among the tags of an image.
pub type ImagePolicy = Object<ImagePolicySpec, ImagePolicyStatus>;
/// An image whose tags Flux lists.
pub type ImageRepository = Object<ImageRepositorySpec, ImageRepositoryStatus>;

lenient_structs! {
    /// A reference to an object.
    pub struct ObjectReference {
        /// The object's kind.
        kind: Option<String>,
        /// The object's name.
        name: Option<String>,
        /// The object's namespace; the referring object's if absent.
        namespace: Option<String>,
    }

    /// What a HelmRelease asks for.
    pub struct HelmReleaseSpec {
        /// Flux leaves it alone.
        suspend: bool,
        /// The chart, from a Helm repository, git or a bucket.
        chart: Option<ChartTemplate>,
        /// The chart, from an object that fetches it.
        chart_ref: Option<ObjectReference>,
    }

    /// The chart of a HelmRelease.
    pub struct ChartTemplate {
        /// Its fields.
        spec: ChartTemplateSpec,
    }

    /// The chart of a HelmRelease.
    pub struct ChartTemplateSpec {
        /// The chart's name or path.
        chart: Option<String>,
        /// The version or range wanted.
        version: Option<String>,
        /// The source.
        source_ref: Option<ObjectReference>,
    }

    /// What became of a HelmRelease.
    pub struct HelmReleaseStatus {
        /// The generation last dealt with.
        observed_generation: Option<i64>,
        /// Conditions.
        conditions: Option<Vec<StatusCondition>>,
        /// Releases, newest first; since v2beta2.
        history: Vec<Release>,
        /// The chart version that was last installed; until v2beta2.
        last_applied_revision: Option<String>,
        /// The chart version last tried.
        last_attempted_revision: Option<String>,
        /// The digest of the OCI artifact last tried.
        last_attempted_revision_digest: Option<String>,
        /// The generation last tried.
        last_attempted_generation: Option<i64>,
        /// What the release holds.
        inventory: Inventory,
    }

    /// One release in a HelmRelease's history.
    pub struct Release {
        /// The chart's name.
        chart_name: Option<String>,
        /// The chart's version.
        chart_version: Option<String>,
        /// The version of the application the chart names.
        app_version: Option<String>,
        /// Helm's word for its state.
        status: Option<String>,
        /// The digest of the OCI artifact the chart came in.
        oci_digest: Option<String>,
    }

    /// What a Kustomization asks for.
    pub struct KustomizationSpec {
        /// Flux leaves it alone.
        suspend: bool,
        /// The folder in the source.
        path: Option<String>,
        /// The source.
        source_ref: ObjectReference,
        /// The namespace everything is put into.
        target_namespace: Option<String>,
    }

    /// What became of a Kustomization.
    pub struct KustomizationStatus {
        /// The generation last dealt with.
        observed_generation: Option<i64>,
        /// Conditions.
        conditions: Option<Vec<StatusCondition>>,
        /// The source's revision that was last applied.
        last_applied_revision: Option<String>,
        /// The revision of the source code that the applied artifact was built from: its annotation
        /// `org.opencontainers.image.revision`.
        last_applied_origin_revision: Option<String>,
        /// The source's revision last tried.
        last_attempted_revision: Option<String>,
        /// What was applied.
        inventory: Inventory,
    }

    /// The objects an app holds.
    pub struct Inventory {
        /// The objects.
        entries: Vec<InventoryEntry>,
    }

    /// One object an app holds.
    pub struct InventoryEntry {
        /// Namespace, name, group and kind, joined by underscores.
        id: String,
        /// The API version.
        v: String,
    }

    /// What a GitRepository asks for.
    pub struct GitRepositorySpec {
        /// Where it is cloned from.
        url: Option<String>,
        /// What is checked out.
        #[serde(rename = "ref")]
        reference: GitReference,
        /// Flux leaves it alone.
        suspend: bool,
    }

    /// What is checked out of a git repository. The first one given wins, in the order commit,
    /// name, semver, tag, branch.
    pub struct GitReference {
        /// A commit.
        commit: Option<String>,
        /// A full reference name.
        name: Option<String>,
        /// The newest tag in a range.
        semver: Option<String>,
        /// A tag.
        tag: Option<String>,
        /// A branch.
        branch: Option<String>,
    }

    /// What an OCIRepository asks for.
    pub struct OCIRepositorySpec {
        /// Where it is pulled from.
        url: Option<String>,
        /// What is pulled.
        #[serde(rename = "ref")]
        reference: OCIReference,
        /// Flux leaves it alone.
        suspend: bool,
    }

    /// What is pulled from an OCI repository. The first one given wins, in the order digest,
    /// semver, tag.
    pub struct OCIReference {
        /// A digest.
        digest: Option<String>,
        /// The newest tag in a range.
        semver: Option<String>,
        /// A tag.
        tag: Option<String>,
    }

    /// What a HelmRepository asks for.
    pub struct HelmRepositorySpec {
        /// Where it is.
        url: Option<String>,
        /// `oci` for an OCI registry.
        #[serde(rename = "type")]
        type_: Option<String>,
        /// Flux leaves it alone.
        suspend: bool,
    }

    /// What a HelmChart asks for.
    pub struct HelmChartSpec {
        /// The chart's name or path.
        chart: Option<String>,
        /// The version or range wanted.
        version: Option<String>,
        /// The source.
        source_ref: ObjectReference,
        /// Flux leaves it alone.
        suspend: bool,
    }

    /// What a Bucket asks for.
    pub struct BucketSpec {
        /// The bucket's name.
        bucket_name: Option<String>,
        /// Where it is.
        endpoint: Option<String>,
        /// Flux leaves it alone.
        suspend: bool,
    }

    /// What became of a source.
    pub struct SourceStatus {
        /// The generation last dealt with.
        observed_generation: Option<i64>,
        /// Conditions.
        conditions: Option<Vec<StatusCondition>>,
        /// What was last fetched.
        artifact: Option<Artifact>,
    }

    /// What was last fetched.
    pub struct Artifact {
        /// The revision.
        revision: Option<String>,
        /// Where the source controller keeps it.
        path: Option<String>,
        /// The digest of the stored file.
        digest: Option<String>,
    }

    /// What an ImagePolicy asks for.
    pub struct ImagePolicySpec {
        /// The ImageRepository.
        image_repository_ref: ObjectReference,
        /// Flux leaves it alone.
        suspend: bool,
    }

    /// What an ImagePolicy chose.
    pub struct ImagePolicyStatus {
        /// The generation last dealt with.
        observed_generation: Option<i64>,
        /// Conditions.
        conditions: Option<Vec<StatusCondition>>,
        /// The image chosen, since 2025.
        latest_ref: Option<ImageReference>,
        /// The image chosen, until 2025.
        latest_image: Option<String>,
    }

    /// An image that was chosen.
    pub struct ImageReference {
        /// The image's name.
        name: String,
        /// The tag.
        tag: Option<String>,
        /// The digest.
        digest: Option<String>,
    }

    /// What an ImageRepository asks for.
    pub struct ImageRepositorySpec {
        /// The image's name.
        image: Option<String>,
        /// Flux leaves it alone.
        suspend: bool,
    }

    /// What an ImageRepository found.
    pub struct ImageRepositoryStatus {
        /// The image's full name.
        canonical_image_name: Option<String>,
        /// Conditions.
        conditions: Option<Vec<StatusCondition>>,
    }
}

impl SourceStatus {
    /// The revision last fetched, taken apart.
    pub fn revision(&self) -> Option<SourceRevision> {
        let revision = self.artifact.as_ref()?.revision.as_deref()?;
        (!revision.is_empty()).then(|| SourceRevision::parse(revision))
    }
}

impl GitReference {
    /// What to write into a source that names its revision this way to get a revision: a tag
    /// where tags are followed, else the commit.
    pub fn version_of<'a>(&self, revision: &'a SourceRevision) -> Option<&'a str> {
        let names_commit = self.commit.is_some() || self.name.is_some();
        let follows_tags = !names_commit && (self.semver.is_some() || self.tag.is_some());
        let tag = if follows_tags {
            revision.reference()
        } else {
            None
        };
        tag.or_else(|| revision.git_version())
    }
}

impl ImagePolicyStatus {
    /// The image chosen, in either notation.
    pub fn latest(&self) -> Option<Image> {
        match &self.latest_ref {
            Some(latest) => Image::new(
                &latest.name,
                latest.tag.as_deref(),
                latest.digest.as_deref(),
            ),
            None => Image::parse(self.latest_image.as_deref()?),
        }
    }
}

impl InventoryEntry {
    /// The object: namespace (empty for cluster-wide objects), name, group and kind. Nothing for
    /// an id in another form.
    pub fn object(&self) -> Option<[&str; 4]> {
        let (rest, kind) = self.id.rsplit_once('_')?;
        let (rest, group) = rest.rsplit_once('_')?;
        let (namespace, name) = rest.split_once('_')?;
        Some([namespace, name, group, kind])
    }
}

#[cfg(test)]
mod tests;
