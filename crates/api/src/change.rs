//! The Change: one file to be proposed in git.
//!
//! How a form or a command reaches git without knowing git.

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
    status = "ChangeStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A file to be proposed in the git repository Sluice was given for that.",
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
    /// Where the file goes, from the repository's root.
    #[schemars(length(min = 1, max = 1024), extend("x-kubernetes-validations" = [{
        "rule": "!self.startsWith('/') && !('/' + self + '/').contains('/../')",
        "message": "must stay inside the repository"
    }]))]
    pub path: String,
    /// What the file is to hold.
    #[schemars(length(max = 262144))]
    pub content: String,
    /// The pull request's title.
    #[schemars(length(min = 1, max = 256))]
    pub title: String,
    /// Who asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
}

/// What became of a change.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ChangeStatus {
    /// The generation this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ChangePhase>,
    /// A sentence about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where people can look at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How often it was tried.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: i64,
    /// When it will be tried again.
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

/// How far a change is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangePhase {
    /// Nothing was done yet, or it is being tried again.
    Pending,
    /// The pull request is open.
    Proposed,
    /// The file is in git.
    Merged,
    /// The pull request was closed unmerged.
    Abandoned,
    /// It cannot be carried out until somebody edits what is at fault.
    Failed,
}

impl ChangePhase {
    /// Whether there is nothing more to wait for. What failed goes on once what was at fault is
    /// mended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Merged | Self::Abandoned | Self::Failed)
    }
}
