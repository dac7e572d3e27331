//! Finds, without markers, what in a repository says which version of something is deployed.
//!
//! A manifest is known by what it describes: group, kind, namespace, name. From the directories of
//! one place everything they are built of is walked; what an overlay says counts before what its
//! base says. What another place is built of as well is never offered for change, nor is one of
//! several that could be meant: both are errors that name the files.

mod choose;
mod fields;
mod files;
mod images;
mod others;
mod read;
mod repository;
mod target;
mod walk;

pub(crate) use choose::choose;
pub(crate) use fields::{COMMIT_UNKNOWN, DIGEST_UNKNOWN, NOT_A_TAG};
pub(crate) use files::Files;
pub use images::is_image;
pub use others::directories_overlap;
pub(crate) use read::Manifests;
pub(crate) use repository::Home;
pub use repository::{is_same_repository, may_be_same_repository};
pub(crate) use walk::Walk;

use std::fmt;

use net::Remedy;

/// What a manifest describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestIdentity {
    /// The API group, without version. Empty for the core.
    pub group: String,
    /// As written in manifests.
    pub kind: String,
    /// Where it lives. A manifest that does not say may be meant.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl ManifestIdentity {
    /// Whether it runs containers itself, and does not stand for what does.
    pub(crate) fn is_workload(&self) -> bool {
        !matches!(self.kind.as_str(), "Kustomization" | "HelmRelease")
    }
}

impl fmt::Display for ManifestIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// What is to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionField {
    /// The version of the chart that a release installs: in the release, or in the source of charts
    /// that it refers to.
    Chart,
    /// What the source is pinned to that the manifest refers to, or that it is: tag, range, commit
    /// or digest, whichever it is pinned by.
    Source,
    /// The tag, and the digest where there is one, of an image: where images are replaced, else in
    /// the workloads.
    Image {
        /// Without tag and digest.
        name: String,
    },
    /// The image of a workload that runs several of that version. Nobody can tell which is meant.
    OneOf {
        /// Without tags and digests.
        images: Vec<String>,
    },
}

/// What it is to be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedVersion {
    /// A version, a tag, or the hexadecimal digits of a commit.
    pub version: String,
    /// With its algorithm, where it is known.
    pub digest: Option<String>,
    /// The commit of the version, where it is known and not the version itself.
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

    /// Whether there is no version but a digest.
    pub(crate) fn is_digest(&self) -> bool {
        self.digest.as_ref() == Some(&self.version)
    }
}

/// A field of a manifest that is to be found and set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedField {
    /// Whose field.
    pub identity: ManifestIdentity,
    /// Which field.
    pub field: VersionField,
    /// The new value.
    pub pin: PinnedVersion,
    /// The directories that make up the place. `.` is the whole repository.
    pub directories: Vec<String>,
    /// The other places, which must stay as they are.
    pub others: Vec<OtherDeployment>,
}

/// A place that is not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherDeployment {
    /// For errors.
    pub name: String,
    /// Where the same lives there.
    pub namespace: String,
    /// The directories or files that make it up, which may be patterns. Nothing if nobody knows.
    pub directories: Option<Vec<String>>,
}

impl WantedField {
    /// The directories of all other places.
    pub(crate) fn foreign(&self) -> Vec<String> {
        let others = self.others.iter();
        let directories = others.filter_map(|other| other.directories.clone());
        directories.flatten().collect()
    }

    /// For errors: completes "which … there is".
    pub(crate) fn what(&self) -> String {
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

/// Why nothing can be set.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Nobody said where to look.
    #[error("cannot find {what} without a marker: no directory is known for it; name its paths")]
    NoDirectory {
        /// What was looked for.
        what: String,
    },
    /// Not everything was looked at.
    #[error("cannot find {what} without a marker: its directories are built of too much")]
    TooMuch {
        /// What was looked for.
        what: String,
    },
    /// Nothing fits.
    #[error("cannot find {what} in {}{}", searched.join(", "), remark(skipped))]
    NotFound {
        /// What was looked for.
        what: String,
        /// Where.
        searched: Vec<String>,
        /// Files that could not be read.
        skipped: Vec<String>,
    },
    /// Too much fits.
    #[error("{what} may be any of {}; mark the one that is meant", candidates.join(", "))]
    Several {
        /// What was looked for.
        what: String,
        /// Files and lines.
        candidates: Vec<String>,
    },
    /// What fits is not this place's alone.
    #[error("{what} is in {candidate}, which {other} is built of too; set it in an overlay")]
    Shared {
        /// What was looked for.
        what: String,
        /// File and line.
        candidate: String,
        /// Another place.
        other: String,
    },
    /// Nobody knows whether what fits is this place's alone.
    #[error(
        "{what} is in {candidate}, and where {other} is built is not known yet; mark it, or name the \
         paths of {other}"
    )]
    NotObserved {
        /// What was looked for.
        what: String,
        /// File and line.
        candidate: String,
        /// Another place.
        other: String,
    },
    /// What fits cannot be set.
    #[error("{what} is in {candidate}, but {because}")]
    Unsettable {
        /// What was looked for.
        what: String,
        /// File and line.
        candidate: String,
        /// The end of the sentence.
        because: &'static str,
    },
}

impl Error {
    /// A fixed word.
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

    /// What would help.
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
