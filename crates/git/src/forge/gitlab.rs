//! GitLab, gitlab.com and self-managed.
//!
//! A project may be in groups within groups. A GitLab that lives below a path of its host cannot be
//! told from one more group: the secret then says where the API is.

mod wire;

use std::collections::HashMap;
use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::api_client::{ApiRequest, ApiResponse};
use super::reviews::{self, Reviews};
use super::session::{Authentication, ForgeSession, List, api, below, origin, unusable};
use super::wire::teams_and_people;
use super::{
    Error, Forge, ForgeFuture, ListingValidator, MergeMethod, MergeOptions, MergeResult,
    NewPullRequest, PullRequest, PullRequestListing, PullRequestMetadata, PullRequestState,
    PullRequestUpdate,
};
use crate::credentials::Credentials;
use crate::names::{BranchName, ObjectId};
use crate::repository_url::RepositoryUrl;
use wire::{Comparison, DRAFT, MergeRequest, User};

/// More pages than this are more than anybody looks at.
const PAGES: usize = 30;

/// More merge requests than this are not remembered.
const REMEMBERED: usize = 1000;

/// One project on a GitLab.
pub struct GitLab {
    session: ForgeSession,
    project: String,
    /// The tips of merge requests that had no pipeline when their merge was asked for.
    without_pipeline: Mutex<HashMap<u64, ObjectId>>,
}

impl GitLab {
    /// The whole path of the repository is the project.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let base = api(credentials, || format!("{}/api/v4", origin(url)))?;
        let project = below(url.project(), &base, "/api/v4").to_owned();
        if !project.contains('/') {
            return Err(unusable("a GitLab URL ends in group/project"));
        }
        // Personal, project and group tokens, also where they are kept as a password.
        let login = Authentication::Bearer(Authentication::token(credentials)?);
        Ok(Self {
            session: ForgeSession::new(http, base, credentials, login)?,
            project,
            without_pipeline: Mutex::default(),
        })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [&["projects", self.project.as_str()], rest].concat()
    }

    async fn one(
        &self,
        attempted: &'static str,
        method: Method,
        number: u64,
        body: Option<Value>,
    ) -> Result<MergeRequest, Error> {
        let number = number.to_string();
        let path = self.path(&["merge_requests", &number]);
        let mut request = ApiRequest::new(attempted, method, &path);
        request.body = body;
        self.session.send(request).await?.parse()
    }

    fn list(&self, attempted: &'static str, state: &str) -> List<'_> {
        List {
            attempted,
            path: self.path(&["merge_requests"]),
            query: vec![
                ("state", state.to_owned()),
                ("order_by", "created_at".to_owned()),
                ("per_page", "100".to_owned()),
            ],
        }
    }

    /// GitLab opens merge requests without a difference; we do not.
    async fn differ(&self, attempted: &'static str, new: &NewPullRequest) -> Result<bool, Error> {
        let path = self.path(&["repository", "compare"]);
        let request = ApiRequest::new(attempted, Method::GET, &path)
            .query("from", new.base.as_str())
            .query("to", new.head.as_str());
        let comparison: Comparison = self.session.send(request).await?.parse()?;
        Ok(!comparison.commits.is_empty())
    }

    async fn user(&self, name: &str) -> Result<u64, Error> {
        let attempted = "find a reviewer";
        let request = ApiRequest::new(attempted, Method::GET, &["users"]).query("username", name);
        let found: Vec<User> = self.session.send(request).await?.parse()?;
        let message = || format!("there is no user {name:?}");
        let user = found.first().ok_or_else(|| Error::Refused {
            attempted,
            message: message(),
        })?;
        Ok(user.id)
    }

    async fn ask_to_merge(
        &self,
        attempted: &'static str,
        number: u64,
        merge: &MergeOptions,
        when_ready: bool,
    ) -> Result<ApiResponse, Error> {
        let mut body = json!({"sha": merge.head.as_str()});
        // All else is a setting of the project.
        if merge.method == MergeMethod::Squash {
            body["squash"] = json!(true);
        }
        if when_ready {
            // The newer word and the older one.
            body["auto_merge"] = json!(true);
            body["merge_when_pipeline_succeeds"] = json!(true);
        }
        let number = number.to_string();
        let path = self.path(&["merge_requests", &number, "merge"]);
        let request = ApiRequest::new(attempted, Method::PUT, &path).body(body);
        self.session.send(request).await
    }

    /// What keeps a merge request from being merged the ordinary way, where GitLab does not merge it
    /// by itself. Nothing if there is no pipeline to wait for.
    fn obstacle(&self, seen: &MergeRequest, head: &ObjectId) -> Option<String> {
        let status = seen.detailed_merge_status.as_ref();
        let status = status.or(seen.merge_status.as_ref());
        let status = status.map_or("unknown", String::as_str);
        if !matches!(status, "mergeable" | "can_be_merged") {
            return Some(format!("its merge status is {status}"));
        }
        if let Some(pipeline) = &seen.head_pipeline {
            return Some(format!("its pipeline is {}", pipeline.status));
        }
        // A pipeline is made some time after a push: one look does not tell that there is none.
        let mut known = self.without_pipeline.lock();
        if known.len() > REMEMBERED {
            known.clear();
        }
        let before = known.insert(seen.iid, head.clone());
        let is_new = before.as_ref() != Some(head);
        is_new.then(|| "a pipeline may still start for it".to_owned())
    }
}

