//! The Change: one file to propose in git, for forms and commands that do not use git themselves.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Condition, Time,
    lenient::{is_default, null_as_default},
    schema,
};

/// The file to propose.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "pipelines.weave.works",
    version = "v1alpha1",
    kind = "Change",
    namespaced,
    category = "sluice",
    shortname = "chg",
    status = "ChangeStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A file that Sluice proposes as a pull request in the repository of `--authoring-url`.",
    printcolumn = r#"{"name":"Path","type":"string","jsonPath":".spec.path"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.url"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-validations" = [{
    "rule": "self == oldSelf",
    "message": "a change cannot be edited; create another"
}]))]
pub struct ChangeSpec {
    /// The path of the file, from the root of the repository.
    #[schemars(length(min = 1, max = 1024), extend("x-kubernetes-validations" = [{
        "rule": "!self.startsWith('/') && !('/' + self + '/').contains('/../')",
        "message": "must stay inside the repository"
    }]))]
    pub path: String,
    /// The content of the file.
    #[schemars(length(max = 262144))]
    pub content: String,
    /// The pull request's title.
    #[schemars(length(min = 1, max = 256))]
    pub title: String,
    /// The user who proposes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
}

/// The state of a Change.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ChangeStatus {
    /// The generation this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ChangePhase>,
    /// A message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The URL of the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The number of attempts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: i64,
    /// When the next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub next_attempt: Option<Time>,
    /// `Ready`, for tools that wait for it.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// The phase of a Change.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangePhase {
    /// It has not been proposed yet, or is retried.
    Pending,
    /// The pull request is open.
    Proposed,
    /// The file is in git.
    Merged,
    /// The pull request was closed unmerged.
    Abandoned,
    /// It fails until somebody edits what is at fault.
    Failed,
}

impl ChangePhase {
    /// Whether it has ended. A failed one goes on once what is at fault is edited.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Merged | Self::Abandoned | Self::Failed)
    }
}
