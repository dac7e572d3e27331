//! What was last shown on a promotion's pull request, so that it is written again only when it differs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    lenient::{is_default, null_as_default},
    pipeline::FeedbackKind,
};

/// What was last shown on a pull request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShownFeedback {
    /// The number of the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pull_request: Option<i64>,
    /// The commit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_status: Option<ShownCommitStatus>,
    /// The forge's id of the comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub comment_id: Option<String>,
    /// The SHA-256 of the comment's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub comment_digest: Option<String>,
    /// What the forge refused to show, and why. It is tried again when the text changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub warning: Option<String>,
    /// What the forge refused to show the last time.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 2))]
    pub refused: Vec<FeedbackKind>,
}

/// A commit status.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ShownCommitStatus {
    /// The commit it is on.
    #[schemars(length(max = 64))]
    pub commit: String,
    /// What it says.
    pub state: CommitState,
    /// Why.
    #[schemars(length(max = 1024))]
    pub description: String,
}

/// What a commit status says.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitState {
    /// It should not be merged yet.
    Pending,
    /// Nothing but a merge is missing.
    Success,
    /// It should not be merged.
    Failure,
}
