//! The part of GitHub's API that Gitea and Forgejo share.

use ::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api_client::ApiRequest;
use super::feedback::{ListedComment, cut, with_line};
use super::review_requests::teams_and_people;
use super::session::{ForgeSession, PagedList};
use super::{
    CommentId, CommitState, CommitStatus, Error, MergeMethod, PullRequest, PullRequestHead,
    PullRequestState, PullRequestUpdate,
};
use crate::names::ObjectId;

/// One repository behind an API in the style of GitHub.
pub(super) struct GitHubStyleRepository {
    pub(super) session: ForgeSession,
    pub(super) owner: String,
    pub(super) name: String,
}

impl GitHubStyleRepository {
    /// The repository as the API names it in pull requests.
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    pub(super) fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [&["repos", &self.owner, &self.name], rest].concat()
    }

    pub(super) async fn pull_request(
        &self,
        attempted: &'static str,
        method: Method,
        number: u64,
        body: Option<Value>,
    ) -> Result<GitHubPullRequest, Error> {
        let number = number.to_string();
        let path = self.path(&["pulls", &number]);
        self.session.fetch(attempted, method, &path, body).await
    }

    /// Adds labels: names for GitHub, ids for Gitea.
    pub(super) async fn add_labels(&self, number: u64, labels: Value) -> Result<(), Error> {
        let number = number.to_string();
        let path = self.path(&["issues", &number, "labels"]);
        let body = json!({"labels": labels});
        self.session
            .post("label the pull request", &path, body)
            .await
    }

    /// Teams are named without their organisation.
    pub(super) async fn request_reviews(&self, number: u64, names: &[&str]) -> Result<(), Error> {
        let (teams, people) = teams_and_people(names);
        let teams = teams.iter().filter_map(|team| team.rsplit('/').next());
        let teams: Vec<&str> = teams.collect();
        let number = number.to_string();
        let path = self.path(&["pulls", &number, "requested_reviewers"]);
        let body = json!({"reviewers": people, "team_reviewers": teams});
        self.session.post("ask for reviews", &path, body).await
    }

    pub(super) async fn set_commit_status(
        &self,
        head: &PullRequestHead,
        status: &CommitStatus,
        longest: usize,
    ) -> Result<(), Error> {
        let state = match status.state {
            CommitState::Pending => "pending",
            CommitState::Success => "success",
            CommitState::Failure => "failure",
        };
        let mut body = json!({
            "state": state, "context": status.context,
            "description": cut(&status.description, longest),
        });
        if let Some(url) = &status.url {
            body["target_url"] = json!(url);
        }
        let path = self.path(&["statuses", head.commit.as_str()]);
        let attempted = "set the commit status";
        self.session.post(attempted, &path, body).await
    }

    pub(super) async fn find_comment(
        &self,
        number: u64,
        line: &str,
        page_size: (&'static str, &str),
    ) -> Result<Option<CommentId>, Error> {
        let number = number.to_string();
        let (parameter, size) = page_size;
        let list = PagedList {
            attempted: "look for the comment",
            path: self.path(&["issues", &number, "comments"]),
            query: vec![(parameter, size.to_owned())],
        };
        let (comments, _) = self
            .session
            .all_linked_pages::<GitHubComment>(&list, MAX_COMMENT_PAGES)
            .await?;
        let comments = comments.into_iter().map(|comment| ListedComment {
            id: CommentId::new(comment.id),
            text: comment.body,
        });
        Ok(with_line(comments, line))
    }

    pub(super) async fn comment(&self, number: u64, text: &str) -> Result<CommentId, Error> {
        let number = number.to_string();
        let path = self.path(&["issues", &number, "comments"]);
        let (attempted, body) = ("comment on the pull request", json!({"body": text}));
        let comment =
            self.session
                .fetch::<GitHubComment>(attempted, Method::POST, &path, Some(body));
        Ok(CommentId::new(comment.await?.id))
    }

    pub(super) async fn edit_comment(&self, id: &CommentId, text: &str) -> Result<(), Error> {
        let path = self.path(&["issues", "comments", id.as_str()]);
        let request = ApiRequest::new("edit the comment", Method::PATCH, &path);
        let request = request.body(json!({"body": text}));
        self.session.send(request).await?.success().map(drop)
    }
}

/// How many pages of comments are read at most.
const MAX_COMMENT_PAGES: u64 = 30;

#[derive(Debug, Deserialize)]
struct GitHubComment {
    id: u64,
    #[serde(default)]
    body: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubPullRequest {
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
    /// GitHub's verdict, only in single pull requests.
    pub(super) mergeable_state: Option<String>,
    auto_merge: Option<Value>,
    head: BranchReference,
    base: BranchReference,
}

#[derive(Debug, Deserialize)]
struct BranchReference {
    #[serde(rename = "ref")]
    branch: String,
    label: Option<String>,
    sha: Option<String>,
    repo: Option<HeadRepository>,
}

#[derive(Debug, Deserialize)]
struct HeadRepository {
    full_name: String,
}

impl GitHubPullRequest {
    /// Whether its branch is in this repository. A fork may have a branch of the same name.
    pub(super) fn is_from(&self, full_name: &str) -> bool {
        let repository = self.head.repo.as_ref();
        repository.is_some_and(|repository| repository.full_name.eq_ignore_ascii_case(full_name))
    }

    pub(super) fn head(&self) -> &str {
        &self.head.branch
    }

    /// Takes the name of the head branch from its label, where Gitea names it after the branch is gone.
    pub(super) fn name_head_by_label(&mut self) {
        if let Some(label) = self.head.label.take() {
            self.head.branch = label;
        }
    }

    pub(super) fn into_pull_request(self) -> PullRequest {
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
            // Before the merge this is the commit of a test merge.
            merge_commit: self
                .merge_commit_sha
                .filter(|_| is_merged)
                .and_then(|id| ObjectId::new(id).ok()),
            is_merge_scheduled: self.auto_merge.is_some(),
        }
    }
}

/// The body of a request that changes a pull request.
pub(super) fn update_body(update: &PullRequestUpdate) -> Value {
    let mut body = json!({});
    if let Some(title) = &update.title {
        body["title"] = json!(title);
    }
    if let Some(text) = &update.body {
        body["body"] = json!(text);
    }
    if let Some(open) = update.open {
        body["state"] = json!(if open { "open" } else { "closed" });
    }
    body
}

pub(super) fn merge_method(method: MergeMethod) -> &'static str {
    match method {
        MergeMethod::Merge => "merge",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase",
    }
}
