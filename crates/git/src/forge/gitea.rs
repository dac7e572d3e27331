//! Gitea and Forgejo.

use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api_client::ApiRequest;
use super::reviews::{self, Reviews};
use super::session::{Authentication, ForgeSession, List, Pages, api, origin, unusable};
use super::wire::{self, Pull};
use super::{
    Error, Forge, ForgeFuture, ListingValidator, MergeOptions, MergeResult, NewPullRequest,
    PullRequest, PullRequestListing, PullRequestMetadata, PullRequestState, PullRequestUpdate,
};
use crate::credentials::Credentials;
use crate::names::BranchName;
use crate::repository_url::RepositoryUrl;

/// Gitea keeps drafts by a mark at the start of the title.
const DRAFT: &str = "WIP: ";

/// What it shows at most on one page, unless configured otherwise.
const PAGE: &str = "50";

/// How many pages of open pull requests, or labels, are looked through.
const PAGES: usize = 60;

/// How many pages of finished ones.
const FINISHED_PAGES: usize = 10;

/// What it says to whom the branch protection does not let merge.
const NOT_ALLOWED: &str = "not allowed to merge";

/// What new labels look like.
const COLOUR: &str = "#ededed";

/// One repository on a Gitea.
pub struct Gitea {
    session: ForgeSession,
    owner: String,
    name: String,
}

#[derive(Deserialize)]
struct Label {
    id: u64,
    name: String,
}

impl Gitea {
    /// The API is below where the repository is.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let mut parts: Vec<&str> = url.project().split('/').collect();
        let (Some(name), Some(owner)) = (parts.pop(), parts.pop()) else {
            return Err(unusable("a Gitea URL ends in owner/repository"));
        };
        // Gitea may live below a path of its host.
        let root: String = parts.iter().map(|part| format!("/{part}")).collect();
        let base = api(credentials, || format!("{}{root}/api/v1", origin(url)))?;
        let login = match &credentials.token {
            Some(token) => Authentication::Token(token.clone()),
            None => Authentication::password(credentials)?,
        };
        Ok(Self {
            session: ForgeSession::new(http, base, credentials, login)?,
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }

    fn project(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [&["repos", &self.owner, &self.name], rest].concat()
    }

    async fn one(
        &self,
        attempted: &'static str,
        method: Method,
        number: u64,
        body: Option<Value>,
    ) -> Result<PullRequest, Error> {
        let number = number.to_string();
        let mut request = ApiRequest::new(attempted, method, &self.path(&["pulls", &number]));
        request.body = body;
        Ok(as_ours(self.session.send(request).await?.parse()?))
    }

    fn list<'a>(&'a self, attempted: &'static str, what: &'a str) -> List<'a> {
        List {
            attempted,
            path: self.path(&[what]),
            query: vec![("limit", PAGE.to_owned())],
        }
    }

    /// Pages of pull requests from this repository, the most recently changed first.
    async fn pulls(
        &self,
        attempted: &'static str,
        state: &'static str,
        limit: usize,
    ) -> Result<Pages<PullRequest>, Error> {
        let project = self.project();
        let mut list = self.list(attempted, "pulls");
        list.query.push(("state", state.to_owned()));
        list.query.push(("sort", "recentupdate".to_owned()));
        let pages = self.session.pages::<Pull>(&list, limit).await?;
        let ours = pages
            .items
            .into_iter()
            .filter(|pull| pull.is_from(&project));
        Ok(Pages {
            items: ours.map(as_ours).collect(),
            validator: pages.validator,
            is_whole: pages.is_whole,
        })
    }

    async fn all_open(&self, attempted: &'static str) -> Result<Vec<PullRequest>, Error> {
        let pages = self.pulls(attempted, "open", PAGES).await?;
        Ok(pages.whole(attempted)?.0)
    }

    /// Gitea takes labels by number. Those it does not know are made.
    async fn label_ids(&self, names: &[String]) -> Result<Vec<u64>, Error> {
        let list = self.list("find the labels", "labels");
        let known = self.session.pages::<Label>(&list, PAGES).await?.items;
        let mut ids = Vec::new();
        for name in names {
            let id = match known.iter().find(|label| label.name == *name) {
                Some(label) => label.id,
                None => self.make_label(name).await?,
            };
            ids.push(id);
        }
        Ok(ids)
    }

    async fn make_label(&self, name: &str) -> Result<u64, Error> {
        let body = json!({"name": name, "color": COLOUR});
        let request =
            ApiRequest::new("make a label", Method::POST, &self.path(&["labels"])).body(body);
        Ok(self.session.send(request).await?.parse::<Label>()?.id)
    }
}

