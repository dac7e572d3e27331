//! Pull requests on Bitbucket Server and Data Center.
//!
//! Peculiarities: it has no labels. Every update and merge has to name the version of the pull request
//! that it is based on.

mod feedback;
mod token_check;
mod wire;

use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use serde_json::{Value, json};

use super::api_client::ApiRequest;
use super::review_requests::{ReviewRequester, bitbucket_metadata};
use super::session::{Authentication, ForgeSession, PagedList, api_url, origin, unusable};
use super::{
    CommitComparison, CommitRange, Error, Forge, ForgeFuture, ListingValidator, MergeMethod,
    MergeOptions, MergeResult, NewPullRequest, PullRequest, PullRequestListing,
    PullRequestMetadata, PullRequestState, PullRequestUpdate, compare,
};
use crate::credentials::Credentials;
use crate::names::BranchName;
use crate::repository_url::RepositoryUrl;
use wire::{ServerPage, ServerPullRequest, has_exception};

/// How many pages of 100 pull requests are read at most.
const MAX_PAGES: u64 = 30;

/// How often an update is attempted if others change the pull request at the same time.
const UPDATE_ATTEMPTS: usize = 3;

/// One repository on a Bitbucket Server.
pub struct BitbucketServer {
    session: ForgeSession,
    project_key: String,
    slug: String,
}

impl BitbucketServer {
    /// `https://host[/below]/scm/KEY/repository.git`, or ssh.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let mut parts: Vec<&str> = url.project().split('/').collect();
        let (Some(slug), Some(key)) = (parts.pop(), parts.pop()) else {
            return Err(unusable(
                "a Bitbucket Server URL ends in project/repository",
            ));
        };
        parts.pop_if(|part| *part == "scm");
        let root: String = parts.iter().map(|part| format!("/{part}")).collect();
        let base = api_url(credentials, || {
            format!("{}{root}/rest/api/1.0", origin(url))
        })?;
        let authentication = match &credentials.token {
            Some(token) => Authentication::Bearer(token.clone()),
            None => Authentication::password(credentials)?,
        };
        Ok(Self {
            session: ForgeSession::new(http, base, credentials, authentication)?,
            project_key: key.to_owned(),
            slug: slug.to_owned(),
        })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let repository = [
            "projects",
            &self.project_key,
            "repos",
            &self.slug,
            "pull-requests",
        ];
        [&repository, rest].concat()
    }

    fn is_from_same_repository(&self, pull: &ServerPullRequest) -> bool {
        let ends = [&pull.from_ref.repository, &pull.to_ref.repository];
        ends.iter().all(|end| {
            end.slug.eq_ignore_ascii_case(&self.slug)
                && end.project.key.eq_ignore_ascii_case(&self.project_key)
        })
    }

    fn branch_reference(&self, branch: &BranchName) -> Value {
        let repository = json!({"slug": self.slug, "project": {"key": self.project_key}});
        json!({"id": branch.reference(), "repository": repository})
    }

    async fn pull_request(
        &self,
        attempted: &'static str,
        number: u64,
    ) -> Result<ServerPullRequest, Error> {
        let number = number.to_string();
        let path = self.path(&[&number]);
        self.session
            .fetch(attempted, Method::GET, &path, None)
            .await
    }

    /// All pull requests within this repository.
    async fn pull_requests(
        &self,
        attempted: &'static str,
        mut query: Vec<(&'static str, String)>,
    ) -> Result<Vec<PullRequest>, Error> {
        query.push(("limit", "100".to_owned()));
        let path = self.path(&[]);
        let list = PagedList {
            attempted,
            path,
            query,
        };
        let found = self
            .session
            .all_pages::<ServerPage<ServerPullRequest>>(&list, MAX_PAGES)
            .await?;
        let found = found
            .into_iter()
            .filter(|pull| self.is_from_same_repository(pull));
        Ok(found.map(ServerPullRequest::into_pull_request).collect())
    }

    /// Sends an update that is computed from the current pull request. Starts again if others change
    /// it meanwhile.
    async fn update_current(
        &self,
        attempted: &'static str,
        number: u64,
        body: impl Fn(&ServerPullRequest) -> Option<Value>,
    ) -> Result<ServerPullRequest, Error> {
        let text = number.to_string();
        let mut attempts = 0;
        loop {
            let current = self.pull_request(attempted, number).await?;
            let Some(body) = body(&current) else {
                return Ok(current);
            };
            let request = ApiRequest::new(attempted, Method::PUT, &self.path(&[&text])).body(body);
            let response = self.session.send(request).await?;
            attempts += 1;
            if attempts == UPDATE_ATTEMPTS
                || !has_exception(&response, "PullRequestOutOfDateException")
            {
                return response.parse();
            }
        }
    }

    /// Declines or reopens a pull request.
    async fn set_open(
        &self,
        attempted: &'static str,
        number: u64,
        open: bool,
    ) -> Result<ServerPullRequest, Error> {
        let current = self.pull_request(attempted, number).await?;
        if open == (current.state == "OPEN") {
            return Ok(current);
        }
        let (text, verb) = (number.to_string(), if open { "reopen" } else { "decline" });
        let request = ApiRequest::new(attempted, Method::POST, &self.path(&[&text, verb]));
        let request = request.query("version", current.version.to_string());
        self.session.send(request.body(json!({}))).await?.parse()
    }
}

