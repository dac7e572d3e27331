//! The rollout into an environment as people see it, and what people ordered about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Time,
    lenient::{is_default, null_as_default},
    promotion::RolloutStop,
    schema,
};

/// The rollout in progress into an environment, else the last one.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutSummary {
    /// The Promotion's name.
    #[schemars(length(max = 253))]
    pub promotion: String,
    /// The revision that it brings.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// The waves, in order.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = 17))]
    pub waves: Vec<WaveSummary>,
    /// Why no further target is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<RolloutStop>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub finished_at: Option<Time>,
}

/// How many targets of a wave are in which state.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WaveSummary {
    /// All its targets.
    pub targets: i64,
    /// Those that are ready at the revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ready: i64,
    /// Those that were started and are neither ready nor failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_flight: i64,
    /// Those that failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: i64,
    /// Those that cannot be reached, started or not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unreachable: i64,
    /// Those that a person skipped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skipped: i64,
    /// When its first target could be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub opened_at: Option<Time>,
    /// When all its reachable targets had been ready for long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub done_at: Option<Time>,
}

/// What people requested for a rollout: to stop it, to go on, to skip targets.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutOrders {
    /// The name of the Promotion that they are about.
    #[schemars(length(max = 253))]
    pub promotion: String,
    /// Who stopped it, until somebody resumes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<RolloutStop>,
    /// When somebody last resumed it. Targets that failed before do not count any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub resumed_at: Option<Time>,
    /// When somebody last retried it. Targets that failed before get `deployTimeout` again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub retried_at: Option<Time>,
    /// The targets that the rollout goes on without, as `cluster/namespace`.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 1000), inner(length(max = 512)))]
    pub skipped: Vec<String>,
}
