//! The status of one target: the app and its cluster, what runs, and why it could not be read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{super::spec::ClusterReference, desired::DesiredRevision};
use crate::{Time, lenient::is_default, revision, schema};

/// The state of one target.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TargetStatus {
    /// The app and its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_app_ref: Option<ClusterAppReference>,
    /// The namespace on that cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether the app is ready at its revision.
    pub ready: bool,
    /// The revision that runs.
    #[serde(
        deserialize_with = "revision::stored_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub revision: Option<String>,
    /// The version of that revision, as it is written to git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The digest of the OCI artifact it was installed from, where the revision is a version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub digest: Option<String>,
    /// Since when it has been ready at that revision without a break, by the hub's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub ready_since: Option<Time>,
    /// Whether this was read or reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Evidence>,
    /// Why the target could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The same as a fixed reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<TargetProblem>,
    /// Since when the target cannot be read, although Sluice should read it. Newer reports count instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub unreadable_since: Option<Time>,
    /// The revision whose last deployment failed here.
    #[serde(
        deserialize_with = "revision::stored_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 256))]
    pub failed: Option<String>,
    /// Why it failed, where only a report says so; apps that are observed have a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub failed_because: Option<String>,
    /// The source that the revision of the app follows: its URL and reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2304))]
    pub follows: Option<String>,
    /// Whether Flux verified the signature of that revision; nothing where its source does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<bool>,
    /// The revision that is published for this target (`strategy.resourceSetInputs` with `scope: Target`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<DesiredRevision>,
    /// The waves of the environment's rollout whose selector matches its cluster, numbered from 0.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 16))]
    pub matching_waves: Vec<i64>,
    /// The apps found in the target.
    #[serde(default, skip_serializing_if = "is_default")]
    pub apps: Vec<AppStatus>,
}

impl TargetStatus {
    /// The revision that runs, for people and for ordering: with its tag where it is a digest.
    pub fn shown_revision(&self) -> Option<String> {
        let revision = self.revision.as_deref()?;
        Some(revision::shown(revision, self.version.as_deref()))
    }
}

/// Why a target could not be read.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum TargetProblem {
    /// The app does not exist.
    AppMissing,
    /// The namespace does not exist.
    NamespaceMissing,
    /// The cluster does not know the app's kind.
    KindMissing,
    /// There is no such GitopsCluster.
    ClusterMissing,
    /// The GitopsCluster is not ready.
    ClusterNotReady,
    /// The cluster does not answer.
    Unreachable,
    /// The cluster has not been read to the end yet.
    NotSynced,
    /// Reading is not allowed.
    Forbidden,
}

/// How the state of a target is known.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Seen on the cluster.
    Watch,
    /// Told by a webhook.
    Report,
}

/// An app and its cluster.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterAppReference {
    /// The app's API group and version.
    pub api_version: String,
    /// The app's kind.
    pub kind: String,
    /// The app's name.
    pub name: String,
    /// The cluster; without it the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterReference>,
}

/// One app in a target.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AppStatus {
    /// The app's API group and version.
    pub api_version: String,
    /// The app's kind.
    pub kind: String,
    /// The app's name.
    pub name: String,
    /// Whether it is ready at its revision.
    pub ready: bool,
    /// The revision that runs.
    #[serde(
        deserialize_with = "revision::stored_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub revision: Option<String>,
    /// The message of the app.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The images it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub images: Vec<String>,
    /// Why something is left out, such as images that may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The commit of the source code that its artifact was built from, where that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub source_commit: Option<String>,
    /// What Flux applied it from, where its labels tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Where Flagger analyses its workloads: what that analysis is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryState>,
}

/// What Flagger's Canaries of an app are compared with. What they say themselves is in `ready` and
/// `message` of the app.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CanaryState {
    /// Since when the app has had its revision, by the hub's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub revision_since: Option<Time>,
    /// From when on the Canaries count even if Flagger has not changed them since the app changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub counts_at: Option<Time>,
    /// When Flagger reached the newest result that was there when the app changed, by the clock of
    /// the app's cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub result_before: Option<Time>,
    /// Whether Flagger was promoting an earlier revision when the app changed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub was_promoting: bool,
    /// The last revision that all Canaries of the app let pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub promoted: Option<String>,
}

/// A folder of a git repository.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Origin {
    /// The repository, without credentials.
    #[schemars(length(max = 2048))]
    pub url: String,
    /// The folder in it.
    #[schemars(length(max = 1024))]
    pub path: String,
    /// The branch it is taken from, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub branch: Option<String>,
}
