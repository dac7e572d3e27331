//! Azure DevOps, the service and the server.
//!
//! It opens pull requests without a difference, which we do not; it knows people by numbers, which
//! another of its services tells; and to who is not known it shows a page to sign in.

mod place;
mod wire;

use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use serde_json::{Value, json};

use super::api_client::{ApiRequest, ApiResponse};
use super::reviews::{self, Reviews};
use super::session::{Authentication, ForgeSession};
use super::{
    Error, Forge, ForgeFuture, ListingValidator, MergeMethod, MergeOptions, MergeResult,
    NewPullRequest, PullRequest, PullRequestListing, PullRequestMetadata, PullRequestState,
    PullRequestUpdate,
};
use crate::credentials::Credentials;
use crate::names::BranchName;
use crate::repository_url::RepositoryUrl;
use place::Place;
use wire::{Difference, Identity, Page, Pull, WhoAmI};

/// Understood by the service and by every server that is still looked after.
const VERSION: &str = "6.0";

/// What that version promised only as a preview is refused without the word.
const PREVIEW: &str = "6.0-preview.1";

/// How many pull requests are asked for at once.
const PAGE: usize = 100;

/// More pages than this are more than anybody looks at.
const PAGES: usize = 30;

/// A list shows no more of a description.
const SHOWN: usize = 400;

/// One repository on Azure DevOps.
pub struct AzureDevOps {
    repository: ForgeSession,
    collection: ForgeSession,
    identities: ForgeSession,
    web: String,
}

