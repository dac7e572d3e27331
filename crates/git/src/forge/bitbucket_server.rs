//! Bitbucket Server and Data Center.
//!
//! It has no labels, and it is not asked to merge by itself: whoever wants a merge asks again until
//! nothing is in the way. Every change names the version of the pull request that was looked at.

mod wire;

use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use serde_json::{Value, json};

use super::api_client::ApiRequest;
use super::reviews::{self, Reviews};
use super::session::{Authentication, ForgeSession, api, origin, unusable};
use super::wire::teams_and_people;
use super::{
    Error, Forge, ForgeFuture, ListingValidator, MergeMethod, MergeOptions, MergeResult,
    NewPullRequest, PullRequest, PullRequestListing, PullRequestMetadata, PullRequestState,
    PullRequestUpdate,
};
use crate::credentials::Credentials;
use crate::names::BranchName;
use crate::repository_url::RepositoryUrl;
use wire::{Page, Pull, is_because};

/// More pages than this are more than anybody looks at.
const PAGES: usize = 30;

/// How often a change is tried on a pull request that others change at the same time.
const TRIES: usize = 3;

/// One repository on a Bitbucket Server.
pub struct BitbucketServer {
    session: ForgeSession,
    key: String,
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
        let base = api(credentials, || {
            format!("{}{root}/rest/api/1.0", origin(url))
        })?;
        let login = match &credentials.token {
            Some(token) => Authentication::Bearer(token.clone()),
            None => Authentication::password(credentials)?,
        };
        Ok(Self {
            session: ForgeSession::new(http, base, credentials, login)?,
            key: key.to_owned(),
            slug: slug.to_owned(),
        })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let repository = ["projects", &self.key, "repos", &self.slug, "pull-requests"];
        [&repository, rest].concat()
    }

    fn is_ours(&self, pull: &Pull) -> bool {
        let ends = [&pull.from_ref.repository, &pull.to_ref.repository];
        ends.iter().all(|end| {
            end.slug.eq_ignore_ascii_case(&self.slug)
                && end.project.key.eq_ignore_ascii_case(&self.key)
        })
    }

    fn end(&self, branch: &BranchName) -> Value {
        let repository = json!({"slug": self.slug, "project": {"key": self.key}});
        json!({"id": branch.reference(), "repository": repository})
    }

    async fn read(&self, attempted: &'static str, number: u64) -> Result<Pull, Error> {
        let number = number.to_string();
        let request = ApiRequest::new(attempted, Method::GET, &self.path(&[&number]));
        self.session.send(request).await?.parse()
    }

    /// All pages of a list.
    async fn pages(
        &self,
        attempted: &'static str,
        query: &[(&'static str, String)],
    ) -> Result<Vec<PullRequest>, Error> {
        let mut found = Vec::new();
        let mut start = 0;
        for _ in 0..PAGES {
            let mut request = ApiRequest::new(attempted, Method::GET, &self.path(&[]));
            request.query = query.to_vec();
            let request = request
                .query("limit", "100")
                .query("start", start.to_string());
            let page: Page = self.session.send(request).await?.parse()?;
            let ours = page.values.into_iter().filter(|pull| self.is_ours(pull));
            found.extend(ours.map(Pull::into_ours));
            match page.next_page_start {
                Some(next) if !page.is_last_page => start = next,
                _ => return Ok(found),
            }
        }
        Err(Error::Unreadable {
            attempted,
            because: "too many pages",
        })
    }

    /// Sends a change that was made of what is there; anew if others were faster.
    async fn change(
        &self,
        attempted: &'static str,
        number: u64,
        body: impl Fn(&Pull) -> Option<Value>,
    ) -> Result<Pull, Error> {
        let text = number.to_string();
        let mut tries = 0;
        loop {
            let seen = self.read(attempted, number).await?;
            let Some(body) = body(&seen) else {
                return Ok(seen);
            };
            let request = ApiRequest::new(attempted, Method::PUT, &self.path(&[&text])).body(body);
            let response = self.session.send(request).await?;
            tries += 1;
            if tries == TRIES || !is_because(&response, "PullRequestOutOfDateException") {
                return response.parse();
            }
        }
    }

    /// Declines it or opens it again.
    async fn turn(&self, attempted: &'static str, number: u64, open: bool) -> Result<Pull, Error> {
        let seen = self.read(attempted, number).await?;
        if open == (seen.state == "OPEN") {
            return Ok(seen);
        }
        let (text, verb) = (number.to_string(), if open { "reopen" } else { "decline" });
        let request = ApiRequest::new(attempted, Method::POST, &self.path(&[&text, verb]));
        let request = request.query("version", seen.version.to_string());
        self.session.send(request.body(json!({}))).await?.parse()
    }
}

/// Everything that may change, as it is: what is left out would be removed.
fn as_is(pull: &Pull) -> Value {
    json!({
        "version": pull.version, "title": pull.title, "description": pull.description,
        "reviewers": pull.reviewers, "draft": pull.draft,
    })
}

/// Which of the repository's strategies. Its own choice is the merge commit, unless configured.
fn strategy(method: MergeMethod) -> Option<&'static str> {
    match method {
        MergeMethod::Merge => None,
        MergeMethod::Squash => Some("squash"),
        MergeMethod::Rebase => Some("rebase-ff-only"),
    }
}

