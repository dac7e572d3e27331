//! Pull requests as GitHub and those who follow it write them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{MergeMethod, PullRequest, PullRequestState, PullRequestUpdate};
use crate::names::ObjectId;

#[derive(Debug, Deserialize)]
pub(super) struct Pull {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) node_id: String,
    html_url: String,
    title: String,
    body: Option<String>,
    state: String,
    #[serde(default)]
    draft: bool,
    merged: Option<bool>,
    merged_at: Option<String>,
    merge_commit_sha: Option<String>,
    head: End,
    base: End,
}

#[derive(Debug, Deserialize)]
struct End {
    #[serde(rename = "ref")]
    branch: String,
    sha: Option<String>,
    repo: Option<Repository>,
}

#[derive(Debug, Deserialize)]
struct Repository {
    full_name: String,
}

impl Pull {
    /// A fork may have a branch of the same name; its pull requests are not ours.
    pub(super) fn is_from(&self, project: &str) -> bool {
        let repository = self.head.repo.as_ref();
        repository.is_some_and(|repository| repository.full_name.eq_ignore_ascii_case(project))
    }

    pub(super) fn head(&self) -> &str {
        &self.head.branch
    }

    pub(super) fn into_ours(self) -> PullRequest {
        let is_merged = self.merged.unwrap_or(self.merged_at.is_some());
        let state = match self.state.as_str() {
            _ if is_merged => PullRequestState::Merged,
            "open" => PullRequestState::Open,
            _ => PullRequestState::Closed,
        };
        PullRequest {
            number: self.number,
            url: self.html_url,
            title: self.title,
            body: self.body.unwrap_or_default().replace("\r\n", "\n"),
            state,
            draft: self.draft,
            head: self.head.branch,
            head_commit: self.head.sha.and_then(|id| ObjectId::new(id).ok()),
            base: self.base.branch,
            // Before the merge it is a trial merge.
            merge_commit: self
                .merge_commit_sha
                .filter(|_| is_merged)
                .and_then(|id| ObjectId::new(id).ok()),
        }
    }
}

pub(super) fn changes(changes: &PullRequestUpdate) -> Value {
    let mut body = json!({});
    if let Some(title) = &changes.title {
        body["title"] = json!(title);
    }
    if let Some(text) = &changes.body {
        body["body"] = json!(text);
    }
    if let Some(open) = changes.open {
        body["state"] = json!(if open { "open" } else { "closed" });
    }
    body
}

/// Teams are named without their organisation.
pub(super) fn reviewers(reviewers: &[&str]) -> Value {
    let (teams, people) = teams_and_people(reviewers);
    let teams: Vec<&str> = teams
        .iter()
        .filter_map(|team| team.rsplit('/').next())
        .collect();
    json!({"reviewers": people, "team_reviewers": teams})
}

/// A reviewer with a slash is a team.
pub(super) fn teams_and_people<T: AsRef<str>>(reviewers: &[T]) -> (Vec<&str>, Vec<&str>) {
    let names = reviewers.iter().map(AsRef::as_ref);
    names.partition(|name| name.contains('/'))
}

pub(super) fn method(method: MergeMethod) -> &'static str {
    match method {
        MergeMethod::Merge => "merge",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase",
    }
}
