//! The responses of Bitbucket Cloud that are read.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::forge::session::ListPage;
use crate::forge::{PullRequest, PullRequestState};

#[derive(Deserialize)]
pub(super) struct CloudPullRequest {
    pub(super) id: u64,
    pub(super) title: String,
    pub(super) description: Option<String>,
    pub(super) state: String,
    #[serde(default)]
    pub(super) draft: bool,
    pub(super) source: CloudBranchReference,
    pub(super) destination: CloudBranchReference,
    pub(super) merge_commit: Option<CloudCommit>,
    #[serde(default)]
    pub(super) reviewers: Vec<CloudAccount>,
    links: CloudLinks,
}

#[derive(Deserialize)]
pub(super) struct CloudBranchReference {
    pub(super) branch: CloudBranch,
    commit: Option<CloudCommit>,
    pub(super) repository: Option<CloudRepository>,
}

#[derive(Deserialize)]
pub(super) struct CloudBranch {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct CloudCommit {
    pub(super) hash: String,
}

#[derive(Deserialize)]
pub(super) struct CloudRepository {
    pub(super) full_name: String,
}

#[derive(Deserialize)]
struct CloudLinks {
    html: CloudLink,
}

#[derive(Deserialize)]
struct CloudLink {
    href: String,
}

#[derive(Deserialize)]
pub(super) struct CloudMember {
    pub(super) user: CloudAccount,
}

#[derive(Deserialize)]
pub(super) struct CloudAccount {
    pub(super) uuid: String,
    nickname: Option<String>,
    account_id: Option<String>,
    display_name: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct CloudPage<T> {
    values: Vec<T>,
    next: Option<String>,
}

impl<T: DeserializeOwned> ListPage for CloudPage<T> {
    type Item = T;
    const PARAMETER: &'static str = "page";
    const FIRST: u64 = 1;

    fn next(&self, current: u64) -> Option<u64> {
        self.next.is_some().then_some(current + 1)
    }

    fn into_items(self) -> Vec<T> {
        self.values
    }
}

impl CloudPullRequest {
    pub(super) fn is_open(&self) -> bool {
        self.state == "OPEN"
    }

    pub(super) fn short_head(&self) -> Option<&str> {
        let commit = self.source.commit.as_ref();
        commit.map(|commit| commit.hash.as_str())
    }

    /// Without commits, whose ids are abbreviated in the response.
    pub(super) fn into_pull_request(self) -> PullRequest {
        let state = match self.state.as_str() {
            "OPEN" => PullRequestState::Open,
            "MERGED" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        PullRequest {
            number: self.id,
            url: self.links.html.href,
            title: self.title,
            body: self.description.unwrap_or_default(),
            state,
            draft: self.draft,
            head: self.source.branch.name,
            head_commit: None,
            base: self.destination.branch.name,
            merge_commit: None,
            is_merge_scheduled: false,
        }
    }
}

impl CloudAccount {
    pub(super) fn is_called(&self, name: &str) -> bool {
        let names = [&self.nickname, &self.account_id, &self.display_name];
        self.uuid == name || names.into_iter().flatten().any(|own| own == name)
    }
}
