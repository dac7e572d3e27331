//! The status of a PipelineTrigger: the newest event and the newest run.
//!
//! Holds the fields of the operator's first and last releases side by side, so
//! that tools written for either keep working.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Condition,
    lenient::{is_default, null_as_default},
    schema,
};

/// The newest event and the newest run.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PipelineTriggerStatus {
    /// The generation this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The newest revision or image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_event: Option<String>,
    /// The newest run's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_pipeline_run: Option<String>,
    /// How often the newest run was repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_pipeline_retry: Option<i64>,
    /// The last handled request for a run: the value of its annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// State for a GitRepository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_repository: Option<GitRepositoryState>,
    /// State for an ImagePolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_policy: Option<ImagePolicyState>,
    /// State for a PullRequest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branches: Option<Branches>,
    /// `Ready`, and the operator's own condition types.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// The newest revision of a git repository.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GitRepositoryState {
    /// The branch or other reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// The commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_id: Option<String>,
    /// The GitRepository's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_name: Option<String>,
    /// The run's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_pipeline_run: Option<String>,
    /// The event as JSON text, which parameters refer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// How the run went.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// The newest tag of an image.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImagePolicyState {
    /// The part of the image's name before its last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_name: Option<String>,
    /// The last part of the image's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
    /// The tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_version: Option<String>,
    /// The run's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_pipeline_run: Option<String>,
    /// The event as JSON text, which parameters refer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// How the run went.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// The branches of open pull requests.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Branches {
    /// State by branch name.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    pub branch: BTreeMap<String, BranchState>,
}

/// One branch of an open pull request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BranchState {
    /// The branch's name.
    pub name: String,
    /// Its newest commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The run's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_pipeline_run: Option<String>,
    /// The pull request as JSON text, until parameters have been filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// How the run went.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}
