//! GitHub and GitHub Enterprise.

mod app;

pub use app::AppTokens;

use std::sync::Arc;

use ::http::{Method, StatusCode};
use net::OutboundHttp;
use serde_json::{Value, json};
use url::Url;

use super::api_client::{ApiRequest, ApiResponse};
use super::reviews::{self, Reviews};
use super::session::{Authentication, ForgeSession, List, api, below, origin, unusable};
use super::wire::{self, Pull};
use super::{
    Error, Forge, ForgeFuture, ListingValidator, MergeOptions, MergeResult, NewPullRequest,
    PullRequest, PullRequestListing, PullRequestMetadata, PullRequestState, PullRequestUpdate,
};
use crate::credentials::Credentials;
use crate::names::BranchName;
use crate::repository_url::RepositoryUrl;

const ACCEPT: &str = "application/vnd.github+json";

/// More pages of pull requests than this are more than anybody looks at.
const PAGES: usize = 30;

/// One repository on GitHub.
pub struct GitHub {
    session: ForgeSession,
    graph: ForgeSession,
    owner: String,
    name: String,
}

impl GitHub {
    /// The API is found by the repository's host.
    pub fn new(
        http: &Arc<OutboundHttp>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let base = api(credentials, || match url.host() {
            "github.com" | "www.github.com" | "ssh.github.com" => {
                "https://api.github.com".to_owned()
            }
            _ => format!("{}/api/v3", origin(url)),
        })?;
        let project = below(url.project(), &base, "/api/v3");
        let Some((owner, name)) = project
            .split_once('/')
            .filter(|(_, name)| !name.contains('/'))
        else {
            return Err(unusable("a GitHub URL ends in owner/repository"));
        };
        let login = match (&credentials.token, &credentials.app) {
            (None, Some(app)) => {
                Authentication::App(app.clone(), Arc::new(AppTokens::new(http.clone())))
            }
            _ => Authentication::Bearer(Authentication::token(credentials)?),
        };
        let login = Arc::new(login);
        let open = |url| ForgeSession::new(http, url, credentials, login.clone());
        Ok(Self {
            graph: open(graph_url(&base))?.accepting(ACCEPT),
            session: open(base)?.accepting(ACCEPT),
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
    ) -> Result<Pull, Error> {
        let number = number.to_string();
        let mut request = ApiRequest::new(attempted, method, &self.path(&["pulls", &number]));
        request.body = body;
        self.session.send(request).await?.parse()
    }

    fn list(&self, attempted: &'static str, state: &str) -> List<'_> {
        List {
            attempted,
            path: self.path(&["pulls"]),
            query: vec![("state", state.to_owned()), ("per_page", "100".to_owned())],
        }
    }

    async fn merge_now(&self, number: u64, merge: &MergeOptions) -> Result<MergeResult, Error> {
        let attempted = "merge the pull request";
        let body = json!({"sha": merge.head.as_str(), "merge_method": wire::method(merge.method)});
        let text = number.to_string();
        let request = ApiRequest::new(
            attempted,
            Method::PUT,
            &self.path(&["pulls", &text, "merge"]),
        );
        let response = self.session.send(request.body(body)).await?;
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
        let pull = self.one(attempted, Method::GET, number, None).await?;
        let body = json!({
            "query": "mutation($input: EnablePullRequestAutoMergeInput!) \
                { enablePullRequestAutoMerge(input: $input) { clientMutationId } }",
            "variables": {"input": {
                "pullRequestId": pull.node_id,
                "expectedHeadOid": merge.head.as_str(),
                "mergeMethod": wire::method(merge.method).to_uppercase(),
            }},
        });
        let request = ApiRequest::new(attempted, Method::POST, &[]).body(body);
        let response = self.graph.send(request).await?.success()?;
        let message = response.message();
        let answer: Value = response.parse()?;
        if answer["errors"].as_array().is_none_or(Vec::is_empty) {
            return Ok(MergeResult::Scheduled);
        }
        // Nothing to wait for: GitHub wants it merged the ordinary way then.
        if message.contains("clean status") || pull.into_ours().state == PullRequestState::Merged {
            return self.merge_now(number, merge).await;
        }
        Err(Error::Refused { attempted, message })
    }
}

/// `/api/v3` is beside `/api/graphql`; github.com has it below its root.
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

/// GitHub says 422 to everything it does not like; only the message tells what it was.
fn sort_refusal(attempted: &'static str, response: &ApiResponse) -> Error {
    let message = response.message();
    if message.contains("pull request already exists") {
        return Error::AlreadyExists { attempted };
    }
    if message.contains("No commits between") {
        return Error::NoDifference { attempted };
    }
    Error::Refused { attempted, message }
}

impl Reviews for GitHub {
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

impl Forge for GitHub {
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let attempted = "look for pull requests";
            let mut list = self.list(attempted, "all");
            list.query.push(("head", format!("{}:{head}", self.owner)));
            let (pulls, _) = self.session.pages(&list, PAGES).await?.whole(attempted)?;
            let project = self.project();
            let mut found: Vec<Pull> = pulls
                .into_iter()
                .filter(|pull: &Pull| pull.head() == head.as_str() && pull.is_from(&project))
                .collect();
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            Ok(found.into_iter().map(Pull::into_ours).collect())
        })
    }

    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest> {
        Box::pin(async move {
            let pull = self
                .one("read the pull request", Method::GET, number, None)
                .await?;
            Ok(pull.into_ours())
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            let body = json!({
                "head": new.head.as_str(), "base": new.base.as_str(),
                "title": new.title, "body": new.body, "draft": new.draft,
            });
            let request =
                ApiRequest::new(attempted, Method::POST, &self.path(&["pulls"])).body(body);
            let response = self.session.send(request).await?;
            if response.status == StatusCode::UNPROCESSABLE_ENTITY {
                return Err(sort_refusal(attempted, &response));
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
            let pull = self
                .one(
                    "update the pull request",
                    Method::PATCH,
                    number,
                    Some(wire::changes(changes)),
                )
                .await?;
            Ok(pull.into_ours())
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
                let path = self.path(&["issues", &number, "labels"]);
                let request = ApiRequest::new("label the pull request", Method::POST, &path);
                self.session
                    .send(request.body(json!({"labels": dressing.labels})))
                    .await?
                    .success()?;
            }
            let names: Vec<&str> = dressing.reviewers.iter().map(String::as_str).collect();
            reviews::ask(self, number, &names).await
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
        since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        Box::pin(async move {
            let attempted = "list the open pull requests";
            let list = self.list(attempted, "open");
            // Costs nothing of the rate limit if nothing changed.
            if let Some(since) = since
                && self.session.is_same(&list, since).await?
            {
                return Ok(PullRequestListing::Unchanged);
            }
            let pages = self.session.pages::<Pull>(&list, PAGES).await?;
            let (pulls, validator) = pages.whole(attempted)?;
            let project = self.project();
            let ours = pulls.into_iter().filter(|pull| pull.is_from(&project));
            Ok(PullRequestListing::Changed {
                pull_requests: ours.map(Pull::into_ours).collect(),
                validator,
            })
        })
    }
}
