//! The responses of Azure DevOps that are read.

use serde::Deserialize;
use serde_json::Value;

use crate::forge::session::ListPage;
use crate::forge::{PullRequest, PullRequestState};
use crate::names::ObjectId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AzurePullRequest {
    pull_request_id: u64,
    status: String,
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    is_draft: bool,
    source_ref_name: String,
    target_ref_name: String,
    last_merge_source_commit: Option<AzureCommit>,
    last_merge_commit: Option<AzureCommit>,
    #[serde(default)]
    pub(super) merge_status: String,
    fork_source: Option<Value>,
    auto_complete_set_by: Option<AzureIdentity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureCommit {
    commit_id: String,
}

/// How many pull requests a page has.
pub(super) const PAGE_SIZE: usize = 100;

#[derive(Deserialize)]
pub(super) struct PullRequestPage {
    value: Vec<AzurePullRequest>,
}

impl ListPage for PullRequestPage {
    type Item = AzurePullRequest;
    const PARAMETER: &'static str = "$skip";
    const FIRST: u64 = 0;

    fn next(&self, current: u64) -> Option<u64> {
        let is_full = self.value.len() >= PAGE_SIZE;
        is_full.then_some(current + PAGE_SIZE as u64)
    }

    fn into_items(self) -> Vec<AzurePullRequest> {
        self.value
    }
}

#[derive(Deserialize)]
pub(super) struct AzureIdentities {
    pub(super) value: Vec<AzureIdentity>,
}

#[derive(Deserialize)]
pub(super) struct AzureIdentity {
    pub(super) id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AzureDifference {
    pub(super) ahead_count: u64,
}

impl AzurePullRequest {
    pub(super) fn is_from_same_repository(&self) -> bool {
        self.fork_source.is_none()
    }

    pub(super) fn is_merged(&self) -> bool {
        self.status == "completed"
    }

    pub(super) fn head(&self) -> Option<&str> {
        let commit = self.last_merge_source_commit.as_ref();
        commit.map(|commit| commit.commit_id.as_str())
    }

    pub(super) fn into_pull_request(self, web: &str) -> PullRequest {
        let state = match self.status.as_str() {
            "active" => PullRequestState::Open,
            "completed" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        let branch = |name: String| match name.strip_prefix("refs/heads/") {
            Some(branch) => branch.to_owned(),
            None => name,
        };
        let id = |commit: Option<AzureCommit>| ObjectId::new(commit?.commit_id).ok();
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
            // Before the merge this is the commit of a test merge.
            merge_commit: id(self.last_merge_commit).filter(|_| state == PullRequestState::Merged),
            is_merge_scheduled: self
                .auto_complete_set_by
                .is_some_and(|by| by.id != super::NOBODY),
        }
    }
}
