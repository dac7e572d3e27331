//! Pull requests on Azure DevOps, the service and the server.
//!
//! Peculiarities: it would open pull requests without a difference, identifies people by ids that
//! another service resolves, and answers unknown clients with a sign-in page.

mod feedback;
mod token_check;
mod urls;
mod wire;

use std::sync::Arc;

use ::http::Method;
use net::OutboundHttp;
use serde_json::{Value, json};

use super::api_client::ApiRequest;
use super::review_requests::{ReviewRequester, request_from_each};
use super::session::{Authentication, ForgeSession, PagedList};
use super::{
    CommitComparison, CommitRange, Error, Forge, ForgeFuture, ListingValidator, MergeMethod,
    MergeOptions, MergeResult, NewPullRequest, PullRequest, PullRequestListing,
    PullRequestMetadata, PullRequestState, PullRequestUpdate, compare,
};
use crate::credentials::Credentials;
use crate::names::BranchName;
use crate::repository_url::RepositoryUrl;
use urls::AzureUrls;
use wire::{AzureDifference, AzureIdentities, AzurePullRequest, PAGE_SIZE, PullRequestPage};

/// The API version: supported by the service and by all maintained versions of the server.
const API_VERSION: &str = "6.0";

/// For the parts of the API that are only a preview in that version.
const PREVIEW_API_VERSION: &str = "6.0-preview.1";

/// The statuses of the sign-in page.
const SIGN_IN_STATUSES: &[u16] = &[203, 302];

/// How many pages of pull requests are read at most.
const MAX_PAGES: u64 = 30;

/// How many characters of a description a list contains.
const LISTED_DESCRIPTION: usize = 400;

/// The identity that stands for nobody.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// One repository on Azure DevOps.
pub struct AzureDevOps {
    repository: ForgeSession,
    identities: ForgeSession,
    web_url: String,
}

impl AzureDevOps {
    /// `https://dev.azure.com/organisation/project/_git/repository`, and the other forms of `urls`.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let urls = AzureUrls::new(url, credentials)?;
        let authentication = match &credentials.token {
            // An access token of Microsoft Entra, not a personal one.
            Some(token) if token.expose().starts_with(b"eyJ") => {
                Authentication::Bearer(token.clone())
            }
            Some(token) => Authentication::Basic(String::new(), token.clone()),
            None => Authentication::password(credentials)?,
        };
        let authentication = Arc::new(authentication);
        let open = |url| {
            let session = ForgeSession::new(http, url, credentials, authentication.clone())?;
            let session = session.with_api_version(API_VERSION);
            Ok::<_, Error>(session.with_sign_in_statuses(SIGN_IN_STATUSES))
        };
        Ok(Self {
            repository: open(urls.repository)?,
            identities: open(urls.identities)?,
            web_url: urls.web,
        })
    }

    async fn pull_request(
        &self,
        attempted: &'static str,
        method: Method,
        number: u64,
        body: Option<Value>,
    ) -> Result<AzurePullRequest, Error> {
        let number = number.to_string();
        let path = ["pullrequests", number.as_str()];
        self.repository.fetch(attempted, method, &path, body).await
    }

    /// All pull requests from this repository, newest first.
    async fn pull_requests(
        &self,
        attempted: &'static str,
        mut query: Vec<(&'static str, String)>,
    ) -> Result<Vec<PullRequest>, Error> {
        query.push(("$top", PAGE_SIZE.to_string()));
        let list = PagedList {
            attempted,
            path: vec!["pullrequests"],
            query,
        };
        let found = self
            .repository
            .all_pages::<PullRequestPage>(&list, MAX_PAGES);
        let found = found.await?.into_iter();
        let own = found.filter(AzurePullRequest::is_from_same_repository);
        let mut own: Vec<PullRequest> = own
            .map(|pull| pull.into_pull_request(&self.web_url))
            .collect();
        own.sort_by_key(|pull| std::cmp::Reverse(pull.number));
        Ok(own)
    }

    /// Whether the branches differ: Azure DevOps would also open a pull request without a difference.
    async fn has_difference(
        &self,
        attempted: &'static str,
        new: &NewPullRequest,
    ) -> Result<bool, Error> {
        let request = ApiRequest::new(attempted, Method::GET, &["diffs", "commits"])
            .query("baseVersionType", "branch")
            .query("baseVersion", new.base.as_str())
            .query("targetVersionType", "branch")
            .query("targetVersion", new.head.as_str())
            .query("$top", "1");
        let response = self.repository.send(request).await?;
        let difference: AzureDifference = response.parse()?;
        Ok(difference.ahead_count > 0)
    }

    /// The id of a person, by name or e-mail address, or of a team.
    async fn identity_id(&self, name: &str) -> Result<String, Error> {
        let attempted = "find a reviewer";
        let is_id = name.len() == 36 && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if is_id {
            return Ok(name.to_owned());
        }
        let team = name.split_once('/');
        let filter = team.map(|(project, team)| format!("[{project}]\\{team}"));
        let request = ApiRequest::new(attempted, Method::GET, &["_apis", "identities"])
            .query("searchFilter", "General")
            .query("filterValue", filter.unwrap_or_else(|| name.to_owned()))
            .query("queryMembership", "None");
        let response = self.identities.send(request).await?;
        let found: AzureIdentities = response.parse()?;
        let mut found = found.value.into_iter();
        let refused = |message| Error::Refused { attempted, message };
        let first = found.next();
        let first = first.ok_or_else(|| refused(format!("there is nobody called {name:?}")))?;
        match found.next() {
            None => Ok(first.id),
            Some(_) => Err(refused(format!("several are called {name:?}"))),
        }
    }
}

