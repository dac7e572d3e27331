//! Merge requests on gitlab.com and self-managed GitLab.
//!
//! A project may be in nested groups. A GitLab that is served below a path of its host cannot be told
//! from one more group, so that the secret has to contain the URL of the API.

mod feedback;
mod token_check;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::api_client::{ApiRequest, ApiResponse};
use super::review_requests::{ReviewRequester, request_from_each, teams_and_people};
use super::session::{
    Authentication, ForgeSession, PagedList, api_url, origin, project_below, unusable,
};
use super::{
    CommitComparison, CommitRange, Error, Forge, ForgeFuture, ListingValidator, MergeMethod,
    MergeOptions, MergeResult, NewPullRequest, PullRequest, PullRequestListing,
    PullRequestMetadata, PullRequestState, PullRequestUpdate, compare,
};
use crate::credentials::Credentials;
use crate::names::{BranchName, ObjectId};
use crate::repository_url::RepositoryUrl;
use wire::{DRAFT_PREFIX, GitLabComparison, GitLabMergeRequest, GitLabUser};

/// How many pages of 100 merge requests are read at most.
const MAX_PAGES: u64 = 30;

/// How many merge requests without a pipeline are remembered.
const MAX_WITHOUT_PIPELINE: usize = 1000;

/// One project on a GitLab.
pub struct GitLab {
    session: ForgeSession,
    project: String,
    /// The head commits of merge requests that had no pipeline when the merge was requested.
    without_pipeline: Mutex<HashMap<u64, ObjectId>>,
}

impl GitLab {
    /// The project is the whole path of the repository.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let base = api_url(credentials, || format!("{}/api/v4", origin(url)))?;
        let project = project_below(url.project(), &base, "/api/v4").to_owned();
        if !project.contains('/') {
            return Err(unusable("a GitLab URL ends in group/project"));
        }
        // Personal, project and group tokens, which some keep as a password.
        let authentication = Authentication::Bearer(Authentication::token(credentials)?);
        Ok(Self {
            session: ForgeSession::new(http, base, credentials, authentication)?,
            project,
            without_pipeline: Mutex::default(),
        })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [&["projects", self.project.as_str()], rest].concat()
    }

    async fn merge_request(
        &self,
        attempted: &'static str,
        method: Method,
        number: u64,
        body: Option<Value>,
    ) -> Result<GitLabMergeRequest, Error> {
        let number = number.to_string();
        let path = self.path(&["merge_requests", &number]);
        self.session.fetch(attempted, method, &path, body).await
    }

    fn list(&self, attempted: &'static str, state: &str) -> PagedList<'_> {
        PagedList {
            attempted,
            path: self.path(&["merge_requests"]),
            query: vec![
                ("state", state.to_owned()),
                ("order_by", "created_at".to_owned()),
                ("per_page", "100".to_owned()),
            ],
        }
    }

    /// Whether the branches differ: GitLab would also open a merge request without a difference.
    async fn has_difference(
        &self,
        attempted: &'static str,
        new: &NewPullRequest,
    ) -> Result<bool, Error> {
        let path = self.path(&["repository", "compare"]);
        let request = ApiRequest::new(attempted, Method::GET, &path)
            .query("from", new.base.as_str())
            .query("to", new.head.as_str());
        let comparison: GitLabComparison = self.session.send(request).await?.parse()?;
        Ok(!comparison.commits.is_empty())
    }

    async fn user_id(&self, name: &str) -> Result<u64, Error> {
        let attempted = "find a reviewer";
        let request = ApiRequest::new(attempted, Method::GET, &["users"]).query("username", name);
        let found: Vec<GitLabUser> = self.session.send(request).await?.parse()?;
        let user = found.first().ok_or_else(|| Error::Refused {
            attempted,
            message: format!("there is no user {name:?}"),
        })?;
        Ok(user.id)
    }

    /// Merges it now, if its head is the expected one.
    async fn request_merge(
        &self,
        attempted: &'static str,
        number: u64,
        merge: &MergeOptions,
    ) -> Result<ApiResponse, Error> {
        let number = number.to_string();
        let path = self.path(&["merge_requests", &number, "merge"]);
        let request = ApiRequest::new(attempted, Method::PUT, &path).body(merge_body(merge));
        self.session.send(request).await
    }

    /// Why a merge request is not merged yet: the verdict of GitLab, or a CI pipeline that has not
    /// passed, whether or not the project requires that.
    fn obstacle(&self, current: &GitLabMergeRequest, head: &ObjectId) -> Option<String> {
        let status = current.detailed_merge_status.as_ref();
        let status = status.or(current.merge_status.as_ref());
        let status = status.map_or("unknown", String::as_str);
        if !matches!(status, "mergeable" | "can_be_merged") {
            return Some(format!("its merge status is {status}"));
        }
        if let Some(pipeline) = &current.head_pipeline {
            if !matches!(pipeline.status.as_str(), "success" | "skipped") {
                return Some(format!("its pipeline is {}", pipeline.status));
            }
            if !pipeline.is_external() {
                return None;
            }
        }
        // A pipeline starts some time after a push: only the second time it is missing counts.
        let mut known = self.without_pipeline.lock();
        if known.len() > MAX_WITHOUT_PIPELINE {
            known.clear();
        }
        let before = known.insert(current.iid, head.clone());
        let is_new = before.as_ref() != Some(head);
        is_new.then(|| "a pipeline may still start for it".to_owned())
    }
}

