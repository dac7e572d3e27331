//! What the status says about gates: which are closed, and what they depend on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Time,
    check_run::{CheckCause, CheckVerdict},
    freeze::FreezeTimes,
    lenient::is_default,
    revision, schema,
};

/// Why no promotion into an environment starts or goes on.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HoldStatus {
    /// A fixed reason.
    pub reason: String,
    /// A sentence, with what resolves the hold.
    pub message: String,
    /// When the hold ends, if time alone resolves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub opens_at: Option<Time>,
    /// The revision that was rejected or failed, and that a person can request nevertheless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requestable: Option<String>,
}

/// A gate that keeps the next revision out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GateStatus {
    /// The name of the gate.
    #[schemars(length(max = 64))]
    pub gate: String,
    /// A fixed reason.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// A sentence, with what resolves it.
    #[schemars(length(max = 2048))]
    pub message: String,
    /// When it passes, if time alone resolves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub opens_at: Option<Time>,
}

/// The revision that waits for approval.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WaitingApproval {
    /// The revision; empty when nothing waits.
    #[serde(deserialize_with = "revision::stored")]
    pub revision: String,
}

/// A Freeze that covers an environment of the pipeline.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CoveringFreeze {
    /// The namespace of the Freeze, where it is not the pipeline's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// The name of the Freeze.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Why, as people read it.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default, length(max = 512))]
    pub reason: String,
    /// The environments that it covers.
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub environments: Vec<String>,
    /// The clusters that it covers, as `NAME` or `NAMESPACE.NAME`, if not all. Absent if there are too many to
    /// list: then it counts for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(max = 317)))]
    pub clusters: Option<Vec<String>>,
    /// When it closes.
    pub times: FreezeTimes,
    /// Why it is invalid. Then it counts as closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub invalid: Option<String>,
}

/// The newest attempt of a check, as its CheckRun has it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CheckStatus {
    /// The CheckRun's name.
    #[schemars(length(max = 253))]
    pub run: String,
    /// The name of the check.
    #[schemars(length(max = 63))]
    pub check: String,
    /// Why the revision is checked.
    pub cause: CheckCause,
    /// The revision.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// The number of earlier attempts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempt: i64,
    /// The verdict.
    pub verdict: CheckVerdict,
    /// A fixed reason for the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
    /// A message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// When it got the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// Where people read more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
}