/// The current values of all fields that an update replaces: missing ones would be removed.
fn current_fields(pull: &ServerPullRequest) -> Value {
    json!({
        "version": pull.version, "title": pull.title, "description": pull.description,
        "reviewers": pull.reviewers, "draft": pull.draft,
    })
}

/// The merge strategy. `None` is the default of the repository, usually a merge commit.
fn merge_strategy(method: MergeMethod) -> Option<&'static str> {
    match method {
        MergeMethod::Merge => None,
        MergeMethod::Squash => Some("squash"),
        MergeMethod::Rebase => Some("rebase-ff-only"),
    }
}

/// The update that adds these reviewers; `None` if all of them are reviewers already.
fn with_reviewers(current: &ServerPullRequest, people: &[&str]) -> Option<Value> {
    let is_asked = |name: &str| {
        let mut asked = current.reviewers.iter();
        asked.any(|reviewer| reviewer["user"]["name"] == name)
    };
    let missing: Vec<&&str> = people.iter().filter(|name| !is_asked(name)).collect();
    let added = missing.iter().map(|name| json!({"user": {"name": name}}));
    let mut body = current_fields(current);
    body["reviewers"] = current.reviewers.iter().cloned().chain(added).collect();
    (!missing.is_empty()).then_some(body)
}

impl ReviewRequester for BitbucketServer {
    fn request_reviews<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let with_them = |current: &ServerPullRequest| with_reviewers(current, names);
            let asked = self
                .update_current("ask for reviews", number, with_them)
                .await;
            asked.map(drop)
        })
    }
}

impl Forge for BitbucketServer {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let query = vec![
                ("state", "ALL".to_owned()),
                ("direction", "OUTGOING".to_owned()),
                ("at", head.reference()),
            ];
            let mut found = self.pull_requests("look for pull requests", query).await?;
            found.retain(|pull| pull.head == head.as_str());
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let current = self.pull_request("read the pull request", number).await?;
            Ok(current.into_pull_request())
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            let body = json!({
                "title": new.title, "description": new.body, "draft": new.draft,
                "fromRef": self.branch_reference(&new.head), "toRef": self.branch_reference(&new.base),
            });
            let request = ApiRequest::new(attempted, Method::POST, &self.path(&[])).body(body);
            let response = self.session.send(request).await?;
            if has_exception(&response, "DuplicatePullRequestException") {
                return Err(Error::AlreadyExists { attempted });
            }
            if has_exception(&response, "EmptyPullRequestException") {
                return Err(Error::NoDifference { attempted });
            }
            Ok(response.parse::<ServerPullRequest>()?.into_pull_request())
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        update: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "update the pull request";
            // A declined pull request cannot be changed.
            if update.open == Some(true) {
                self.set_open(attempted, number, true).await?;
            }
            let body = |current: &ServerPullRequest| {
                let mut body = current_fields(current);
                if let Some(title) = &update.title {
                    body["title"] = json!(title);
                }
                if let Some(text) = &update.body {
                    body["description"] = json!(text);
                }
                (body != current_fields(current)).then_some(body)
            };
            let changed = self.update_current(attempted, number, body).await?;
            if update.open == Some(false) {
                let closed = self.set_open(attempted, number, false).await?;
                return Ok(closed.into_pull_request());
            }
            Ok(changed.into_pull_request())
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        metadata: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move { bitbucket_metadata(self, number, metadata).await })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let attempted = "merge the pull request";
            let current = self.pull_request(attempted, number).await?;
            if current.state == "MERGED" {
                return Ok(MergeResult::Merged);
            }
            if current.from_ref.latest_commit.as_deref() != Some(merge.head.as_str()) {
                return Err(Error::HeadMoved { attempted });
            }
            let text = number.to_string();
            let request = ApiRequest::new(attempted, Method::POST, &self.path(&[&text, "merge"]))
                .query("version", current.version.to_string())
                .body(
                    merge_strategy(merge.method).map_or(json!({}), |id| json!({"strategyId": id})),
                );
            let response = self.session.send(request).await?;
            if response.status.as_u16() != 409 {
                return response.success().map(|_| MergeResult::Merged);
            }
            let message = response.message();
            match self.get(number).await?.state {
                PullRequestState::Merged => Ok(MergeResult::Merged),
                _ => Err(Error::NotMergeable { attempted, message }),
            }
        })
    }

    fn compare<'a>(&'a self, range: CommitRange<'a>) -> ForgeFuture<'a, CommitComparison> {
        Box::pin(async move {
            let path = [
                "projects",
                &self.project_key,
                "repos",
                &self.slug,
                "commits",
            ];
            compare::bitbucket_server(&self.session, &path, range).await
        })
    }

    fn list_open<'a>(
        &'a self,
        _since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        // Bitbucket has no validators for lists.
        Box::pin(async move {
            let query = vec![("state", "OPEN".to_owned())];
            let open = self
                .pull_requests("list the open pull requests", query)
                .await?;
            Ok(PullRequestListing::without_validator(open))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_but_the_usual_one_has_its_strategy() {
        let methods = [MergeMethod::Merge, MergeMethod::Squash, MergeMethod::Rebase];
        let expected = [None, Some("squash"), Some("rebase-ff-only")];
        assert_eq!(methods.map(merge_strategy), expected);
    }
}
