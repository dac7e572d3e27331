//! The responses of GitLab that are read.

use serde::Deserialize;
use serde_json::Value;

use crate::forge::{PullRequest, PullRequestState};
use crate::names::ObjectId;

/// GitLab marks drafts by a prefix of the title.
pub(super) const DRAFT_PREFIX: &str = "Draft: ";

#[derive(Deserialize)]
pub(super) struct GitLabMergeRequest {
    pub(super) iid: u64,
    pub(super) web_url: String,
    pub(super) title: String,
    pub(super) description: Option<String>,
    pub(super) state: String,
    #[serde(default)]
    pub(super) draft: bool,
    pub(super) source_branch: String,
    pub(super) target_branch: String,
    pub(super) source_project_id: Option<u64>,
    pub(super) target_project_id: u64,
    pub(super) sha: Option<String>,
    pub(super) merge_commit_sha: Option<String>,
    pub(super) squash_commit_sha: Option<String>,
    #[serde(default)]
    pub(super) merge_when_pipeline_succeeds: bool,
    pub(super) head_pipeline: Option<GitLabPipeline>,
    /// The newer field and the older one.
    pub(super) detailed_merge_status: Option<String>,
    pub(super) merge_status: Option<String>,
    #[serde(default)]
    pub(super) reviewers: Vec<GitLabUser>,
}

#[derive(Deserialize)]
pub(super) struct GitLabPipeline {
    pub(super) status: String,
    /// What started it.
    #[serde(default)]
    source: String,
}

impl GitLabPipeline {
    /// Whether it only holds statuses that others set, such as ours: CI may still start another one.
    pub(super) fn is_external(&self) -> bool {
        self.source == "external"
    }
}

#[derive(Deserialize)]
pub(super) struct GitLabUser {
    pub(super) id: u64,
}

#[derive(Deserialize)]
pub(super) struct GitLabComparison {
    pub(super) commits: Vec<Value>,
}

impl GitLabMergeRequest {
    /// Whether its branch is in the project itself, not in a fork.
    pub(super) fn is_from_same_repository(&self) -> bool {
        self.source_project_id == Some(self.target_project_id)
    }

    pub(super) fn into_pull_request(self) -> PullRequest {
        let state = match self.state.as_str() {
            "merged" => PullRequestState::Merged,
            "closed" => PullRequestState::Closed,
            // `locked` is a merge in progress.
            _ => PullRequestState::Open,
        };
        let id = |text: Option<String>| text.and_then(|text| ObjectId::new(text).ok());
        let head_commit = id(self.sha);
        // A fast-forward merge has no merge commit.
        let merge_commit = id(self.merge_commit_sha)
            .or_else(|| id(self.squash_commit_sha))
            .or_else(|| head_commit.clone())
            .filter(|_| state == PullRequestState::Merged);
        let title = self.title.strip_prefix(DRAFT_PREFIX).filter(|_| self.draft);
        PullRequest {
            number: self.iid,
            url: self.web_url,
            title: title.unwrap_or(&self.title).to_owned(),
            body: self.description.unwrap_or_default(),
            state,
            draft: self.draft,
            head: self.source_branch,
            head_commit,
            base: self.target_branch,
            merge_commit,
            is_merge_scheduled: self.merge_when_pipeline_succeeds,
        }
    }
}
