//! What a look at a pipeline's targets gave, before it is made sense of.
//!
//! A missing app or a cluster that does not answer is a value here, never an error.

use api::{
    Revision,
    app::AppReading,
    flagger::Canary,
    pipeline::{ClusterReference, Origin, TargetProblem},
};

/// Everything one look at a pipeline gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedPipeline {
    /// The environments that were looked at; one of the spec that is left out stays as it was.
    pub environments: Vec<ObservedEnvironment>,
    /// What the pipeline's source proposes, where the source is an object.
    pub source: ObservedSource,
    /// Whether reports without a valid signature count as evidence.
    pub trusts_unsigned_reports: bool,
}

/// One environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedEnvironment {
    /// Its name.
    pub name: String,
    /// Its targets in the order of the spec; those of a selector follow each other by name.
    pub targets: Vec<ObservedTarget>,
}

/// One target.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedTarget {
    /// The cluster; without it the one the pipeline lives on.
    pub cluster: Option<ClusterReference>,
    /// The namespace on that cluster.
    pub namespace: String,
    /// Whether webhooks are what tells about it, because nothing watches it.
    pub relies_on_reports: bool,
    /// What was found there.
    pub state: TargetState,
}

/// What was found in a target.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetState {
    /// The apps that are there: the one of `appRef`, or all that carry the pipeline's label.
    Observed(Vec<ObservedApp>),
    /// Nobody looks; what reports say counts.
    NotWatched,
    /// The app is not there.
    Missing,
    /// The namespace is not there.
    NamespaceMissing,
    /// The cluster does not know the app's kind.
    KindMissing,
    /// There is no such GitopsCluster.
    ClusterMissing,
    /// The GitopsCluster is not ready.
    ClusterNotReady,
    /// The cluster has not been read to the end yet.
    NotSynced,
    /// The cluster does not answer.
    Unreachable {
        /// What went wrong.
        because: String,
    },
    /// The cluster does not allow reading.
    Forbidden {
        /// What it said.
        because: String,
    },
    /// The pipeline may not have a target there. What was known of it is not kept.
    Refused {
        /// Who does not allow it.
        because: String,
    },
}

impl TargetState {
    /// The problem as one word; none where the target could be read or is not looked at.
    pub fn problem(&self) -> Option<TargetProblem> {
        match self {
            Self::Observed(apps) if apps.is_empty() => Some(TargetProblem::AppMissing),
            Self::Observed(_) | Self::NotWatched => None,
            Self::Missing => Some(TargetProblem::AppMissing),
            Self::NamespaceMissing => Some(TargetProblem::NamespaceMissing),
            Self::KindMissing => Some(TargetProblem::KindMissing),
            Self::ClusterMissing => Some(TargetProblem::ClusterMissing),
            Self::ClusterNotReady => Some(TargetProblem::ClusterNotReady),
            Self::NotSynced => Some(TargetProblem::NotSynced),
            Self::Unreachable { .. } => Some(TargetProblem::Unreachable),
            Self::Forbidden { .. } | Self::Refused { .. } => Some(TargetProblem::Forbidden),
        }
    }

    /// Whether nobody can tell by looking, so that a report is all there may be.
    pub(crate) fn is_out_of_sight(&self) -> bool {
        match self {
            Self::NotWatched
            | Self::ClusterMissing
            | Self::ClusterNotReady
            | Self::NotSynced
            | Self::Unreachable { .. }
            | Self::Forbidden { .. } => true,
            Self::Observed(_)
            | Self::Missing
            | Self::NamespaceMissing
            | Self::KindMissing
            | Self::Refused { .. } => false,
        }
    }
}

/// One app in a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedApp {
    /// The app's API group and version.
    pub api_version: String,
    /// The app's kind.
    pub kind: String,
    /// The app's name.
    pub name: String,
    /// What it says about itself.
    pub reading: AppReading,
    /// The images it runs, if they were read this time; otherwise the known ones stay.
    pub images: Option<Vec<String>>,
    /// Why something is left out, such as images that may not be read.
    pub note: Option<String>,
    /// What its revision follows: the source's URL and reference, where they are known.
    pub follows: Option<String>,
    /// What Flux applied it from, if that was read this time; otherwise what is known stays.
    pub origin: Option<Origin>,
    /// Flagger's Canaries of its workloads.
    pub canaries: ObservedCanaries,
}

/// The Canaries of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedCanaries {
    /// All there are; none where the cluster has no Flagger.
    Known(Vec<Canary>),
    /// The cluster has Canaries, but which of them are about the app could not be found out. Trying
    /// again may help.
    Unknown {
        /// Why.
        because: String,
    },
}

impl Default for ObservedCanaries {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

/// What the pipeline's source proposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ObservedSource {
    /// There is no source object to look at, or nobody looked: what is known stays.
    #[default]
    NotQueried,
    /// The newest revision, and what to write to git for it.
    Proposes {
        /// The revision.
        revision: Revision,
        /// What to write.
        version: String,
    },
    /// It has nothing to propose yet, or cannot be read.
    Nothing {
        /// Why.
        because: String,
    },
}
