//! What was observed of a pipeline's targets and source, before it is folded into the status.
//!
//! A missing app or a cluster that does not answer is a value here, never an error.

use std::collections::BTreeMap;

use api::{
    Revision,
    app::AppReading,
    flagger::Canary,
    pipeline::{ClusterReference, Origin, TargetProblem},
};

/// The labels of GitopsClusters, by `cluster_key`.
pub type ClusterLabels = BTreeMap<String, BTreeMap<String, String>>;

/// One observation of a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedPipeline {
    /// The environments that were observed; the others of the spec stay as they were.
    pub environments: Vec<ObservedEnvironment>,
    /// What the pipeline's source proposes, where the source is an object.
    pub source: ObservedSource,
    /// Whether reports without a valid signature count as evidence.
    pub trusts_unsigned_reports: bool,
    /// The labels of the clusters that its targets are on, where a wave of a rollout selects by them.
    pub cluster_labels: ClusterLabels,
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
    /// Whether its state comes from reports, because nothing watches it.
    pub relies_on_reports: bool,
    /// Its state.
    pub state: TargetState,
}

/// The observed state of a target.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetState {
    /// The apps that are there: the one of `appRef`, or all that carry the pipeline's label.
    Observed(Vec<ObservedApp>),
    /// It is not watched; reports count.
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
        /// The message of the cluster.
        because: String,
    },
    /// The pipeline may not have a target there. Its last known state is dropped.
    Refused {
        /// Who does not allow it.
        because: String,
    },
}

impl TargetState {
    /// The problem as one word; none where the target could be read or is not watched.
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

    /// Whether its state cannot be read, so that only a report can tell it.
    pub(crate) fn is_not_readable(&self) -> bool {
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
    /// Whether Flux verified the signature of what it runs; nothing where its source does not say.
    pub signed: Option<bool>,
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
    /// There is no source object, or it was not read: the last proposal stays.
    #[default]
    NotQueried,
    /// The newest revision, and what to write to git for it.
    Proposes {
        /// The revision.
        revision: Revision,
        /// What to write.
        version: String,
        /// Whether Flux verified its signature.
        signed: bool,
    },
    /// It has nothing to propose yet, or cannot be read.
    Nothing {
        /// Why.
        because: String,
    },
}
