//! Pull requests on github.com and GitHub Enterprise.

mod app;
mod feedback;
mod token_check;

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
    CommitComparison, CommitRange, Error, Forge, ForgeFuture, ListingValidator, MergeOptions,
    MergeResult, NewPullRequest, PullRequest, PullRequestListing, PullRequestMetadata,
    PullRequestState, PullRequestUpdate, compare,
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
    /// The GraphQL API, the only one that knows merge queues.
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

    /// Merges it with the rights of everybody: a token that may bypass the rules of the branch does not.
    async fn merge_now(&self, number: u64, merge: &MergeOptions) -> Result<MergeResult, Error> {
        let attempted = "merge the pull request";
        let current = self.fetch(attempted, number).await?;
        let (node, state) = (current.node_id.clone(), current.mergeable_state.clone());
        let current = current.into_pull_request();
        if current.state == PullRequestState::Merged {
            return Ok(MergeResult::Merged);
        }
        if current.head_commit.as_ref() != Some(&merge.head) {
            return Err(Error::HeadMoved { attempted });
        }
        if let Some(message) = state.as_deref().and_then(obstacle) {
            // GitHub also calls it blocked if nothing but the queue may merge.
            let has_queue = state.as_deref() == Some("blocked")
                && self.queue_state(attempted, &node).await?["isMergeQueueEnabled"] == true;
            return Err(match has_queue {
                true => Error::MergeQueueRequired { attempted },
                false => Error::NotMergeable { attempted, message },
            });
        }
        let method = merge_method(merge.method);
        let body = json!({"sha": merge.head.as_str(), "merge_method": method});
        let text = number.to_string();
        let path = self.repository.path(&["pulls", &text, "merge"]);
        let request = ApiRequest::new(attempted, Method::PUT, &path).body(body);
        let response = self.repository.session.send(request).await?;
        let message = response.message();
        match response.status.as_u16() {
            405 | 422 if message.contains("merge queue") => {
                Err(Error::MergeQueueRequired { attempted })
            }
            405 | 422 => match self.get(number).await?.state {
                PullRequestState::Merged => Ok(MergeResult::Merged),
                _ => Err(Error::NotMergeable { attempted, message }),
            },
            409 => Err(Error::HeadMoved { attempted }),
            _ => response.success().map(|_| MergeResult::Merged),
        }
    }

    async fn fetch(
        &self,
        attempted: &'static str,
        number: u64,
    ) -> Result<GitHubPullRequest, Error> {
        let repository = &self.repository;
        repository
            .pull_request(attempted, Method::GET, number, None)
            .await
    }

    /// Sends a request to the GraphQL API; its answer, or the message of its errors.
    async fn graph_request(
        &self,
        attempted: &'static str,
        query: &str,
        variables: Value,
    ) -> Result<Result<Value, String>, Error> {
        let body = json!({"query": query, "variables": variables});
        let request = ApiRequest::new(attempted, Method::POST, &[]).body(body);
        let response = self.graph.send(request).await?.success()?;
        let message = response.message();
        let mut answer: Value = response.parse()?;
        let has_errors = answer["errors"].as_array().is_some_and(|it| !it.is_empty());
        Ok(match has_errors {
            true => Err(message),
            false => Ok(answer["data"].take()),
        })
    }

    /// Whether a pull request goes through a merge queue and is in it. Null on servers without queues.
    async fn queue_state(&self, attempted: &'static str, node: &str) -> Result<Value, Error> {
        let query = "query($id: ID!) { node(id: $id) { ... on PullRequest \
                     { isMergeQueueEnabled isInMergeQueue } } }";
        let answer = self.graph_request(attempted, query, json!({"id": node}));
        let answer = answer.await?.unwrap_or_default();
        Ok(answer["node"].clone())
    }

    async fn schedule(&self, number: u64, merge: &MergeOptions) -> Result<(), Error> {
        let attempted = "put the pull request into the merge queue";
        let node = self.fetch(attempted, number).await?.node_id;
        let query = "mutation($input: EnablePullRequestAutoMergeInput!) \
                     { enablePullRequestAutoMerge(input: $input) { clientMutationId } }";
        let input = json!({
            "pullRequestId": node,
            "expectedHeadOid": merge.head.as_str(),
            "mergeMethod": merge_method(merge.method).to_uppercase(),
        });
        let answer = self.graph_request(attempted, query, json!({"input": input}));
        let Err(message) = answer.await? else {
            return Ok(());
        };
        let queue = self.queue_state(attempted, &node).await?;
        if queue["isInMergeQueue"] == true {
            return Ok(());
        }
        let current = self.get(number).await?;
        match current.head_commit.as_ref() == Some(&merge.head) {
            true => Err(Error::Refused { attempted, message }),
            false => Err(Error::HeadMoved { attempted }),
        }
    }

    async fn cancel(&self, number: u64) -> Result<(), Error> {
        let attempted = "keep the pull request from being merged by itself";
        let pull = self.fetch(attempted, number).await?;
        let node = pull.node_id.clone();
        let mut refusal = None;
        if pull.into_pull_request().is_merge_scheduled {
            let query = "mutation($input: DisablePullRequestAutoMergeInput!) \
                         { disablePullRequestAutoMerge(input: $input) { clientMutationId } }";
            let variables = json!({"input": {"pullRequestId": node}});
            let answer = self.graph_request(attempted, query, variables);
            refusal = answer.await?.err();
        }
        if self.queue_state(attempted, &node).await?["isInMergeQueue"] == true {
            let query = "mutation($input: DequeuePullRequestInput!) \
                         { dequeuePullRequest(input: $input) { clientMutationId } }";
            let answer = self.graph_request(attempted, query, json!({"input": {"id": node}}));
            refusal = answer.await?.err();
        }
        match refusal {
            Some(message) => Err(Error::Refused { attempted, message }),
            None => Ok(()),
        }
    }
}

/// Why a pull request with this verdict of GitHub is not merged. Checks that are not required count,
/// too: a promotion does not overtake its own tests.
fn obstacle(mergeable_state: &str) -> Option<String> {
    Some(match mergeable_state {
        "clean" | "has_hooks" => return None,
        "unstable" => "not all of its checks have passed".to_owned(),
        "blocked" => "a required review or check is missing".to_owned(),
        "behind" => "its branch is behind the base".to_owned(),
        "dirty" => "it has conflicts".to_owned(),
        "unknown" => "GitHub has not checked it yet".to_owned(),
        other => format!("its state is {other}"),
    })
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
            let pull = self.fetch("read the pull request", number).await?;
            Ok(pull.into_pull_request())
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
        Box::pin(self.merge_now(number, merge))
    }

    fn schedule_merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, ()> {
        Box::pin(self.schedule(number, merge))
    }

    fn cancel_scheduled_merge(&self, number: u64) -> ForgeFuture<'_, ()> {
        Box::pin(self.cancel(number))
    }

    fn compare<'a>(&'a self, range: CommitRange<'a>) -> ForgeFuture<'a, CommitComparison> {
        Box::pin(async move {
            let ends = format!("{}...{}", range.0, range.1);
            let path = self.repository.path(&["compare", &ends]);
            compare::github(&self.repository.session, &path).await
        })
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
