//! Pull requests on github.com and GitHub Enterprise.

mod app;

pub use app::AppTokens;

use std::sync::Arc;

use ::http::{Method, StatusCode};
use net::OutboundHttp;
use serde_json::{Value, json};
use url::Url;

use super::api_client::{ApiRequest, ApiResponse};
use super::github_api::{GitHubPullRequest, GitHubStyleRepository, merge_method, update_body};
use super::review_requests::{ReviewRequester, request_from_each};
use super::session::{
    Authentication, ForgeSession, PagedList, api_url, origin, project_below, unusable,
};
use super::{
    Error, Forge, ForgeFuture, ListingValidator, MergeOptions, MergeResult, NewPullRequest,
    PullRequest, PullRequestListing, PullRequestMetadata, PullRequestState, PullRequestUpdate,
};
use crate::credentials::Credentials;
use crate::names::BranchName;
use crate::repository_url::RepositoryUrl;

const ACCEPT: &str = "application/vnd.github+json";

/// How many pages of 100 pull requests are read at most.
const MAX_PAGES: u64 = 30;

/// One repository on GitHub.
pub struct GitHub {
    repository: GitHubStyleRepository,
    /// The GraphQL API, the only one that schedules merges.
    graph: ForgeSession,
}

impl GitHub {
    /// The URL of the API follows from the host of the repository.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let base = api_url(credentials, || match url.host() {
            "github.com" | "www.github.com" | "ssh.github.com" => {
                "https://api.github.com".to_owned()
            }
            _ => format!("{}/api/v3", origin(url)),
        })?;
        let project = project_below(url.project(), &base, "/api/v3");
        let Some((owner, name)) = project
            .split_once('/')
            .filter(|(_, name)| !name.contains('/'))
        else {
            return Err(unusable("a GitHub URL ends in owner/repository"));
        };
        let authentication = match (&credentials.token, &credentials.app) {
            (None, Some(app)) => {
                Authentication::App(app.clone(), Arc::new(AppTokens::new(http.clone())))
            }
            _ => Authentication::Bearer(Authentication::token(credentials)?),
        };
        let authentication = Arc::new(authentication);
        let open = |url| ForgeSession::new(http, url, credentials, authentication.clone());
        Ok(Self {
            graph: open(graph_url(&base))?.accepting(ACCEPT),
            repository: GitHubStyleRepository {
                session: open(base)?.accepting(ACCEPT),
                owner: owner.to_owned(),
                name: name.to_owned(),
            },
        })
    }

    fn list(&self, attempted: &'static str, state: &str) -> PagedList<'_> {
        PagedList {
            attempted,
            path: self.repository.path(&["pulls"]),
            query: vec![("state", state.to_owned()), ("per_page", "100".to_owned())],
        }
    }

    async fn merge_now(&self, number: u64, merge: &MergeOptions) -> Result<MergeResult, Error> {
        let attempted = "merge the pull request";
        let method = merge_method(merge.method);
        let body = json!({"sha": merge.head.as_str(), "merge_method": method});
        let text = number.to_string();
        let path = self.repository.path(&["pulls", &text, "merge"]);
        let request = ApiRequest::new(attempted, Method::PUT, &path).body(body);
        let response = self.repository.session.send(request).await?;
        match response.status.as_u16() {
            405 | 422 => {}
            409 => return Err(Error::HeadMoved { attempted }),
            _ => return response.success().map(|_| MergeResult::Merged),
        }
        let message = response.message();
        match self.get(number).await?.state {
            PullRequestState::Merged => Ok(MergeResult::Merged),
            _ => Err(Error::NotMergeable { attempted, message }),
        }
    }

    async fn merge_later(&self, number: u64, merge: &MergeOptions) -> Result<MergeResult, Error> {
        let attempted = "ask for the pull request to be merged";
        let pull = self
            .repository
            .pull_request(attempted, Method::GET, number, None)
            .await?;
        let body = json!({
            "query": "mutation($input: EnablePullRequestAutoMergeInput!) \
                { enablePullRequestAutoMerge(input: $input) { clientMutationId } }",
            "variables": {"input": {
                "pullRequestId": pull.node_id,
                "expectedHeadOid": merge.head.as_str(),
                "mergeMethod": merge_method(merge.method).to_uppercase(),
            }},
        });
        let request = ApiRequest::new(attempted, Method::POST, &[]).body(body);
        let response = self.graph.send(request).await?.success()?;
        let message = response.message();
        let answer: Value = response.parse()?;
        if answer["errors"].as_array().is_none_or(Vec::is_empty) {
            return Ok(MergeResult::Scheduled);
        }
        // GitHub refuses to schedule a merge that can be made now.
        let is_merged = pull.into_pull_request().state == PullRequestState::Merged;
        if message.contains("clean status") || is_merged {
            return self.merge_now(number, merge).await;
        }
        Err(Error::Refused { attempted, message })
    }
}

