//! The state of a promotion that goes through its targets in waves.
//!
//! Stored are only facts that cannot be read from the targets: which wave a target belongs to, when its
//! change was started, what failed, and which waves are done. Whether a target is ready is in the status of
//! the Pipeline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Time,
    lenient::{is_default, null_as_default},
    schema,
};

/// How far a rollout is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutStatus {
    /// The number of targets at the start. Percentages are of this number.
    pub total: i64,
    /// The waves, in order.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = 17))]
    pub waves: Vec<WaveStatus>,
    /// The targets and their waves, in the order in which they are started.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = 5000))]
    pub targets: Vec<RolloutTarget>,
    /// The batches that were started: targets that are changed together. The last one may not have landed.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 5000))]
    pub batches: Vec<Batch>,
    /// Hashes of the edits that people approved: each edit of a batch must be one of them.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 5000), inner(length(max = 64)))]
    pub approved_edits: Vec<String>,
    /// The targets that failed and count towards `maxFailures`, also those that were removed since.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 5000), inner(length(max = 512)))]
    pub failed: Vec<String>,
    /// When a person last resumed it: what failed before does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub resumed_at: Option<Time>,
    /// When a person last retried it: `deployTimeout` of what is in flight counts from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub retried_at: Option<Time>,
    /// Why no further target is started. Stays until a person resumes or retries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<RolloutStop>,
}

/// How far a wave is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WaveStatus {
    /// When its first target could be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub opened_at: Option<Time>,
    /// When all its reachable targets had been ready for long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub done_at: Option<Time>,
}

/// A target of a rollout.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutTarget {
    /// The target as `cluster/namespace`; the cluster is `-` on the hub.
    #[schemars(length(max = 512))]
    pub target: String,
    /// The number of its wave, from 0.
    pub wave: i64,
    /// Whether it was added to the environment after the start. Such targets are not part of the change
    /// that people approved, and are started in batches of their own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub joined: bool,
    /// Whether an earlier promotion brought another revision into git for it that it may not run yet: it is
    /// started even if it still runs this one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_revision_landed: bool,
    /// The number of the batch that it was started with, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<i64>,
    /// Whether it was ready at the revision. Recorded when the next batch starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ready: bool,
    /// Whether it failed: its app says so, or it was not ready in time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: bool,
    /// Whether the rollout goes on without it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skipped: bool,
    /// Since when it has been unreachable, if it became so before it was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub unreachable_since: Option<Time>,
    /// For how many seconds it was unreachable since its change landed. They do not count towards
    /// `deployTimeout`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unreachable_seconds: i64,
}

/// Targets whose change is made together.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Batch {
    /// Its number, from 1.
    pub number: i64,
    /// When its targets were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub started_at: Option<Time>,
    /// When its change was merged, pushed, published or handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub landed_at: Option<Time>,
    /// The URL of its pull request, or of what the strategy led to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
    /// The commit that was pushed or merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub commit: Option<String>,
}

/// Why no further target is started.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutStop {
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// The user who stopped it; nothing where too many targets failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
    /// A sentence for people.
    #[schemars(length(max = 1024))]
    pub message: String,
}

impl RolloutStatus {
    /// The batch whose change has not landed yet.
    pub fn open_batch(&self) -> Option<&Batch> {
        self.batches.last().filter(|it| it.landed_at.is_none())
    }

    /// The targets of a batch.
    pub fn targets_of(&self, batch: i64) -> impl Iterator<Item = &RolloutTarget> {
        let targets = self.targets.iter();
        targets.filter(move |target| target.batch == Some(batch))
    }
}