/// What it means that GitLab does not merge what looks like this.
fn refused(
    attempted: &'static str,
    seen: &PullRequest,
    merge: &MergeOptions,
    message: String,
) -> Result<MergeResult, Error> {
    if seen.state == PullRequestState::Merged {
        return Ok(MergeResult::Merged);
    }
    Err(match seen.head_commit.as_ref() == Some(&merge.head) {
        true => Error::NotMergeable { attempted, message },
        false => Error::HeadMoved { attempted },
    })
}

impl Reviews for GitLab {
    fn ask_all<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let attempted = "ask for reviews";
            // The list replaces the one that is there.
            let seen = self.one(attempted, Method::GET, number, None).await?;
            let mut ids: Vec<u64> = seen.reviewers.iter().map(|user| user.id).collect();
            for name in names {
                ids.push(self.user(name).await?);
            }
            ids.sort_unstable();
            ids.dedup();
            let body = json!({"reviewer_ids": ids});
            let asked = self.one(attempted, Method::PUT, number, Some(body)).await;
            asked.map(drop)
        })
    }
}

impl Forge for GitLab {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let attempted = "look for merge requests";
            let mut list = self.list(attempted, "all");
            list.query.push(("source_branch", head.as_str().to_owned()));
            let pages = self.session.pages::<MergeRequest>(&list, PAGES).await?;
            let (found, _) = pages.whole(attempted)?;
            let ours = found.into_iter().filter(MergeRequest::is_ours);
            let mut ours: Vec<PullRequest> = ours.map(MergeRequest::into_ours).collect();
            ours.retain(|pull| pull.head == head.as_str());
            ours.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            Ok(ours)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let attempted = "read the merge request";
            let found = self.one(attempted, Method::GET, number, None).await?;
            Ok(found.into_ours())
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a merge request";
            if !self.differ(attempted, new).await? {
                return Err(Error::NoDifference { attempted });
            }
            let mark = if new.draft { DRAFT } else { "" };
            let body = json!({
                "source_branch": new.head.as_str(), "target_branch": new.base.as_str(),
                "title": format!("{mark}{}", new.title), "description": new.body,
            });
            let path = self.path(&["merge_requests"]);
            let request = ApiRequest::new(attempted, Method::POST, &path).body(body);
            let response = self.session.send(request).await?;
            if response.status.as_u16() == 409 {
                return Err(Error::AlreadyExists { attempted });
            }
            Ok(response.parse::<MergeRequest>()?.into_ours())
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        changes: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "update the merge request";
            let seen = self.one(attempted, Method::GET, number, None).await?;
            let mut body = json!({});
            if let Some(title) = &changes.title {
                let mark = if seen.draft { DRAFT } else { "" };
                body["title"] = json!(format!("{mark}{title}"));
            }
            if let Some(text) = &changes.body {
                body["description"] = json!(text);
            }
            // Closing what is closed is refused.
            if let Some(open) = changes
                .open
                .filter(|open| *open != (seen.state == "opened"))
            {
                body["state_event"] = json!(if open { "reopen" } else { "close" });
            }
            if body.as_object().is_some_and(serde_json::Map::is_empty) {
                return Ok(seen.into_ours());
            }
            let changed = self.one(attempted, Method::PUT, number, Some(body)).await?;
            Ok(changed.into_ours())
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        dressing: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move {
            let attempted = "dress the merge request";
            // Labels that do not exist are made by GitLab.
            if !dressing.labels.is_empty() {
                let body = json!({"add_labels": dressing.labels.join(",")});
                self.one(attempted, Method::PUT, number, Some(body)).await?;
            }
            let (teams, people) = teams_and_people(&dressing.reviewers);
            let mut notes = reviews::ask(self, number, &people).await?;
            let note =
                |team| format!("GitLab does not ask groups for reviews: {team} was left out");
            notes.extend(teams.into_iter().map(note));
            Ok(notes)
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let attempted = "merge the merge request";
            let mut response = self
                .ask_to_merge(attempted, number, merge, merge.when_ready)
                .await?;
            let is_refused =
                |response: &ApiResponse| matches!(response.status.as_u16(), 405 | 406 | 422);
            let mut obstacle = None;
            if merge.when_ready && is_refused(&response) {
                let seen = self.one(attempted, Method::GET, number, None).await?;
                if seen.merge_when_pipeline_succeeds {
                    return Ok(MergeResult::Scheduled);
                }
                obstacle = self.obstacle(&seen, &merge.head);
                // Where there is nothing to wait for, GitLab wants it merged the ordinary way.
                if obstacle.is_none() {
                    response = self.ask_to_merge(attempted, number, merge, false).await?;
                }
            }
            let message = obstacle.unwrap_or_else(|| response.message());
            match response.status.as_u16() {
                409 => return Err(Error::HeadMoved { attempted }),
                // Who may see the merge request but not merge it is told so.
                401 => return Err(Error::Forbidden { attempted, message }),
                _ if is_refused(&response) => {}
                _ => {
                    let merged: MergeRequest = response.parse()?;
                    let is_merged = merged.state == "merged";
                    return Ok(if is_merged {
                        MergeResult::Merged
                    } else {
                        MergeResult::Scheduled
                    });
                }
            }
            let seen = self.get(number).await?;
            refused(attempted, &seen, merge, message)
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["merge_requests", &number, "notes"]);
            let request = ApiRequest::new("comment on the merge request", Method::POST, &path);
            let response = self
                .session
                .send(request.body(json!({"body": text})))
                .await?;
            response.success().map(drop)
        })
    }

    fn list_open<'a>(
        &'a self,
        since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        Box::pin(async move {
            let attempted = "list the open merge requests";
            let list = self.list(attempted, "opened");
            if let Some(since) = since
                && self.session.is_same(&list, since).await?
            {
                return Ok(PullRequestListing::Unchanged);
            }
            let pages = self.session.pages::<MergeRequest>(&list, PAGES).await?;
            let (found, validator) = pages.whole(attempted)?;
            let ours = found.into_iter().filter(MergeRequest::is_ours);
            Ok(PullRequestListing::Changed {
                pull_requests: ours.map(MergeRequest::into_ours).collect(),
                validator,
            })
        })
    }
}
