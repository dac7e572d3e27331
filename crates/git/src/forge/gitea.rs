//! Pull requests on Gitea and Forgejo.

mod feedback;
mod token_check;

use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api_client::ApiRequest;
use super::github_api::{GitHubPullRequest, GitHubStyleRepository, merge_method, update_body};
use super::review_requests::{ReviewRequester, request_from_each};
use super::session::{
    Authentication, FetchedPages, ForgeSession, PagedList, api_url, origin, unusable,
};
use super::{
    CommitComparison, CommitRange, Error, Forge, ForgeFuture, ListingValidator, MergeOptions,
    MergeResult, NewPullRequest, PullRequest, PullRequestListing, PullRequestMetadata,
    PullRequestState, PullRequestUpdate, compare,
};
use crate::credentials::Credentials;
use crate::names::BranchName;
use crate::repository_url::RepositoryUrl;

/// Gitea marks drafts by a prefix of the title.
const DRAFT_PREFIX: &str = "WIP: ";

/// The largest page that Gitea returns, unless configured otherwise.
const PAGE_SIZE: &str = "50";

/// How many pages of open pull requests, or of labels, are read at most.
const MAX_PAGES: u64 = 60;

/// How many pages of merged and closed pull requests are searched.
const FINISHED_PAGES: u64 = 10;

/// In the message of Gitea if the branch protection forbids the merge to this user.
const NOT_ALLOWED: &str = "not allowed to merge";

/// In the message of Gitea if the repository does not allow the merge method.
const METHOD_NOT_ALLOWED: &str = "allowed merge style";

/// What `head.ref` starts with once the branch is deleted.
const WITHOUT_BRANCH: &str = "refs/pull/";

/// The colour of labels that are created.
const LABEL_COLOUR: &str = "#ededed";

/// One repository on a Gitea.
pub struct Gitea {
    repository: GitHubStyleRepository,
}

#[derive(Deserialize)]
struct GiteaLabel {
    id: u64,
    name: String,
}

impl Gitea {
    /// The API is below the address of the repository.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let mut parts: Vec<&str> = url.project().split('/').collect();
        let (Some(name), Some(owner)) = (parts.pop(), parts.pop()) else {
            return Err(unusable("a Gitea URL ends in owner/repository"));
        };
        // Gitea may be served below a path of its host.
        let root: String = parts.iter().map(|part| format!("/{part}")).collect();
        let base = api_url(credentials, || format!("{}{root}/api/v1", origin(url)))?;
        let authentication = match &credentials.token {
            Some(token) => Authentication::Token(token.clone()),
            None => Authentication::password(credentials)?,
        };
        Ok(Self {
            repository: GitHubStyleRepository {
                session: ForgeSession::new(http, base, credentials, authentication)?,
                owner: owner.to_owned(),
                name: name.to_owned(),
            },
        })
    }

    async fn pull_request(
        &self,
        attempted: &'static str,
        method: Method,
        number: u64,
        body: Option<Value>,
    ) -> Result<PullRequest, Error> {
        let pull = self
            .repository
            .pull_request(attempted, method, number, body);
        Ok(into_pull_request(pull.await?))
    }

    fn list<'a>(&'a self, attempted: &'static str, what: &'a str) -> PagedList<'a> {
        PagedList {
            attempted,
            path: self.repository.path(&[what]),
            query: vec![("limit", PAGE_SIZE.to_owned())],
        }
    }

    /// The first pages of pull requests from this repository, the most recently changed first.
    async fn pull_requests(
        &self,
        attempted: &'static str,
        state: &'static str,
        limit: u64,
    ) -> Result<FetchedPages<PullRequest>, Error> {
        let full_name = self.repository.full_name();
        let mut list = self.list(attempted, "pulls");
        list.query.push(("state", state.to_owned()));
        list.query.push(("sort", "recentupdate".to_owned()));
        let session = &self.repository.session;
        let pages = session
            .first_pages::<GitHubPullRequest>(&list, limit)
            .await?;
        let pulls = pages.items.into_iter();
        let pulls = pulls.filter(|pull| pull.is_from(&full_name));
        Ok(FetchedPages {
            items: pulls.map(into_pull_request).collect(),
            validator: pages.validator,
            is_complete: pages.is_complete,
        })
    }

    async fn all_open(&self, attempted: &'static str) -> Result<Vec<PullRequest>, Error> {
        let pages = self.pull_requests(attempted, "open", MAX_PAGES).await?;
        pages.into_complete(attempted)
    }

    /// The ids of labels, which Gitea expects instead of names. Creates those that do not exist.
    async fn label_ids(&self, names: &[String]) -> Result<Vec<u64>, Error> {
        let list = self.list("find the labels", "labels");
        let session = &self.repository.session;
        let existing = session.first_pages::<GiteaLabel>(&list, MAX_PAGES).await?;
        let mut ids = Vec::new();
        for name in names {
            let mut existing = existing.items.iter();
            let id = match existing.find(|label| label.name == *name) {
                Some(label) => label.id,
                None => self.create_label(name).await?,
            };
            ids.push(id);
        }
        Ok(ids)
    }

    async fn create_label(&self, name: &str) -> Result<u64, Error> {
        let body = json!({"name": name, "color": LABEL_COLOUR});
        let (attempted, path) = ("make a label", self.repository.path(&["labels"]));
        let session = &self.repository.session;
        let label = session.fetch::<GiteaLabel>(attempted, Method::POST, &path, Some(body));
        Ok(label.await?.id)
    }
}

