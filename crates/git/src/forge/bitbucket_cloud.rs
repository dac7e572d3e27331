//! Bitbucket Cloud.
//!
//! It has no labels, never opens again what was declined, shows commits by their first twelve digits,
//! and is not asked to merge by itself: whoever wants a merge asks again until nothing is in the way.

mod wire;

use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api_client::ApiRequest;
use super::reviews::{self, Reviews};
use super::session::{Authentication, ForgeSession, api, unusable};
use super::wire::teams_and_people;
use super::{
    Error, Forge, ForgeFuture, ListingValidator, MergeMethod, MergeOptions, MergeResult,
    NewPullRequest, PullRequest, PullRequestListing, PullRequestMetadata, PullRequestState,
    PullRequestUpdate,
};
use crate::credentials::Credentials;
use crate::names::{BranchName, ObjectId};
use crate::repository_url::RepositoryUrl;
use wire::{Commit, Member, Page, Pull};

/// What it shows at most on one page of pull requests.
const PAGE: &str = "50";

/// More pages than this are more than anybody looks at.
const PAGES: usize = 60;

/// One repository on bitbucket.org.
pub struct BitbucketCloud {
    session: ForgeSession,
    workspace: String,
    slug: String,
}

/// Access tokens are bearers. Tokens and app passwords of people go with their name.
fn login(credentials: &Credentials) -> Result<Authentication, Error> {
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
        let is_known = matches!(url.host(), "bitbucket.org" | "altssh.bitbucket.org");
        if !is_known && credentials.api_url.is_none() {
            return Err(unusable("Bitbucket Cloud is at bitbucket.org"));
        }
        let base = api(credentials, || "https://api.bitbucket.org/2.0".to_owned())?;
        let parts = url.project().split_once('/');
        let Some((workspace, slug)) = parts.filter(|(_, slug)| !slug.contains('/')) else {
            return Err(unusable("a Bitbucket URL ends in workspace/repository"));
        };
        Ok(Self {
            session: ForgeSession::new(http, base, credentials, login(credentials)?)?,
            workspace: workspace.to_owned(),
            slug: slug.to_owned(),
        })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [&["repositories", &self.workspace, &self.slug], rest].concat()
    }

    async fn one(
        &self,
        attempted: &'static str,
        method: Method,
        path: &[&str],
        body: Option<Value>,
    ) -> Result<Pull, Error> {
        let path = [&["pullrequests"], path].concat();
        let mut request = ApiRequest::new(attempted, method, &self.path(&path));
        request.body = body;
        self.session.send(request).await?.parse()
    }

    async fn pages<T: DeserializeOwned>(
        &self,
        attempted: &'static str,
        path: &[&str],
        query: &[(&'static str, String)],
    ) -> Result<Vec<T>, Error> {
        let mut found = Vec::new();
        for page in 1..=PAGES {
            let mut request = ApiRequest::new(attempted, Method::GET, path);
            request.query = query.to_vec();
            let request = request
                .query("pagelen", PAGE)
                .query("page", page.to_string());
            let page: Page<T> = self.session.send(request).await?.parse()?;
            found.extend(page.values);
            if page.next.is_none() {
                return Ok(found);
            }
        }
        Err(Error::Unreadable {
            attempted,
            because: "too many pages",
        })
    }

    /// Pull requests from this repository, newest first.
    async fn pulls(
        &self,
        attempted: &'static str,
        states: &[&str],
        filter: Option<String>,
    ) -> Result<Vec<PullRequest>, Error> {
        let states = states.iter().map(|state| ("state", (*state).to_owned()));
        let query: Vec<_> = states.chain(filter.map(|filter| ("q", filter))).collect();
        let path = self.path(&["pullrequests"]);
        let found: Vec<Pull> = self.pages(attempted, &path, &query).await?;
        let own = format!("{}/{}", self.workspace, self.slug);
        let is_ours = |pull: &Pull| {
            let from = pull.source.repository.as_ref();
            from.is_some_and(|from| from.full_name.eq_ignore_ascii_case(&own))
        };
        let ours = found.into_iter().filter(is_ours).map(Pull::into_ours);
        let mut ours: Vec<PullRequest> = ours.collect();
        ours.sort_by_key(|pull| std::cmp::Reverse(pull.number));
        Ok(ours)
    }

    /// The whole id of a commit.
    async fn commit(&self, attempted: &'static str, hash: &str) -> Result<Option<ObjectId>, Error> {
        let request = ApiRequest::new(attempted, Method::GET, &self.path(&["commit", hash]));
        match self.session.send(request).await?.parse::<Commit>() {
            Ok(commit) => Ok(ObjectId::new(commit.hash).ok()),
            // Gone with its branch.
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn complete(&self, attempted: &'static str, pull: Pull) -> Result<PullRequest, Error> {
        let (head, merge) = (pull.short_head().map(str::to_owned), &pull.merge_commit);
        let merge = merge.as_ref().map(|commit| commit.hash.clone());
        let mut ours = pull.into_ours();
        if let Some(head) = head {
            ours.head_commit = self.commit(attempted, &head).await?;
        }
        if let Some(merge) = merge.filter(|_| ours.state == PullRequestState::Merged) {
            ours.merge_commit = self.commit(attempted, &merge).await?;
        }
        Ok(ours)
    }

    async fn account(&self, name: &str, members: &[Member]) -> Result<String, Error> {
        let mut known = members.iter().map(|member| &member.user);
        let found = known.find(|account| account.is(name));
        match found {
            Some(account) => Ok(account.uuid.clone()),
            None if is_uuid(name) => Ok(name.to_owned()),
            None => Err(Error::Refused {
                attempted: "find a reviewer",
                message: format!("the workspace has no member {name:?}"),
            }),
        }
    }

    /// Everyone who is asked, and these.
    async fn reviewers(&self, pull: &Pull, people: &[&str]) -> Result<Vec<Value>, Error> {
        let path = ["workspaces", &self.workspace, "members"];
        // Not everyone may list the members; an id needs no look.
        let members: Vec<Member> = match people.iter().all(|name| is_uuid(name)) {
            true => Vec::new(),
            false => self.pages("find a reviewer", &path, &[]).await?,
        };
        let mut asked: Vec<String> = pull
            .reviewers
            .iter()
            .map(|user| user.uuid.clone())
            .collect();
        for name in people {
            let uuid = self.account(name, &members).await?;
            if !asked.contains(&uuid) {
                asked.push(uuid);
            }
        }
        Ok(asked.iter().map(|uuid| json!({"uuid": uuid})).collect())
    }
}

/// Everything that may change, as it is.
fn as_is(pull: &Pull) -> Value {
    let reviewers = pull.reviewers.iter().map(|user| json!({"uuid": user.uuid}));
    json!({
        "title": pull.title, "description": pull.description,
        "reviewers": reviewers.collect::<Vec<_>>(), "draft": pull.draft,
    })
}

fn is_uuid(name: &str) -> bool {
    name.starts_with('{') && name.ends_with('}')
}

fn strategy(method: MergeMethod) -> &'static str {
    match method {
        MergeMethod::Merge => "merge_commit",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase_fast_forward",
    }
}

fn quoted(branch: &BranchName) -> String {
    format!("\"{}\"", branch.as_str().replace('"', "\\\""))
}

impl Reviews for BitbucketCloud {
    fn ask_all<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let (attempted, number) = ("ask for reviews", number.to_string());
            let path = [number.as_str()];
            let pull = self.one(attempted, Method::GET, &path, None).await?;
            let mut body = as_is(&pull);
            body["reviewers"] = json!(self.reviewers(&pull, names).await?);
            if body != as_is(&pull) {
                self.one(attempted, Method::PUT, &path, Some(body)).await?;
            }
            Ok(())
        })
    }
}

