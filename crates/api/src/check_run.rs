//! The CheckRun: one attempt of one check, for one revision in one environment.
//!
//! Its spec is fixed when it is created; afterwards only the result of an `external` check can be added,
//! once. Its status changes when the verdict does, and never with a measurement.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Time,
    lenient::{is_default, lenient},
    pipeline::Check,
    revision, schema,
};

/// What is checked, and for which revision.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "pipelines.weave.works",
    version = "v1alpha1",
    kind = "CheckRun",
    namespaced,
    category = "sluice",
    shortname = "chk",
    status = "CheckRunStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One attempt of one check for one revision in one environment. Sluice creates and deletes it.",
    printcolumn = r#"{"name":"Pipeline","type":"string","jsonPath":".spec.pipeline"}"#,
    printcolumn = r#"{"name":"Environment","type":"string","jsonPath":".spec.environment"}"#,
    printcolumn = r#"{"name":"Check","type":"string","jsonPath":".spec.check.name"}"#,
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".spec.revision"}"#,
    printcolumn = r#"{"name":"Verdict","type":"string","jsonPath":".status.verdict"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-validations" = [
    {
        "rule": "self.pipeline == oldSelf.pipeline && self.environment == oldSelf.environment && self.check == oldSelf.check && self.revision == oldSelf.revision && self.version == oldSelf.version && self.attempt == oldSelf.attempt && self.cause == oldSelf.cause",
        "message": "a check run cannot be edited"
    },
    {
        "rule": "!has(oldSelf.result) || has(self.result) && self.result == oldSelf.result",
        "message": "the result of a check is set once, and that cannot be changed or taken back"
    },
    {
        "rule": "!has(self.result) || has(self.check.external)",
        "message": "only the result of an external check can be reported"
    }
]))]
pub struct CheckRunSpec {
    /// The Pipeline's name, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub pipeline: String,
    /// The environment.
    #[schemars(length(max = 1024))]
    pub environment: String,
    /// The check as the pipeline defined it at the time.
    pub check: Check,
    /// The revision.
    #[serde(deserialize_with = "revision::stored")]
    #[schemars(length(min = 1, max = 256))]
    pub revision: String,
    /// The version of the revision, for people.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// The number of earlier attempts; 0 for the first.
    #[schemars(range(min = 0))]
    pub attempt: i64,
    /// Why it is checked.
    pub cause: CheckCause,
    /// What was reported about an `external` check. Set once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<CheckResult>,
}

impl CheckRunSpec {
    /// The revision for people: with its tag where it is a digest.
    pub fn shown_revision(&self) -> String {
        revision::shown(&self.revision, Some(&self.version))
    }
}

/// Why a revision is checked.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
)]
pub enum CheckCause {
    /// It runs in the environment, and goes on only if it passes (`verify`).
    #[default]
    Verify,
    /// It enters the environment only if it passes (`promotion.checks`).
    Promotion,
}

impl CheckCause {
    /// The cause as it is stored.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Verify => "Verify",
            Self::Promotion => "Promotion",
        }
    }
}

/// What was reported about an `external` check.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CheckResult {
    /// Whether it passed.
    pub passed: bool,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// Where people read more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
    /// The user who reported it; absent where a signed call did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// The SHA-256 of the signed call, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub signature: Option<String>,
}

/// What is known about a check run.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CheckRunStatus {
    /// The generation this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The verdict. Only `Passed` lets the revision go on.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub verdict: CheckVerdict,
    /// A fixed reason for the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
    /// A message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// When the first measurement was taken or the Job was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub started_at: Option<Time>,
    /// When it got the verdict that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub decided_at: Option<Time>,
    /// The value that decided, as text; never an answer's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub observed: Option<String>,
    /// The Job that runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub job: Option<String>,
    /// Where people read more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
}

/// The verdict of a check run.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
)]
pub enum CheckVerdict {
    /// Nothing was measured yet.
    #[default]
    Pending,
    /// It is being measured.
    Running,
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It could not be measured; neither passed nor failed.
    Error,
}

impl CheckVerdict {
    /// The verdict as it is stored.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Passed => "Passed",
            Self::Failed => "Failed",
            Self::Error => "Error",
        }
    }
}
