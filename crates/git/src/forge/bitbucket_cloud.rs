//! Pull requests on Bitbucket Cloud.
//!
//! Peculiarities: it has no labels, cannot reopen declined pull requests, abbreviates commit ids to
//! twelve digits, and takes no expected commit for a merge, so that it is compared just before.

mod feedback;
mod reviewers;
mod token_check;
mod wire;

use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use serde_json::{Value, json};

use super::api_client::ApiRequest;
use super::review_requests::bitbucket_metadata;
use super::session::{Authentication, ForgeSession, ListPage, PagedList, api_url, unusable};
use super::{
    CommitComparison, CommitRange, Error, Forge, ForgeFuture, ListingValidator, MergeMethod,
    MergeOptions, MergeResult, NewPullRequest, PullRequest, PullRequestListing,
    PullRequestMetadata, PullRequestState, PullRequestUpdate, compare,
};
use crate::credentials::Credentials;
use crate::names::{BranchName, ObjectId};
use crate::repository_url::RepositoryUrl;
use wire::{CloudCommit, CloudPage, CloudPullRequest};

/// The largest page of pull requests.
const PAGE_SIZE: &str = "50";

/// How many pages are read at most.
const MAX_PAGES: u64 = 60;

/// One repository on bitbucket.org.
pub struct BitbucketCloud {
    session: ForgeSession,
    workspace: String,
    slug: String,
}

/// Access tokens are bearer tokens. API tokens and app passwords need the user name.
fn authentication(credentials: &Credentials) -> Result<Authentication, Error> {
    let Some(token) = &credentials.token else {
        return Authentication::password(credentials);
    };
    let text = token.expose_text().unwrap_or_default();
    let is_personal = text.starts_with("ATATT") || text.starts_with("ATBB");
    match &credentials.username {
        Some(username) if is_personal => Ok(Authentication::Basic(username.clone(), token.clone())),
        None if is_personal => Err(unusable(
            "the token of a person goes with their e-mail address as username",
        )),
        _ => Ok(Authentication::Bearer(token.clone())),
    }
}