impl Forge for BitbucketCloud {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let states = ["OPEN", "MERGED", "DECLINED", "SUPERSEDED"];
            let filter = format!("source.branch.name = {}", quoted(head));
            let attempted = "look for pull requests";
            let mut found = self.pulls(attempted, &states, Some(filter)).await?;
            found.retain(|pull| pull.head == head.as_str());
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let (attempted, number) = ("read the pull request", number.to_string());
            let pull = self.one(attempted, Method::GET, &[&number], None).await?;
            self.complete(attempted, pull).await
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            // It would take the one that is there and overwrite its text.
            let filter = format!("source.branch.name = {}", quoted(&new.head));
            let open = self.pulls(attempted, &["OPEN"], Some(filter)).await?;
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
            self.complete(attempted, response.parse()?).await
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        changes: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let (attempted, number) = ("update the pull request", number.to_string());
            let mut pull = self.one(attempted, Method::GET, &[&number], None).await?;
            let mut body = as_is(&pull);
            if let Some(title) = &changes.title {
                body["title"] = json!(title);
            }
            if let Some(text) = &changes.body {
                body["description"] = json!(text);
            }
            if changes.open == Some(true) && !pull.is_open() {
                let message = "Bitbucket Cloud does not open again what was closed".to_owned();
                return Err(Error::Refused { attempted, message });
            }
            if body != as_is(&pull) {
                let path = [number.as_str()];
                pull = self.one(attempted, Method::PUT, &path, Some(body)).await?;
            }
            if changes.open == Some(false) && pull.is_open() {
                let path = [number.as_str(), "decline"];
                pull = self.one(attempted, Method::POST, &path, None).await?;
            }
            self.complete(attempted, pull).await
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
            let note = |team| format!("Bitbucket does not ask groups for reviews: {team} left out");
            notes.extend(teams.into_iter().map(note));
            Ok(notes)
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let (attempted, number) = ("merge the pull request", number.to_string());
            let path = [number.as_str()];
            let seen = self.one(attempted, Method::GET, &path, None).await?;
            if seen.state == "MERGED" {
                return Ok(MergeResult::Merged);
            }
            let is_same = |short: &str| short.len() >= 12 && merge.head.as_str().starts_with(short);
            if !seen.short_head().is_some_and(is_same) {
                return Err(Error::HeadMoved { attempted });
            }
            if seen.draft {
                let message = "it is a draft".to_owned();
                return Err(Error::NotMergeable { attempted, message });
            }
            let path = self.path(&["pullrequests", &number, "merge"]);
            let body = json!({"type": "pullrequest_merge_parameters", "merge_strategy": strategy(merge.method)});
            let request = ApiRequest::new(attempted, Method::POST, &path).body(body);
            let response = self.session.send(request).await?;
            let message = response.message();
            match response.status.as_u16() {
                // It takes its time.
                202 => Ok(MergeResult::Scheduled),
                400 | 409 | 555 => Err(Error::NotMergeable { attempted, message }),
                _ => response.success().map(|_| MergeResult::Merged),
            }
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["pullrequests", &number, "comments"]);
            let request = ApiRequest::new("comment on the pull request", Method::POST, &path);
            let body = json!({"content": {"raw": text}});
            let response = self.session.send(request.body(body)).await?;
            response.success().map(drop)
        })
    }

    fn list_open<'a>(
        &'a self,
        _since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        // Bitbucket has no validators for lists.
        Box::pin(async move {
            let attempted = "list the open pull requests";
            Ok(PullRequestListing::Changed {
                pull_requests: self.pulls(attempted, &["OPEN"], None).await?,
                validator: ListingValidator::default(),
            })
        })
    }
}