impl AzureDevOps {
    /// `https://dev.azure.com/organisation/project/_git/repository` and its older and local kin.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let place = Place::of(url, credentials)?;
        let login = match &credentials.token {
            // An access token, not a personal one.
            Some(token) if token.expose().starts_with(b"eyJ") => {
                Authentication::Bearer(token.clone())
            }
            Some(token) => Authentication::Basic(String::new(), token.clone()),
            None => Authentication::password(credentials)?,
        };
        let login = Arc::new(login);
        let open = |url| ForgeSession::new(http, url, credentials, login.clone());
        Ok(Self {
            repository: open(place.repository)?,
            collection: open(place.collection)?,
            identities: open(place.identities)?,
            web: place.web,
        })
    }

    async fn ask(
        &self,
        session: &ForgeSession,
        request: ApiRequest<'_>,
    ) -> Result<ApiResponse, Error> {
        let attempted = request.attempted;
        let has_version = request.query.iter().any(|(name, _)| *name == "api-version");
        let request = if has_version {
            request
        } else {
            request.query("api-version", VERSION)
        };
        let response = session.send(request).await?;
        match response.status.as_u16() {
            203 | 302 => Err(Error::Unauthorized { attempted }),
            _ => Ok(response),
        }
    }

    async fn send(&self, request: ApiRequest<'_>) -> Result<ApiResponse, Error> {
        self.ask(&self.repository, request).await
    }

    async fn one(
        &self,
        attempted: &'static str,
        method: Method,
        number: u64,
        body: Option<Value>,
    ) -> Result<Pull, Error> {
        let number = number.to_string();
        let mut request = ApiRequest::new(attempted, method, &["pullrequests", &number]);
        request.body = body;
        self.send(request).await?.parse()
    }

    /// All pages of a list, forks left out.
    async fn pages(
        &self,
        attempted: &'static str,
        query: &[(&'static str, String)],
    ) -> Result<Vec<PullRequest>, Error> {
        let mut found = Vec::new();
        for page in 0..PAGES {
            let mut request = ApiRequest::new(attempted, Method::GET, &["pullrequests"]);
            request.query = query.to_vec();
            let request = request
                .query("$top", PAGE.to_string())
                .query("$skip", (page * PAGE).to_string());
            let page: Page<Pull> = self.send(request).await?.parse()?;
            let is_last = page.value.len() < PAGE;
            let ours = page.value.into_iter().filter(Pull::is_ours);
            found.extend(ours.map(|pull| pull.into_ours(&self.web)));
            if is_last {
                found.sort_by_key(|pull: &PullRequest| std::cmp::Reverse(pull.number));
                return Ok(found);
            }
        }
        Err(Error::Unreadable {
            attempted,
            because: "too many pages",
        })
    }

    async fn differ(&self, attempted: &'static str, new: &NewPullRequest) -> Result<bool, Error> {
        let request = ApiRequest::new(attempted, Method::GET, &["diffs", "commits"])
            .query("baseVersionType", "branch")
            .query("baseVersion", new.base.as_str())
            .query("targetVersionType", "branch")
            .query("targetVersion", new.head.as_str())
            .query("$top", "1");
        let difference: Difference = self.send(request).await?.parse()?;
        Ok(difference.ahead_count > 0)
    }

    /// The number of a person, by name or address, or of a team.
    async fn identity(&self, name: &str) -> Result<String, Error> {
        let attempted = "find a reviewer";
        let is_number = name.len() == 36 && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if is_number {
            return Ok(name.to_owned());
        }
        let team = name.split_once('/');
        let filter = team.map(|(project, team)| format!("[{project}]\\{team}"));
        let request = ApiRequest::new(attempted, Method::GET, &["_apis", "identities"])
            .query("searchFilter", "General")
            .query("filterValue", filter.unwrap_or_else(|| name.to_owned()))
            .query("queryMembership", "None");
        let found: Page<Identity> = self.ask(&self.identities, request).await?.parse()?;
        let mut found = found.value.into_iter();
        let refused = |message| Error::Refused { attempted, message };
        let first = found.next();
        let first = first.ok_or_else(|| refused(format!("there is nobody called {name:?}")))?;
        match found.next() {
            None => Ok(first.id),
            Some(_) => Err(refused(format!("several are called {name:?}"))),
        }
    }

    async fn own_identity(&self, attempted: &'static str) -> Result<String, Error> {
        let request = ApiRequest::new(attempted, Method::GET, &["_apis", "connectionData"]);
        let request = request.query("api-version", PREVIEW);
        let response = self.ask(&self.collection, request).await?;
        Ok(response.parse::<WhoAmI>()?.authenticated_user.id)
    }

    /// Everything that is needed is there and yet it is not merged: it is, as soon as it may be.
    async fn merge_later(
        &self,
        attempted: &'static str,
        number: u64,
        merge: &MergeOptions,
    ) -> Result<MergeResult, Error> {
        let id = self.own_identity(attempted).await?;
        let body = json!({"autoCompleteSetBy": {"id": id}, "completionOptions": options(merge)});
        let pull = self.one(attempted, Method::PATCH, number, Some(body));
        let is_merged = pull.await?.is_merged();
        Ok(if is_merged {
            MergeResult::Merged
        } else {
            MergeResult::Scheduled
        })
    }
}

/// Leaves whole lines of a text that may be cut: half a line says something else than all of it.
fn cut_back(text: &mut String) {
    if text.chars().count() >= SHOWN {
        text.truncate(text.rfind('\n').unwrap_or_default());
    }
}

fn options(merge: &MergeOptions) -> Value {
    let strategy = match merge.method {
        MergeMethod::Merge => "noFastForward",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase",
    };
    json!({"mergeStrategy": strategy})
}

impl Reviews for AzureDevOps {
    fn ask_all<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            for name in names {
                let id = self.identity(name).await?;
                let path = ["pullrequests", &number, "reviewers", &id];
                let request = ApiRequest::new("ask for reviews", Method::PUT, &path);
                self.send(request.body(json!({"vote": 0})))
                    .await?
                    .success()?;
            }
            Ok(())
        })
    }
}

