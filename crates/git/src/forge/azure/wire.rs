//! What Azure DevOps writes.

use serde::Deserialize;
use serde_json::Value;

use crate::forge::{PullRequest, PullRequestState};
use crate::names::ObjectId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pull {
    pull_request_id: u64,
    status: String,
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    is_draft: bool,
    source_ref_name: String,
    target_ref_name: String,
    last_merge_source_commit: Option<Commit>,
    last_merge_commit: Option<Commit>,
    #[serde(default)]
    pub(super) merge_status: String,
    fork_source: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Commit {
    commit_id: String,
}

#[derive(Deserialize)]
pub(super) struct Page<T> {
    pub(super) value: Vec<T>,
}

#[derive(Deserialize)]
pub(super) struct Identity {
    pub(super) id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhoAmI {
    pub(super) authenticated_user: Identity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference {
    pub(super) ahead_count: u64,
}

impl Pull {
    pub(super) fn is_ours(&self) -> bool {
        self.fork_source.is_none()
    }

    pub(super) fn is_merged(&self) -> bool {
        self.status == "completed"
    }

    pub(super) fn head(&self) -> Option<&str> {
        let commit = self.last_merge_source_commit.as_ref();
        commit.map(|commit| commit.commit_id.as_str())
    }

    pub(super) fn into_ours(self, web: &str) -> PullRequest {
        let state = match self.status.as_str() {
            "active" => PullRequestState::Open,
            "completed" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        let branch = |name: String| match name.strip_prefix("refs/heads/") {
            Some(branch) => branch.to_owned(),
            None => name,
        };
        let id = |commit: Option<Commit>| ObjectId::new(commit?.commit_id).ok();
        PullRequest {
            number: self.pull_request_id,
            url: format!("{web}/pullrequest/{}", self.pull_request_id),
            title: self.title,
            body: self.description,
            state,
            draft: self.is_draft,
            head: branch(self.source_ref_name),
            head_commit: id(self.last_merge_source_commit),
            base: branch(self.target_ref_name),
            // Before the merge it is a trial merge.
            merge_commit: id(self.last_merge_commit).filter(|_| state == PullRequestState::Merged),
        }
    }
}