fn into_pull_request(mut pull: GitHubPullRequest) -> PullRequest {
    if pull.head().starts_with(WITHOUT_BRANCH) {
        pull.name_head_by_label();
    }
    let mut pull = pull.into_pull_request();
    if let Some(title) = pull.title.strip_prefix(DRAFT_PREFIX) {
        pull.title = title.to_owned();
        pull.draft = true;
    }
    pull
}

impl ReviewRequester for Gitea {
    fn request_reviews<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(self.repository.request_reviews(number, names))
    }
}

impl Forge for Gitea {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let attempted = "look for pull requests";
            let mut found = self.all_open(attempted).await?;
            let finished = self.pull_requests(attempted, "closed", FINISHED_PAGES);
            found.extend(finished.await?.items);
            found.retain(|pull| pull.head == head.as_str());
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            // One that was closed between the two requests is in both lists.
            found.dedup_by_key(|pull| pull.number);
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(self.pull_request("read the pull request", Method::GET, number, None))
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            let prefix = if new.draft { DRAFT_PREFIX } else { "" };
            let body = json!({
                "head": new.head.as_str(), "base": new.base.as_str(),
                "title": format!("{prefix}{}", new.title), "body": new.body,
            });
            let path = self.repository.path(&["pulls"]);
            let request = ApiRequest::new(attempted, Method::POST, &path).body(body);
            let response = self.repository.session.send(request).await?;
            match response.status.as_u16() {
                409 => Err(Error::AlreadyExists { attempted }),
                422 if response.message().contains("no changes between") => {
                    Err(Error::NoDifference { attempted })
                }
                _ => Ok(into_pull_request(response.parse()?)),
            }
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        update: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let mut body = update_body(update);
            if let Some(title) = &update.title
                && self.get(number).await?.draft
            {
                body["title"] = json!(format!("{DRAFT_PREFIX}{title}"));
            }
            self.pull_request("update the pull request", Method::PATCH, number, Some(body))
                .await
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        metadata: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move {
            if !metadata.labels.is_empty() {
                let ids = self.label_ids(&metadata.labels).await?;
                self.repository.add_labels(number, json!(ids)).await?;
            }
            request_from_each(self, number, &metadata.reviewer_names()).await
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let attempted = "merge the pull request";
            let body = json!({
                "Do": merge_method(merge.method),
                "head_commit_id": merge.head.as_str(),
            });
            let text = number.to_string();
            let path = self.repository.path(&["pulls", &text, "merge"]);
            let request = ApiRequest::new(attempted, Method::POST, &path).body(body);
            let response = self.repository.session.send(request).await?;
            let (status, message) = (response.status.as_u16(), response.message());
            // 404: there is no such pull request, or it is closed.
            if !matches!(status, 404 | 405 | 409) {
                response.success()?;
            }
            let current = self.get(number).await?;
            match status {
                _ if current.state == PullRequestState::Merged => Ok(MergeResult::Merged),
                200..=299 => Ok(MergeResult::Merged),
                _ if current.state == PullRequestState::Closed => Err(Error::NotMergeable {
                    attempted,
                    message: "it is closed".to_owned(),
                }),
                _ if current.head_commit.as_ref() != Some(&merge.head) => {
                    Err(Error::HeadMoved { attempted })
                }
                405 if message.contains(NOT_ALLOWED) => {
                    Err(Error::Forbidden { attempted, message })
                }
                405 if message.contains(METHOD_NOT_ALLOWED) => {
                    Err(Error::Refused { attempted, message })
                }
                _ => Err(Error::NotMergeable { attempted, message }),
            }
        })
    }

    fn compare<'a>(&'a self, range: CommitRange<'a>) -> ForgeFuture<'a, CommitComparison> {
        Box::pin(async move {
            let ends = format!("{}...{}", range.0, range.1);
            let path = self.repository.path(&["compare", &ends]);
            compare::gitea(&self.repository.session, &path).await
        })
    }

    fn list_open<'a>(
        &'a self,
        _since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        // Gitea has no validators for lists.
        Box::pin(async move {
            let open = self.all_open("list the open pull requests").await?;
            Ok(PullRequestListing::without_validator(open))
        })
    }
}
