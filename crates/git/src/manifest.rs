//! Finds the fields of manifests that set the version of a deployment, without markers.
//!
//! A manifest is identified by group, kind, namespace and name of its object. The search covers all files
//! that the directories of the deployment are built from; an overlay overrides its base. A field that
//! another deployment uses, too, and a field that is one of several are errors that name the files.

mod build_file;
mod build_graph;
mod fields;
mod files;
mod images;
mod other_deployments;
mod parsed;
mod patch_target;
mod paths;
mod repository_identity;
mod search;

pub(crate) use build_graph::BuildGraph;
pub(crate) use fields::{COMMIT_UNKNOWN, DIGEST_UNKNOWN, NOT_A_TAG};
pub(crate) use files::RepositoryFiles;
pub use images::is_image;
pub use other_deployments::directories_overlap;
pub(crate) use parsed::Manifests;
pub(crate) use repository_identity::RepositoryIdentity;
pub use repository_identity::{is_same_repository, may_be_same_repository};
pub(crate) use search::find_field;

use std::fmt;

use net::Remedy;

/// The object that a manifest describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestIdentity {
    /// The API group, without version. Empty for the core.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace. A manifest without one matches any.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ManifestIdentity {
    /// Whether it is a workload, not a Kustomization or HelmRelease.
    pub(crate) fn is_workload(&self) -> bool {
        !matches!(self.kind.as_str(), "Kustomization" | "HelmRelease")
    }
}

impl fmt::Display for ManifestIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The kind of field to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionField {
    /// The chart version of a HelmRelease, in the release or in the source that it refers to.
    Chart,
    /// The version of a source, or of the source that the manifest refers to: tag, semver range,
    /// commit or digest, whichever it has.
    Source,
    /// The tag and digest of an image: in an image override, else in the workload.
    Image {
        /// Without tag and digest.
        name: String,
    },
    /// The image of a workload that runs several images of that version, so that it is ambiguous.
    OneOf {
        /// Without tags and digests.
        images: Vec<String>,
    },
}

/// The version to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedVersion {
    /// A version, a tag, or the hexadecimal digits of a commit.
    pub version: String,
    /// The digest with its algorithm, if known.
    pub digest: Option<String>,
    /// The commit of the version, if known and not the version itself.
    pub commit: Option<String>,
}

impl From<&str> for PinnedVersion {
    fn from(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            digest: None,
            commit: None,
        }
    }
}

impl PinnedVersion {
    pub(crate) fn is_commit(&self) -> bool {
        crate::names::ObjectId::new(&*self.version).is_ok()
    }

    pub(crate) fn commit(&self) -> Option<&str> {
        match self.is_commit() {
            true => Some(&self.version),
            false => self.commit.as_deref(),
        }
    }

    /// Whether the version is a digest.
    pub(crate) fn is_digest(&self) -> bool {
        self.digest.as_ref() == Some(&self.version)
    }
}

/// A field of a manifest to find and set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedField {
    /// The object with the field.
    pub identity: ManifestIdentity,
    /// The kind of field.
    pub field: VersionField,
    /// The version to set.
    pub pin: PinnedVersion,
    /// The directories of the deployment. `.` is the whole repository.
    pub directories: Vec<String>,
    /// The other deployments, which must not change.
    pub others: Vec<OtherDeployment>,
}

/// A deployment that must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherDeployment {
    /// Its name, for errors.
    pub name: String,
    /// The namespace of its objects.
    pub namespace: String,
    /// Its directories, files or patterns of them. `None` if they are not known.
    pub directories: Option<Vec<String>>,
}

impl WantedField {
    /// The directories of all other deployments.
    pub(crate) fn other_directories(&self) -> Vec<String> {
        let others = self.others.iter();
        let directories = others.filter_map(|other| other.directories.clone());
        directories.flatten().collect()
    }

    /// What is searched, for errors.
    pub(crate) fn description(&self) -> String {
        let identity = &self.identity;
        match &self.field {
            VersionField::Chart => format!("the chart version of {identity}"),
            VersionField::Source => format!("the source of {identity}"),
            VersionField::Image { name } => format!("the image {name} of {identity}"),
            VersionField::OneOf { .. } => {
                format!("the image of {identity}, unless track.image names it,")
            }
        }
    }
}

/// Why the field cannot be set.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// No directory is known.
    #[error("cannot find {what} without a marker: no directory is known for it; name its paths")]
    NoDirectory {
        /// The wanted field.
        what: String,
    },
    /// The directories are built from too many files.
    #[error("cannot find {what} without a marker: its directories are built from too many files")]
    TooMuch {
        /// The wanted field.
        what: String,
    },
    /// No field matches.
    #[error("cannot find {what} in {}{}", searched.join(", "), remark(skipped))]
    NotFound {
        /// The wanted field.
        what: String,
        /// The searched directories.
        searched: Vec<String>,
        /// Files that could not be read.
        skipped: Vec<String>,
    },
    /// Several fields match.
    #[error("{what} may be any of {}; mark the right one", candidates.join(", "))]
    Several {
        /// The wanted field.
        what: String,
        /// The files and lines.
        candidates: Vec<String>,
    },
    /// Another deployment uses the field, too.
    #[error("{what} is in {candidate}, which {other} is also built from; set it in an overlay")]
    Shared {
        /// The wanted field.
        what: String,
        /// The file and line.
        candidate: String,
        /// The other deployment.
        other: String,
    },
    /// It is not known whether another deployment uses the field.
    #[error(
        "{what} is in {candidate}, and the directories of {other} are not known yet; mark it, or name \
         the paths of {other}"
    )]
    NotObserved {
        /// The wanted field.
        what: String,
        /// The file and line.
        candidate: String,
        /// The other deployment.
        other: String,
    },
    /// The field cannot be set.
    #[error("{what} is in {candidate}, but {because}")]
    Unsettable {
        /// The wanted field.
        what: String,
        /// The file and line.
        candidate: String,
        /// The end of the sentence.
        because: &'static str,
    },
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoDirectory { .. } => "NoDirectory",
            Self::TooMuch { .. } => "TooManyFiles",
            Self::NotFound { .. } => "NoManifest",
            Self::Several { .. } => "SeveralManifests",
            Self::Shared { .. } => "SharedManifest",
            Self::NotObserved { .. } => "NotObserved",
            Self::Unsettable { .. } => "UneditableFile",
        }
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NotObserved { .. } => Remedy::RETRY,
            _ => Remedy::Edit,
        }
    }
}

fn remark(skipped: &[String]) -> String {
    if skipped.is_empty() {
        return String::new();
    }
    let shown: Vec<&str> = skipped.iter().take(5).map(String::as_str).collect();
    format!("; not readable: {}", shown.join(", "))
}

#[cfg(test)]
mod tests;