fn as_ours(pull: Pull) -> PullRequest {
    let mut ours = pull.into_ours();
    if let Some(title) = ours.title.strip_prefix(DRAFT) {
        ours.title = title.to_owned();
        ours.draft = true;
    }
    ours
}

impl Reviews for Gitea {
    fn ask_all<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["pulls", &number, "requested_reviewers"]);
            let request = ApiRequest::new("ask for reviews", Method::POST, &path);
            let request = request.body(wire::reviewers(names));
            self.session.send(request).await?.success().map(drop)
        })
    }
}

impl Forge for Gitea {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let attempted = "look for pull requests";
            let mut found = self.all_open(attempted).await?;
            let finished = self.pulls(attempted, "closed", FINISHED_PAGES).await?;
            found.extend(finished.items);
            found.retain(|pull| pull.head == head.as_str());
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            // One that was closed between the two questions was seen by both.
            found.dedup_by_key(|pull| pull.number);
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(self.one("read the pull request", Method::GET, number, None))
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            let mark = if new.draft { DRAFT } else { "" };
            let body = json!({
                "head": new.head.as_str(), "base": new.base.as_str(),
                "title": format!("{mark}{}", new.title), "body": new.body,
            });
            let request =
                ApiRequest::new(attempted, Method::POST, &self.path(&["pulls"])).body(body);
            let response = self.session.send(request).await?;
            match response.status.as_u16() {
                409 => Err(Error::AlreadyExists { attempted }),
                422 if response.message().contains("no changes between") => {
                    Err(Error::NoDifference { attempted })
                }
                _ => Ok(as_ours(response.parse()?)),
            }
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        changes: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let mut body = wire::changes(changes);
            if let Some(title) = &changes.title
                && self.get(number).await?.draft
            {
                body["title"] = json!(format!("{DRAFT}{title}"));
            }
            self.one("update the pull request", Method::PATCH, number, Some(body))
                .await
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        dressing: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move {
            if !dressing.labels.is_empty() {
                let number = number.to_string();
                let ids = self.label_ids(&dressing.labels).await?;
                let path = self.path(&["issues", &number, "labels"]);
                let request = ApiRequest::new("label the pull request", Method::POST, &path);
                self.session
                    .send(request.body(json!({"labels": ids})))
                    .await?
                    .success()?;
            }
            let names: Vec<&str> = dressing.reviewers.iter().map(String::as_str).collect();
            reviews::ask(self, number, &names).await
        })
    }

    /// Gitea would also schedule a merge, but it schedules those of people whom the branch protection
    /// keeps from merging, and never carries them out. It merges at once or says why not.
    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let attempted = "merge the pull request";
            let body = json!({
                "Do": wire::method(merge.method),
                "head_commit_id": merge.head.as_str(),
            });
            let text = number.to_string();
            let path = self.path(&["pulls", &text, "merge"]);
            let response = self
                .session
                .send(ApiRequest::new(attempted, Method::POST, &path).body(body))
                .await?;
            let (status, message) = (response.status.as_u16(), response.message());
            if !matches!(status, 405 | 409) {
                response.success()?;
            }
            let seen = self.get(number).await?;
            match status {
                _ if seen.state == PullRequestState::Merged => Ok(MergeResult::Merged),
                200..=299 => Ok(MergeResult::Merged),
                _ if seen.head_commit.as_ref() != Some(&merge.head) => {
                    Err(Error::HeadMoved { attempted })
                }
                405 if message.contains(NOT_ALLOWED) => {
                    Err(Error::Forbidden { attempted, message })
                }
                _ => Err(Error::NotMergeable { attempted, message }),
            }
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["issues", &number, "comments"]);
            let request = ApiRequest::new("comment on the pull request", Method::POST, &path);
            self.session
                .send(request.body(json!({"body": text})))
                .await?
                .success()
                .map(drop)
        })
    }

    fn list_open<'a>(
        &'a self,
        _since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        // Gitea has no validators for lists.
        Box::pin(async move {
            let pull_requests = self.all_open("list the open pull requests").await?;
            Ok(PullRequestListing::Changed {
                pull_requests,
                validator: ListingValidator::default(),
            })
        })
    }
}