fn merge_body(merge: &MergeOptions) -> Value {
    let mut body = json!({"sha": merge.head.as_str()});
    // The other methods are a setting of the project.
    if merge.method == MergeMethod::Squash {
        body["squash"] = json!(true);
    }
    body
}

/// The result of a merge that GitLab refused, by the current state of the merge request.
fn classify_refusal(
    attempted: &'static str,
    current: &PullRequest,
    merge: &MergeOptions,
    message: String,
) -> Result<MergeResult, Error> {
    if current.state == PullRequestState::Merged {
        return Ok(MergeResult::Merged);
    }
    Err(match current.head_commit.as_ref() == Some(&merge.head) {
        true => Error::NotMergeable { attempted, message },
        false => Error::HeadMoved { attempted },
    })
}

/// Leaves out merge requests from forks, which may have a branch of the same name.
fn from_same_repository(found: Vec<GitLabMergeRequest>) -> Vec<PullRequest> {
    let own = found
        .into_iter()
        .filter(GitLabMergeRequest::is_from_same_repository);
    own.map(GitLabMergeRequest::into_pull_request).collect()
}

impl ReviewRequester for GitLab {
    fn request_reviews<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let attempted = "ask for reviews";
            // The request replaces the list of reviewers.
            let current = self
                .merge_request(attempted, Method::GET, number, None)
                .await?;
            let mut ids: Vec<u64> = current.reviewers.iter().map(|user| user.id).collect();
            for name in names {
                ids.push(self.user_id(name).await?);
            }
            ids.sort_unstable();
            ids.dedup();
            let body = json!({"reviewer_ids": ids});
            let asked = self
                .merge_request(attempted, Method::PUT, number, Some(body))
                .await;
            asked.map(drop)
        })
    }
}

