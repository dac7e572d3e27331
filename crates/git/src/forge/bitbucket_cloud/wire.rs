//! What Bitbucket Cloud writes.

use serde::Deserialize;

use crate::forge::{PullRequest, PullRequestState};

#[derive(Deserialize)]
pub(super) struct Pull {
    pub(super) id: u64,
    pub(super) title: String,
    pub(super) description: Option<String>,
    pub(super) state: String,
    #[serde(default)]
    pub(super) draft: bool,
    pub(super) source: End,
    pub(super) destination: End,
    pub(super) merge_commit: Option<Commit>,
    #[serde(default)]
    pub(super) reviewers: Vec<Account>,
    links: Links,
}

#[derive(Deserialize)]
pub(super) struct End {
    pub(super) branch: Branch,
    commit: Option<Commit>,
    pub(super) repository: Option<Repository>,
}

#[derive(Deserialize)]
pub(super) struct Branch {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Commit {
    pub(super) hash: String,
}

#[derive(Deserialize)]
pub(super) struct Repository {
    pub(super) full_name: String,
}

#[derive(Deserialize)]
struct Links {
    html: Link,
}

#[derive(Deserialize)]
struct Link {
    href: String,
}

#[derive(Deserialize)]
pub(super) struct Member {
    pub(super) user: Account,
}

#[derive(Deserialize)]
pub(super) struct Account {
    pub(super) uuid: String,
    nickname: Option<String>,
    account_id: Option<String>,
    display_name: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Page<T> {
    pub(super) values: Vec<T>,
    pub(super) next: Option<String>,
}

impl Pull {
    pub(super) fn is_open(&self) -> bool {
        self.state == "OPEN"
    }

    pub(super) fn short_head(&self) -> Option<&str> {
        let commit = self.source.commit.as_ref();
        commit.map(|commit| commit.hash.as_str())
    }

    /// Without commits: what it says of them is too short to name one.
    pub(super) fn into_ours(self) -> PullRequest {
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
        }
    }
}

impl Account {
    pub(super) fn is(&self, name: &str) -> bool {
        let names = [&self.nickname, &self.account_id, &self.display_name];
        self.uuid == name || names.into_iter().flatten().any(|known| known == name)
    }
}