/// Removes the last line of a description that may be truncated: half a line may be misread.
fn remove_partial_line(text: &mut String) {
    if text.chars().count() >= LISTED_DESCRIPTION {
        text.truncate(text.rfind('\n').unwrap_or_default());
    }
}

fn completion_options(merge: &MergeOptions) -> Value {
    let strategy = match merge.method {
        MergeMethod::Merge => "noFastForward",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase",
    };
    json!({"mergeStrategy": strategy})
}

impl ReviewRequester for AzureDevOps {
    fn request_reviews<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            for name in names {
                let id = self.identity_id(name).await?;
                let path = ["pullrequests", &number, "reviewers", &id];
                let request = ApiRequest::new("ask for reviews", Method::PUT, &path);
                self.repository
                    .send(request.body(json!({"vote": 0})))
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
            let query = vec![
                ("searchCriteria.status", "all".to_owned()),
                ("searchCriteria.sourceRefName", head.reference()),
            ];
            let mut found = self.pull_requests("look for pull requests", query).await?;
            found.retain(|pull| pull.head == head.as_str());
            for pull in &mut found {
                if pull.body.chars().count() >= LISTED_DESCRIPTION {
                    *pull = self.get(pull.number).await?;
                }
            }
            Ok(found)
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let attempted = "read the pull request";
            let pull = self
                .pull_request(attempted, Method::GET, number, None)
                .await?;
            Ok(pull.into_pull_request(&self.web_url))
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            if !self.has_difference(attempted, new).await? {
                return Err(Error::NoDifference { attempted });
            }
            let body = json!({
                "sourceRefName": new.head.reference(), "targetRefName": new.base.reference(),
                "title": new.title, "description": new.body, "isDraft": new.draft,
            });
            let request = ApiRequest::new(attempted, Method::POST, &["pullrequests"]).body(body);
            let response = self.repository.send(request).await?;
            if response.json()["typeKey"] == "GitPullRequestExistsException" {
                return Err(Error::AlreadyExists { attempted });
            }
            Ok(response
                .parse::<AzurePullRequest>()?
                .into_pull_request(&self.web_url))
        })
    }

    fn update<'a>(
        &'a self,
        number: u64,
        update: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "update the pull request";
            let mut body = json!({});
            if let Some(title) = &update.title {
                body["title"] = json!(title);
            }
            if let Some(text) = &update.body {
                body["description"] = json!(text);
            }
            if let Some(open) = update.open {
                body["status"] = json!(if open { "active" } else { "abandoned" });
            }
            let method = if *update == PullRequestUpdate::default() {
                Method::GET
            } else {
                Method::PATCH
            };
            let body = Some(body).filter(|_| method == Method::PATCH);
            let pull = self.pull_request(attempted, method, number, body).await?;
            Ok(pull.into_pull_request(&self.web_url))
        })
    }

    fn add_metadata<'a>(
        &'a self,
        number: u64,
        metadata: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        Box::pin(async move {
            let text = number.to_string();
            for label in &metadata.labels {
                let path = ["pullrequests", &text, "labels"];
                let request = ApiRequest::new("label the pull request", Method::POST, &path)
                    .query("api-version", PREVIEW_API_VERSION);
                self.repository
                    .send(request.body(json!({"name": label})))
                    .await?
                    .success()?;
            }
            request_from_each(self, number, &metadata.reviewer_names()).await
        })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        Box::pin(async move {
            let attempted = "merge the pull request";
            let current = self
                .pull_request(attempted, Method::GET, number, None)
                .await?;
            if current.is_merged() {
                return Ok(MergeResult::Merged);
            }
            if current.head() != Some(merge.head.as_str()) {
                return Err(Error::HeadMoved { attempted });
            }
            let body = json!({
                "status": "completed",
                "lastMergeSourceCommit": {"commitId": merge.head.as_str()},
                "completionOptions": completion_options(merge),
            });
            let text = number.to_string();
            let path = ["pullrequests", text.as_str()];
            let request = ApiRequest::new(attempted, Method::PATCH, &path).body(body);
            let response = self.repository.send(request).await?;
            let (status, mut message) = (response.status.as_u16(), response.message());
            if response.json()["typeKey"] == "GitPullRequestStaleException" {
                return Err(Error::HeadMoved { attempted });
            }
            // With these statuses, policies forbid the merge; the token is not refused.
            if !matches!(status, 400 | 403 | 409) {
                let current = response.parse::<AzurePullRequest>()?;
                message = format!("its merge status is {}", current.merge_status);
            }
            let current = self
                .pull_request(attempted, Method::GET, number, None)
                .await?;
            match current.into_pull_request(&self.web_url).state {
                PullRequestState::Merged => Ok(MergeResult::Merged),
                _ => Err(Error::NotMergeable { attempted, message }),
            }
        })
    }

    fn cancel_scheduled_merge(&self, number: u64) -> ForgeFuture<'_, ()> {
        Box::pin(async move {
            let attempted = "keep the pull request from being completed by itself";
            let body = json!({"autoCompleteSetBy": {"id": NOBODY}});
            let pull = self.pull_request(attempted, Method::PATCH, number, Some(body));
            pull.await.map(drop)
        })
    }

    fn compare<'a>(&'a self, range: CommitRange<'a>) -> ForgeFuture<'a, CommitComparison> {
        Box::pin(compare::azure(&self.repository, range))
    }

    fn list_open<'a>(
        &'a self,
        _since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        // Azure DevOps has no validators for lists.
        Box::pin(async move {
            let query = vec![("searchCriteria.status", "active".to_owned())];
            let attempted = "list the open pull requests";
            let mut open = self.pull_requests(attempted, query).await?;
            for pull in &mut open {
                remove_partial_line(&mut pull.body);
            }
            Ok(PullRequestListing::without_validator(open))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ObjectId;

    #[test]
    fn every_method_has_its_strategy() {
        for (method, strategy) in [
            (MergeMethod::Merge, "noFastForward"),
            (MergeMethod::Squash, "squash"),
            (MergeMethod::Rebase, "rebase"),
        ] {
            let head = ObjectId::new("b".repeat(40)).expect("an id");
            let options = completion_options(&MergeOptions { head, method });
            assert_eq!(options, json!({"mergeStrategy": strategy}));
        }
    }
}
