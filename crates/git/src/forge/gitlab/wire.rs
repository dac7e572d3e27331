//! What GitLab writes.

use serde::Deserialize;
use serde_json::Value;

use crate::forge::{PullRequest, PullRequestState};
use crate::names::ObjectId;

/// GitLab keeps drafts by a mark at the start of the title.
pub(super) const DRAFT: &str = "Draft: ";

#[derive(Deserialize)]
pub(super) struct MergeRequest {
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
    pub(super) head_pipeline: Option<Pipeline>,
    /// The newer word and the older one.
    pub(super) detailed_merge_status: Option<String>,
    pub(super) merge_status: Option<String>,
    #[serde(default)]
    pub(super) reviewers: Vec<User>,
}

#[derive(Deserialize)]
pub(super) struct Pipeline {
    pub(super) status: String,
}

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) id: u64,
}

#[derive(Deserialize)]
pub(super) struct Comparison {
    pub(super) commits: Vec<Value>,
}

impl MergeRequest {
    /// A fork may have a branch of the same name; its merge requests are not ours.
    pub(super) fn is_ours(&self) -> bool {
        self.source_project_id == Some(self.target_project_id)
    }

    pub(super) fn into_ours(self) -> PullRequest {
        let state = match self.state.as_str() {
            "merged" => PullRequestState::Merged,
            "closed" => PullRequestState::Closed,
            // Locked is a merge under way.
            _ => PullRequestState::Open,
        };
        let id = |text: Option<String>| text.and_then(|text| ObjectId::new(text).ok());
        let head_commit = id(self.sha);
        // Where branches are only moved forward there is no commit for the merge.
        let merge_commit = id(self.merge_commit_sha)
            .or_else(|| id(self.squash_commit_sha))
            .or_else(|| head_commit.clone())
            .filter(|_| state == PullRequestState::Merged);
        let title = self.title.strip_prefix(DRAFT).filter(|_| self.draft);
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
        }
    }
}