/// The pull request with these reviewers too; nothing if all of them are asked.
fn with_reviewers(seen: &Pull, people: &[&str]) -> Option<Value> {
    let is_asked = |name: &str| {
        let mut asked = seen.reviewers.iter();
        asked.any(|reviewer| reviewer["user"]["name"] == name)
    };
    let missing: Vec<&&str> = people.iter().filter(|name| !is_asked(name)).collect();
    let added = missing.iter().map(|name| json!({"user": {"name": name}}));
    let mut body = as_is(seen);
    body["reviewers"] = seen.reviewers.iter().cloned().chain(added).collect();
    (!missing.is_empty()).then_some(body)
}

impl Reviews for BitbucketServer {
    fn ask_all<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let with_them = |seen: &Pull| with_reviewers(seen, names);
            let asked = self.change("ask for reviews", number, with_them).await;
            asked.map(drop)
        })
    }
}

impl Forge for BitbucketServer {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let query = [
                ("state", "ALL".to_owned()),
                ("direction", "OUTGOING".to_owned()),
                ("at", head.reference()),
            ];
            let mut found = self.pages("look for pull requests", &query).await?;
            found.retain(|pull| pull.head == head.as_str());
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let seen = self.read("read the pull request", number).await?;
            Ok(seen.into_ours())
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            let body = json!({
                "title": new.title, "description": new.body, "draft": new.draft,
                "fromRef": self.end(&new.head), "toRef": self.end(&new.base),
            });
            let request = ApiRequest::new(attempted, Method::POST, &self.path(&[])).body(body);
            let response = self.session.send(request).await?;
            if is_because(&response, "DuplicatePullRequestException") {
                return Err(Error::AlreadyExists { attempted });
            }
            if is_because(&response, "EmptyPullRequestException") {
                return Err(Error::NoDifference { attempted });
            }
            Ok(response.parse::<Pull>()?.into_ours())
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        changes: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "update the pull request";
            // What is declined cannot be written to.
            if changes.open == Some(true) {
                self.turn(attempted, number, true).await?;
            }
            let body = |seen: &Pull| {
                let mut body = as_is(seen);
                if let Some(title) = &changes.title {
                    body["title"] = json!(title);
                }
                if let Some(text) = &changes.body {
                    body["description"] = json!(text);
                }
                (body != as_is(seen)).then_some(body)
            };
            let changed = self.change(attempted, number, body).await?;
            if changes.open == Some(false) {
                let closed = self.turn(attempted, number, false).await?;
                return Ok(closed.into_ours());
            }
            Ok(changed.into_ours())
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        dressing: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move {
            let (teams, people) = teams_and_people(&dressing.reviewers);
            let mut notes = reviews::ask(self, number, &people).await?;
            if !dressing.labels.is_empty() {
                let labels = dressing.labels.join(", ");
                notes.push(format!("Bitbucket has no labels: {labels} left out"));
            }
            let note = |team| format!("Bitbucket does not ask groups by name: {team} left out");
            notes.extend(teams.into_iter().map(note));
            Ok(notes)
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let attempted = "merge the pull request";
            let seen = self.read(attempted, number).await?;
            if seen.state == "MERGED" {
                return Ok(MergeResult::Merged);
            }
            if seen.from_ref.latest_commit.as_deref() != Some(merge.head.as_str()) {
                return Err(Error::HeadMoved { attempted });
            }
            let text = number.to_string();
            let request = ApiRequest::new(attempted, Method::POST, &self.path(&[&text, "merge"]))
                .query("version", seen.version.to_string())
                .body(strategy(merge.method).map_or(json!({}), |id| json!({"strategyId": id})));
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

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&[&number, "comments"]);
            let request = ApiRequest::new("comment on the pull request", Method::POST, &path);
            let response = self
                .session
                .send(request.body(json!({"text": text})))
                .await?;
            response.success().map(drop)
        })
    }

    fn list_open<'a>(
        &'a self,
        _since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        // Bitbucket has no validators for lists.
        Box::pin(async move {
            let query = [("state", "OPEN".to_owned())];
            let pull_requests = self.pages("list the open pull requests", &query).await?;
            Ok(PullRequestListing::Changed {
                pull_requests,
                validator: ListingValidator::default(),
            })
        })
    }
}