impl BitbucketCloud {
    /// `https://bitbucket.org/workspace/repository`, or ssh.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let is_bitbucket_org = matches!(url.host(), "bitbucket.org" | "altssh.bitbucket.org");
        if !is_bitbucket_org && credentials.api_url.is_none() {
            return Err(unusable("Bitbucket Cloud is at bitbucket.org"));
        }
        let base = api_url(credentials, || "https://api.bitbucket.org/2.0".to_owned())?;
        let parts = url.project().split_once('/');
        let Some((workspace, slug)) = parts.filter(|(_, slug)| !slug.contains('/')) else {
            return Err(unusable("a Bitbucket URL ends in workspace/repository"));
        };
        Ok(Self {
            session: ForgeSession::new(http, base, credentials, authentication(credentials)?)?,
            workspace: workspace.to_owned(),
            slug: slug.to_owned(),
        })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [&["repositories", &self.workspace, &self.slug], rest].concat()
    }

    async fn pull_request(
        &self,
        attempted: &'static str,
        method: Method,
        path: &[&str],
        body: Option<Value>,
    ) -> Result<CloudPullRequest, Error> {
        let path = self.path(&[&["pullrequests"], path].concat());
        self.session.fetch(attempted, method, &path, body).await
    }

    async fn all<P: ListPage>(
        &self,
        attempted: &'static str,
        path: &[&str],
        mut query: Vec<(&'static str, String)>,
    ) -> Result<Vec<P::Item>, Error> {
        query.push(("pagelen", PAGE_SIZE.to_owned()));
        let path = path.to_vec();
        let list = PagedList {
            attempted,
            path,
            query,
        };
        self.session.all_pages::<P>(&list, MAX_PAGES).await
    }

    /// Pull requests from this repository, newest first.
    async fn pull_requests(
        &self,
        attempted: &'static str,
        states: &[&str],
        filter: Option<String>,
    ) -> Result<Vec<PullRequest>, Error> {
        let states = states.iter().map(|state| ("state", (*state).to_owned()));
        let query: Vec<_> = states.chain(filter.map(|filter| ("q", filter))).collect();
        let path = self.path(&["pullrequests"]);
        let found = self
            .all::<CloudPage<CloudPullRequest>>(attempted, &path, query)
            .await?;
        let own = format!("{}/{}", self.workspace, self.slug);
        let is_from_same_repository = |pull: &CloudPullRequest| {
            let from = pull.source.repository.as_ref();
            from.is_some_and(|from| from.full_name.eq_ignore_ascii_case(&own))
        };
        let found = found.into_iter().filter(is_from_same_repository);
        let mut found: Vec<PullRequest> = found.map(CloudPullRequest::into_pull_request).collect();
        found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
        Ok(found)
    }

    /// The full id of a commit; `None` if it does not exist any more.
    async fn commit_id(
        &self,
        attempted: &'static str,
        hash: &str,
    ) -> Result<Option<ObjectId>, Error> {
        let request = ApiRequest::new(attempted, Method::GET, &self.path(&["commit", hash]));
        match self.session.send(request).await?.parse::<CloudCommit>() {
            Ok(commit) => Ok(ObjectId::new(commit.hash).ok()),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Completes a pull request with the full ids of its commits.
    async fn with_commits(
        &self,
        attempted: &'static str,
        pull: CloudPullRequest,
    ) -> Result<PullRequest, Error> {
        let (head, merge) = (pull.short_head().map(str::to_owned), &pull.merge_commit);
        let merge = merge.as_ref().map(|commit| commit.hash.clone());
        let mut pull = pull.into_pull_request();
        if let Some(head) = head {
            pull.head_commit = self.commit_id(attempted, &head).await?;
        }
        if let Some(merge) = merge.filter(|_| pull.state == PullRequestState::Merged) {
            pull.merge_commit = self.commit_id(attempted, &merge).await?;
        }
        Ok(pull)
    }
}

/// The current values of all fields that an update replaces.
fn current_fields(pull: &CloudPullRequest) -> Value {
    let reviewers = pull.reviewers.iter().map(|user| json!({"uuid": user.uuid}));
    json!({
        "title": pull.title, "description": pull.description,
        "reviewers": reviewers.collect::<Vec<_>>(), "draft": pull.draft,
    })
}

fn merge_strategy(method: MergeMethod) -> &'static str {
    match method {
        MergeMethod::Merge => "merge_commit",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase_fast_forward",
    }
}

fn quoted(branch: &BranchName) -> String {
    format!("\"{}\"", branch.as_str().replace('"', "\\\""))
}

impl Forge for BitbucketCloud {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let states = ["OPEN", "MERGED", "DECLINED", "SUPERSEDED"];
            let filter = format!("source.branch.name = {}", quoted(head));
            let attempted = "look for pull requests";
            let mut found = self.pull_requests(attempted, &states, Some(filter)).await?;
            found.retain(|pull| pull.head == head.as_str());
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let (attempted, number) = ("read the pull request", number.to_string());
            let pull = self
                .pull_request(attempted, Method::GET, &[&number], None)
                .await?;
            self.with_commits(attempted, pull).await
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            // Bitbucket would overwrite the text of an existing pull request.
            let filter = format!("source.branch.name = {}", quoted(&new.head));
            let open = self
                .pull_requests(attempted, &["OPEN"], Some(filter))
                .await?;
            if open.iter().any(|pull| pull.base == new.base.as_str()) {
                return Err(Error::AlreadyExists { attempted });
            }
            let body = json!({
                "title": new.title, "description": new.body, "draft": new.draft,
                "source": {"branch": {"name": new.head.as_str()}},
                "destination": {"branch": {"name": new.base.as_str()}},
            });
            let path = self.path(&["pullrequests"]);
            let request = ApiRequest::new(attempted, Method::POST, &path).body(body);
            let response = self.session.send(request).await?;
            let is_refused = response.status.as_u16() == 400;
            if is_refused && response.message().contains("no changes to be pulled") {
                return Err(Error::NoDifference { attempted });
            }
            self.with_commits(attempted, response.parse()?).await
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        update: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let (attempted, number) = ("update the pull request", number.to_string());
            let mut pull = self
                .pull_request(attempted, Method::GET, &[&number], None)
                .await?;
            let mut body = current_fields(&pull);
            if let Some(title) = &update.title {
                body["title"] = json!(title);
            }
            if let Some(text) = &update.body {
                body["description"] = json!(text);
            }
            if update.open == Some(true) && !pull.is_open() {
                let message = "Bitbucket Cloud cannot reopen a closed pull request".to_owned();
                return Err(Error::Refused { attempted, message });
            }
            if body != current_fields(&pull) {
                let path = [number.as_str()];
                pull = self
                    .pull_request(attempted, Method::PUT, &path, Some(body))
                    .await?;
            }
            if update.open == Some(false) && pull.is_open() {
                let path = [number.as_str(), "decline"];
                pull = self
                    .pull_request(attempted, Method::POST, &path, None)
                    .await?;
            }
            self.with_commits(attempted, pull).await
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
            let (attempted, number) = ("merge the pull request", number.to_string());
            let path = [number.as_str()];
            let current = self
                .pull_request(attempted, Method::GET, &path, None)
                .await?;
            if current.state == "MERGED" {
                return Ok(MergeResult::Merged);
            }
            let is_same = |short: &str| short.len() >= 12 && merge.head.as_str().starts_with(short);
            if !current.short_head().is_some_and(is_same) {
                return Err(Error::HeadMoved { attempted });
            }
            if current.draft {
                let message = "it is a draft".to_owned();
                return Err(Error::NotMergeable { attempted, message });
            }
            let path = self.path(&["pullrequests", &number, "merge"]);
            let body = json!({"type": "pullrequest_merge_parameters", "merge_strategy": merge_strategy(merge.method)});
            let request = ApiRequest::new(attempted, Method::POST, &path).body(body);
            let response = self.session.send(request).await?;
            let message = response.message();
            match response.status.as_u16() {
                // Bitbucket merges asynchronously.
                202 => Ok(MergeResult::UnderWay),
                400 | 409 | 555 => Err(Error::NotMergeable { attempted, message }),
                _ => response.success().map(|_| MergeResult::Merged),
            }
        })
    }

    fn compare<'a>(&'a self, range: CommitRange<'a>) -> ForgeFuture<'a, CommitComparison> {
        Box::pin(async move {
            let path = self.path(&["commits"]);
            compare::bitbucket_cloud(&self.session, &path, range).await
        })
    }

    fn list_open<'a>(
        &'a self,
        _since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        // Bitbucket has no validators for lists.
        Box::pin(async move {
            let attempted = "list the open pull requests";
            let open = self.pull_requests(attempted, &["OPEN"], None).await?;
            Ok(PullRequestListing::without_validator(open))
        })
    }
}
