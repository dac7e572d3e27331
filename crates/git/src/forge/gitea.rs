//! Gitea and Forgejo.

use std::sync::Arc;

use ::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::http::{Call, Caller, Http, Reply};
use super::wire::Pull;
use super::{
    Answer, Changes, Dressing, Error, Forge, Listing, Merge, MergeMethod, Merged, NewPullRequest,
    PullRequest, State, Validator,
};
use crate::Secret;
use crate::address::{RepositoryUrl, Scheme};
use crate::credentials::Credentials;
use crate::names::BranchName;

const ACCEPT: &str = "application/json";

/// Gitea keeps drafts by a mark at the start of the title.
const DRAFT: &str = "WIP: ";

/// What it shows at most on one page, unless configured otherwise.
const PAGE: &str = "50";

/// How many pages of open pull requests, or labels, are looked through.
const PAGES: usize = 60;

/// How many pages of finished ones.
const FINISHED_PAGES: usize = 10;

/// What new labels look like.
const COLOUR: &str = "#ededed";

/// One repository on a Gitea.
pub struct Gitea {
    caller: Caller,
    owner: String,
    name: String,
    token: Secret,
}

#[derive(Deserialize)]
struct Label {
    id: u64,
    name: String,
}

impl Gitea {
    /// The API is below where the repository is.
    pub fn new(
        http: &Arc<Http>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let unusable = |because: &str| Error::Unusable {
            because: because.to_owned(),
        };
        let mut parts: Vec<&str> = url.project().split('/').collect();
        let (Some(name), Some(owner)) = (parts.pop(), parts.pop()) else {
            return Err(unusable("a Gitea URL ends in owner/repository"));
        };
        let authority = match url.scheme() {
            Scheme::Http => format!("http://{}", url.authority()),
            Scheme::Ssh => format!("https://{}", url.host()),
            _ => format!("https://{}", url.authority()),
        };
        // Gitea may live below a path of its host.
        let root: String = parts.iter().map(|part| format!("{part}/")).collect();
        let base = Url::parse(&format!("{authority}/{root}api/v1"))
            .map_err(|_| unusable("the URL has no usable host"))?;
        let Some(token) = credentials.token.clone() else {
            return Err(unusable("the secret has no \"token\""));
        };
        let caller = http.caller(base, credentials)?;
        Ok(Self {
            caller,
            owner: owner.to_owned(),
            name: name.to_owned(),
            token,
        })
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, Error> {
        let authorization = format!("token {}", self.token.expose_text().unwrap_or_default());
        self.caller.call(call, &authorization, ACCEPT).await
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
        let mut call = Call::new(attempted, method, &self.path(&["pulls", &number]));
        call.body = body;
        Ok(ours(self.call(call).await?.read()?))
    }

    /// Pages of pull requests from this repository, the most recently changed first.
    async fn pages(
        &self,
        attempted: &'static str,
        state: &str,
        limit: usize,
    ) -> Result<(Vec<PullRequest>, bool), Error> {
        let project = self.project();
        let mut found = Vec::new();
        for page in 1..=limit {
            let call = Call::new(attempted, Method::GET, &self.path(&["pulls"]))
                .query("state", state)
                .query("sort", "recentupdate")
                .query("limit", PAGE)
                .query("page", page.to_string());
            let reply = self.call(call).await?.accepted()?;
            let has_next = reply.has_next();
            let pulls = reply.read::<Vec<Pull>>()?;
            found.extend(
                pulls
                    .into_iter()
                    .filter(|pull| pull.is_from(&project))
                    .map(ours),
            );
            if !has_next {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }

    async fn all_open(&self, attempted: &'static str) -> Result<Vec<PullRequest>, Error> {
        match self.pages(attempted, "open", PAGES).await? {
            (found, true) => Ok(found),
            (_, false) => Err(Error::Unreadable {
                attempted,
                because: "too many pages",
            }),
        }
    }

    /// Gitea takes labels by number. Those it does not know are made.
    async fn label_ids(&self, names: &[String]) -> Result<Vec<u64>, Error> {
        let attempted = "find the labels";
        let mut known: Vec<Label> = Vec::new();
        for page in 1..=PAGES {
            let call = Call::new(attempted, Method::GET, &self.path(&["labels"]));
            let reply = self
                .call(call.query("limit", PAGE).query("page", page.to_string()))
                .await?;
            let reply = reply.accepted()?;
            let has_next = reply.has_next();
            known.extend(reply.read::<Vec<Label>>()?);
            if !has_next {
                break;
            }
        }
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
        let call = Call::new("make a label", Method::POST, &self.path(&["labels"])).body(body);
        Ok(self.call(call).await?.read::<Label>()?.id)
    }
}

fn ours(pull: Pull) -> PullRequest {
    let mut ours = pull.into_ours();
    if let Some(title) = ours.title.strip_prefix(DRAFT) {
        ours.title = title.to_owned();
        ours.draft = true;
    }
    ours
}

fn method(method: MergeMethod) -> &'static str {
    match method {
        MergeMethod::Merge => "merge",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase",
    }
}

impl Forge for Gitea {
    fn find<'a>(&'a self, head: &'a BranchName) -> Answer<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let attempted = "look for pull requests";
            let mut found = self.all_open(attempted).await?;
            found.extend(self.pages(attempted, "closed", FINISHED_PAGES).await?.0);
            found.retain(|pull| pull.head == head.as_str());
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            // One that was closed between the two questions was seen by both.
            found.dedup_by_key(|pull| pull.number);
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> Answer<'_, PullRequest> {
        Box::pin(self.one("read the pull request", Method::GET, number, None))
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> Answer<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            let mark = if new.draft { DRAFT } else { "" };
            let body = json!({
                "head": new.head.as_str(), "base": new.base.as_str(),
                "title": format!("{mark}{}", new.title), "body": new.body,
            });
            let call = Call::new(attempted, Method::POST, &self.path(&["pulls"])).body(body);
            let reply = self.call(call).await?;
            match reply.status.as_u16() {
                409 => Err(Error::AlreadyExists { attempted }),
                422 if reply.message().contains("no changes between") => {
                    Err(Error::NoDifference { attempted })
                }
                _ => Ok(ours(reply.read()?)),
            }
        })
    }

    fn update<'a>(&'a self, number: u64, changes: &'a Changes) -> Answer<'a, PullRequest> {
        Box::pin(async move {
            let mut body = json!({});
            if let Some(title) = &changes.title {
                let mark = if self.get(number).await?.draft {
                    DRAFT
                } else {
                    ""
                };
                body["title"] = json!(format!("{mark}{title}"));
            }
            if let Some(text) = &changes.body {
                body["body"] = json!(text);
            }
            if let Some(open) = changes.open {
                body["state"] = json!(if open { "open" } else { "closed" });
            }
            self.one("update the pull request", Method::PATCH, number, Some(body))
                .await
        })
    }

    fn dress<'a>(&'a self, number: u64, dressing: &'a Dressing) -> Answer<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            if !dressing.labels.is_empty() {
                let ids = self.label_ids(&dressing.labels).await?;
                let path = self.path(&["issues", &number, "labels"]);
                let call = Call::new("label the pull request", Method::POST, &path);
                self.call(call.body(json!({"labels": ids})))
                    .await?
                    .accepted()?;
            }
            if !dressing.reviewers.is_empty() {
                let (teams, people): (Vec<&String>, Vec<&String>) = dressing
                    .reviewers
                    .iter()
                    .partition(|name| name.contains('/'));
                let teams = teams.iter().filter_map(|team| team.rsplit('/').next());
                let body =
                    json!({"reviewers": people, "team_reviewers": teams.collect::<Vec<_>>()});
                let path = self.path(&["pulls", &number, "requested_reviewers"]);
                let call = Call::new("ask for reviews", Method::POST, &path);
                self.call(call.body(body)).await?.accepted()?;
            }
            Ok(())
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a Merge) -> Answer<'a, Merged> {
        Box::pin(async move {
            let attempted = "merge the pull request";
            let body = json!({
                "Do": method(merge.method),
                "head_commit_id": merge.head.as_str(),
                "merge_when_checks_succeed": merge.when_ready,
            });
            let text = number.to_string();
            let path = self.path(&["pulls", &text, "merge"]);
            let reply = self
                .call(Call::new(attempted, Method::POST, &path).body(body))
                .await?;
            let (status, message) = (reply.status.as_u16(), reply.message());
            if !matches!(status, 405 | 409) {
                reply.accepted()?;
            }
            // Scheduled answers with 201; merged at once with 200.
            let seen = self.get(number).await?;
            match status {
                _ if seen.state == State::Merged => Ok(Merged::Now),
                200..=299 => Ok(if merge.when_ready {
                    Merged::Later
                } else {
                    Merged::Now
                }),
                _ if seen.head_commit.as_ref() != Some(&merge.head) => {
                    Err(Error::HeadMoved { attempted })
                }
                // Asked for before.
                409 if merge.when_ready => Ok(Merged::Later),
                _ => Err(Error::NotMergeable { attempted, message }),
            }
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["issues", &number, "comments"]);
            let call = Call::new("comment on the pull request", Method::POST, &path);
            self.call(call.body(json!({"body": text})))
                .await?
                .accepted()
                .map(drop)
        })
    }

    fn list_open<'a>(&'a self, _since: Option<&'a Validator>) -> Answer<'a, Listing> {
        // Gitea has no validators for lists.
        Box::pin(async move {
            let pull_requests = self.all_open("list the open pull requests").await?;
            Ok(Listing::Now {
                pull_requests,
                validator: Validator::default(),
            })
        })
    }
}