impl Forge for AzureDevOps {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let query = [
                ("searchCriteria.status", "all".to_owned()),
                ("searchCriteria.sourceRefName", head.reference()),
            ];
            let mut found = self.pages("look for pull requests", &query).await?;
            found.retain(|pull| pull.head == head.as_str());
            for pull in &mut found {
                if pull.body.chars().count() >= SHOWN {
                    *pull = self.get(pull.number).await?;
                }
            }
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let attempted = "read the pull request";
            let pull = self.one(attempted, Method::GET, number, None).await?;
            Ok(pull.into_ours(&self.web))
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            if !self.differ(attempted, new).await? {
                return Err(Error::NoDifference { attempted });
            }
            let body = json!({
                "sourceRefName": new.head.reference(), "targetRefName": new.base.reference(),
                "title": new.title, "description": new.body, "isDraft": new.draft,
            });
            let request = ApiRequest::new(attempted, Method::POST, &["pullrequests"]).body(body);
            let response = self.send(request).await?;
            if response.json()["typeKey"] == "GitPullRequestExistsException" {
                return Err(Error::AlreadyExists { attempted });
            }
            Ok(response.parse::<Pull>()?.into_ours(&self.web))
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        changes: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "update the pull request";
            let mut body = json!({});
            if let Some(title) = &changes.title {
                body["title"] = json!(title);
            }
            if let Some(text) = &changes.body {
                body["description"] = json!(text);
            }
            if let Some(open) = changes.open {
                body["status"] = json!(if open { "active" } else { "abandoned" });
            }
            let method = if *changes == PullRequestUpdate::default() {
                Method::GET
            } else {
                Method::PATCH
            };
            let body = Some(body).filter(|_| method == Method::PATCH);
            let pull = self.one(attempted, method, number, body).await?;
            Ok(pull.into_ours(&self.web))
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        dressing: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move {
            let text = number.to_string();
            for label in &dressing.labels {
                let path = ["pullrequests", &text, "labels"];
                let request = ApiRequest::new("label the pull request", Method::POST, &path)
                    .query("api-version", PREVIEW);
                self.send(request.body(json!({"name": label})))
                    .await?
                    .success()?;
            }
            let names: Vec<&str> = dressing.reviewers.iter().map(String::as_str).collect();
            reviews::ask(self, number, &names).await
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let attempted = "merge the pull request";
            let seen = self.one(attempted, Method::GET, number, None).await?;
            if seen.is_merged() {
                return Ok(MergeResult::Merged);
            }
            if seen.head() != Some(merge.head.as_str()) {
                return Err(Error::HeadMoved { attempted });
            }
            let body = json!({
                "status": "completed",
                "lastMergeSourceCommit": {"commitId": merge.head.as_str()},
                "completionOptions": options(merge),
            });
            let text = number.to_string();
            let path = ["pullrequests", text.as_str()];
            let request = ApiRequest::new(attempted, Method::PATCH, &path).body(body);
            let response = self.send(request).await?;
            let (status, mut message) = (response.status.as_u16(), response.message());
            if response.json()["typeKey"] == "GitPullRequestStaleException" {
                return Err(Error::HeadMoved { attempted });
            }
            // What policies forbid is a refusal of the merge, not of the token.
            if !matches!(status, 400 | 403 | 409) {
                let seen = response.parse::<Pull>()?;
                message = format!("its merge status is {}", seen.merge_status);
            }
            let seen = self.one(attempted, Method::GET, number, None).await?;
            match seen.into_ours(&self.web).state {
                PullRequestState::Merged => Ok(MergeResult::Merged),
                PullRequestState::Open if merge.when_ready => {
                    self.merge_later(attempted, number, merge).await
                }
                _ => Err(Error::NotMergeable { attempted, message }),
            }
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            let path = ["pullrequests", &number, "threads"];
            let comment = json!({"parentCommentId": 0, "content": text, "commentType": "text"});
            // An open thread may stand in the way of the merge.
            let body = json!({"comments": [comment], "status": "closed"});
            let request =
                ApiRequest::new("comment on the pull request", Method::POST, &path).body(body);
            self.send(request).await?.success().map(drop)
        })
    }

    fn list_open<'a>(
        &'a self,
        _since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        // Azure DevOps has no validators for lists.
        Box::pin(async move {
            let query = [("searchCriteria.status", "active".to_owned())];
            let mut pull_requests = self.pages("list the open pull requests", &query).await?;
            for pull in &mut pull_requests {
                cut_back(&mut pull.body);
            }
            Ok(PullRequestListing::Changed {
                pull_requests,
                validator: ListingValidator::default(),
            })
        })
    }
}