/// GitHub Enterprise has `/api/graphql` beside `/api/v3`; github.com has `/graphql`.
fn graph_url(base: &Url) -> Url {
    let mut graph = base.clone();
    let root = base
        .path()
        .trim_end_matches('/')
        .trim_end_matches("/v3")
        .to_owned();
    graph.set_path(&format!("{root}/graphql"));
    graph
}

/// The error for a 422, whose reason is only in the message.
fn classify_refusal(attempted: &'static str, response: &ApiResponse) -> Error {
    let message = response.message();
    if message.contains("pull request already exists") {
        return Error::AlreadyExists { attempted };
    }
    if message.contains("No commits between") {
        return Error::NoDifference { attempted };
    }
    Error::Refused { attempted, message }
}

impl ReviewRequester for GitHub {
    fn request_reviews<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(self.repository.request_reviews(number, names))
    }
}

impl Forge for GitHub {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let mut list = self.list("look for pull requests", "all");
            let owner = &self.repository.owner;
            list.query.push(("head", format!("{owner}:{head}")));
            let session = &self.repository.session;
            let (pulls, _) = session.all_linked_pages(&list, MAX_PAGES).await?;
            let full_name = self.repository.full_name();
            let is_wanted =
                |pull: &GitHubPullRequest| pull.head() == head.as_str() && pull.is_from(&full_name);
            let mut found: Vec<_> = pulls.into_iter().filter(is_wanted).collect();
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            let found = found.into_iter();
            Ok(found.map(GitHubPullRequest::into_pull_request).collect())
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let attempted = "read the pull request";
            let pull = self
                .repository
                .pull_request(attempted, Method::GET, number, None);
            Ok(pull.await?.into_pull_request())
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            let body = json!({
                "head": new.head.as_str(), "base": new.base.as_str(),
                "title": new.title, "body": new.body, "draft": new.draft,
            });
            let path = self.repository.path(&["pulls"]);
            let request = ApiRequest::new(attempted, Method::POST, &path).body(body);
            let response = self.repository.session.send(request).await?;
            if response.status == StatusCode::UNPROCESSABLE_ENTITY {
                return Err(classify_refusal(attempted, &response));
            }
            Ok(response.parse::<GitHubPullRequest>()?.into_pull_request())
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        update: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let (attempted, body) = ("update the pull request", update_body(update));
            let repository = &self.repository;
            let pull = repository.pull_request(attempted, Method::PATCH, number, Some(body));
            Ok(pull.await?.into_pull_request())
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        metadata: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move {
            if !metadata.labels.is_empty() {
                let labels = json!(metadata.labels);
                self.repository.add_labels(number, labels).await?;
            }
            request_from_each(self, number, &metadata.reviewer_names()).await
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            if merge.when_ready {
                self.merge_later(number, merge).await
            } else {
                self.merge_now(number, merge).await
            }
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, ()> {
        Box::pin(self.repository.comment(number, text))
    }

    fn list_open<'a>(
        &'a self,
        since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        Box::pin(async move {
            let list = self.list("list the open pull requests", "open");
            let full_name = self.repository.full_name();
            let from_same_repository = |pulls: Vec<GitHubPullRequest>| {
                let pulls = pulls.into_iter().filter(|pull| pull.is_from(&full_name));
                pulls.map(GitHubPullRequest::into_pull_request).collect()
            };
            // Unchanged lists do not count against the rate limit.
            let session = &self.repository.session;
            session
                .list_if_changed(&list, MAX_PAGES, since, from_same_repository)
                .await
        })
    }
}