impl Forge for GitLab {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let mut list = self.list("look for merge requests", "all");
            list.query.push(("source_branch", head.as_str().to_owned()));
            let (found, _) = self.session.all_linked_pages(&list, MAX_PAGES).await?;
            let mut found = from_same_repository(found);
            found.retain(|pull| pull.head == head.as_str());
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let attempted = "read the merge request";
            let found = self
                .merge_request(attempted, Method::GET, number, None)
                .await?;
            Ok(found.into_pull_request())
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a merge request";
            if !self.has_difference(attempted, new).await? {
                return Err(Error::NoDifference { attempted });
            }
            let prefix = if new.draft { DRAFT_PREFIX } else { "" };
            let body = json!({
                "source_branch": new.head.as_str(), "target_branch": new.base.as_str(),
                "title": format!("{prefix}{}", new.title), "description": new.body,
            });
            let path = self.path(&["merge_requests"]);
            let request = ApiRequest::new(attempted, Method::POST, &path).body(body);
            let response = self.session.send(request).await?;
            if response.status.as_u16() == 409 {
                return Err(Error::AlreadyExists { attempted });
            }
            Ok(response.parse::<GitLabMergeRequest>()?.into_pull_request())
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        update: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "update the merge request";
            let current = self
                .merge_request(attempted, Method::GET, number, None)
                .await?;
            let mut body = json!({});
            if let Some(title) = &update.title {
                let prefix = if current.draft { DRAFT_PREFIX } else { "" };
                body["title"] = json!(format!("{prefix}{title}"));
            }
            if let Some(text) = &update.body {
                body["description"] = json!(text);
            }
            // GitLab refuses to close what is closed.
            if let Some(open) = update
                .open
                .filter(|open| *open != (current.state == "opened"))
            {
                body["state_event"] = json!(if open { "reopen" } else { "close" });
            }
            if body.as_object().is_some_and(serde_json::Map::is_empty) {
                return Ok(current.into_pull_request());
            }
            let changed = self
                .merge_request(attempted, Method::PUT, number, Some(body))
                .await?;
            Ok(changed.into_pull_request())
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        metadata: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move {
            // GitLab creates labels that do not exist.
            if !metadata.labels.is_empty() {
                let body = json!({"add_labels": metadata.labels.join(",")});
                let attempted = "label the merge request";
                self.merge_request(attempted, Method::PUT, number, Some(body))
                    .await?;
            }
            let (teams, people) = teams_and_people(&metadata.reviewers);
            let mut notes = request_from_each(self, number, &people).await?;
            let note =
                |team| format!("GitLab does not ask groups for reviews: {team} was left out");
            notes.extend(teams.into_iter().map(note));
            Ok(notes)
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let attempted = "merge the merge request";
            let current = self
                .merge_request(attempted, Method::GET, number, None)
                .await?;
            let obstacle = self.obstacle(&current, &merge.head);
            if let Some(message) = obstacle {
                return classify_refusal(attempted, &current.into_pull_request(), merge, message);
            }
            let response = self.request_merge(attempted, number, merge).await?;
            let message = response.message();
            match response.status.as_u16() {
                409 => Err(Error::HeadMoved { attempted }),
                // This user may read the merge request but not merge it.
                401 => Err(Error::Forbidden { attempted, message }),
                405 | 406 | 422 => {
                    let current = self.get(number).await?;
                    classify_refusal(attempted, &current, merge, message)
                }
                _ => {
                    let merged: GitLabMergeRequest = response.parse()?;
                    Ok(match merged.state.as_str() {
                        "merged" => MergeResult::Merged,
                        _ => MergeResult::UnderWay,
                    })
                }
            }
        })
    }

    fn cancel_scheduled_merge(&self, number: u64) -> ForgeFuture<'_, ()> {
        Box::pin(async move {
            let attempted = "keep the merge request from being merged by itself";
            let text = number.to_string();
            let path = [
                "merge_requests",
                &text,
                "cancel_merge_when_pipeline_succeeds",
            ];
            let request = ApiRequest::new(attempted, Method::POST, &self.path(&path));
            let response = self.session.send(request.body(json!({}))).await?;
            let message = response.success()?.message();
            // GitLab answers 201 whether or not it cancelled anything.
            match self.get(number).await?.is_merge_scheduled {
                true => Err(Error::Refused { attempted, message }),
                false => Ok(()),
            }
        })
    }

    fn compare<'a>(&'a self, range: CommitRange<'a>) -> ForgeFuture<'a, CommitComparison> {
        Box::pin(async move {
            let path = self.path(&["repository", "compare"]);
            compare::gitlab(&self.session, &path, range).await
        })
    }

    fn list_open<'a>(
        &'a self,
        since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        Box::pin(async move {
            let list = self.list("list the open merge requests", "opened");
            let session = &self.session;
            session
                .list_if_changed(&list, MAX_PAGES, since, from_same_repository)
                .await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_squash_is_asked_for() {
        let commit = "b".repeat(40);
        let head = ObjectId::new(&*commit).expect("an id");
        let body = |method| {
            let head = head.clone();
            merge_body(&MergeOptions { head, method })
        };
        let squashed = json!({"sha": commit, "squash": true});
        assert_eq!(body(MergeMethod::Squash), squashed);
        for method in [MergeMethod::Merge, MergeMethod::Rebase] {
            assert_eq!(body(method), json!({"sha": commit}));
        }
    }
}
