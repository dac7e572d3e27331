//! GitHub and GitHub Enterprise.

mod app;

pub use app::AppTokens;

use std::sync::Arc;

use ::http::{Method, StatusCode};
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
use crate::credentials::{Credentials, GitHubApp};
use crate::names::BranchName;

const ACCEPT: &str = "application/vnd.github+json";

/// More pages of pull requests than this are more than anybody looks at.
const PAGES: usize = 30;

/// One repository on GitHub.
pub struct GitHub {
    caller: Caller,
    graph: Caller,
    owner: String,
    name: String,
    login: Login,
}

enum Login {
    Token(Secret),
    App(GitHubApp, Arc<AppTokens>),
}

impl GitHub {
    /// The API is found by the repository's host.
    pub fn new(
        http: &Arc<Http>,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Self, Error> {
        let api = match url.host() {
            "github.com" | "www.github.com" | "ssh.github.com" => {
                "https://api.github.com".to_owned()
            }
            _ if url.scheme() == Scheme::Http => format!("http://{}/api/v3", url.authority()),
            _ if url.scheme() == Scheme::Ssh => format!("https://{}/api/v3", url.host()),
            _ => format!("https://{}/api/v3", url.authority()),
        };
        let unusable = |because: &str| Error::Unusable {
            because: because.to_owned(),
        };
        let base = Url::parse(&api).map_err(|_| unusable("the URL has no usable host"))?;
        let Some((owner, name)) = url
            .project()
            .split_once('/')
            .filter(|(_, name)| !name.contains('/'))
        else {
            return Err(unusable("a GitHub URL ends in owner/repository"));
        };
        let login = match (&credentials.token, &credentials.app) {
            (Some(token), _) => Login::Token(token.clone()),
            (None, Some(app)) => Login::App(app.clone(), Arc::new(AppTokens::new(http.clone()))),
            (None, None) => return Err(unusable("the secret has no \"token\"")),
        };
        Ok(Self {
            graph: http.caller(graph_url(&base), credentials)?,
            caller: http.caller(base, credentials)?,
            owner: owner.to_owned(),
            name: name.to_owned(),
            login,
        })
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, Error> {
        self.caller
            .call(call, &self.authorization().await?, ACCEPT)
            .await
    }

    async fn authorization(&self) -> Result<String, Error> {
        let token = match &self.login {
            Login::Token(token) => token.clone(),
            Login::App(app, tokens) => tokens.token(app).await?,
        };
        Ok(format!(
            "Bearer {}",
            token.expose_text().unwrap_or_default()
        ))
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
        let mut call = Call::new(attempted, method, &self.path(&["pulls", &number]));
        call.body = body;
        self.call(call).await?.read()
    }

    /// All pages of a list, first page first.
    async fn pages(
        &self,
        attempted: &'static str,
        query: &[(&'static str, String)],
    ) -> Result<(Vec<Pull>, Validator), Error> {
        let mut pulls = Vec::new();
        let mut validator = Validator::default();
        for page in 1..=PAGES {
            let mut call = Call::new(attempted, Method::GET, &self.path(&["pulls"]));
            call.query = query.to_vec();
            let call = call
                .query("per_page", "100")
                .query("page", page.to_string());
            let reply = self.call(call).await?.accepted()?;
            validator.0.extend(reply.etag());
            let has_next = reply.has_next();
            pulls.extend(reply.read::<Vec<Pull>>()?);
            if !has_next {
                return Ok((pulls, validator));
            }
        }
        Err(Error::Unreadable {
            attempted,
            because: "too many pages",
        })
    }

    /// Whether every page still is what it was. Costs nothing of the rate limit if so.
    async fn is_same(&self, attempted: &'static str, since: &Validator) -> Result<bool, Error> {
        for (index, etag) in since.0.iter().enumerate() {
            let call = Call::new(attempted, Method::GET, &self.path(&["pulls"])).since(Some(etag));
            let call = call.query("state", "open").query("per_page", "100");
            let reply = self
                .call(call.query("page", (index + 1).to_string()))
                .await?;
            if reply.status != StatusCode::NOT_MODIFIED {
                reply.accepted()?;
                return Ok(false);
            }
        }
        Ok(!since.0.is_empty())
    }

    async fn merge_now(&self, number: u64, merge: &Merge) -> Result<Merged, Error> {
        let attempted = "merge the pull request";
        let body = json!({"sha": merge.head.as_str(), "merge_method": method(merge.method)});
        let text = number.to_string();
        let call = Call::new(
            attempted,
            Method::PUT,
            &self.path(&["pulls", &text, "merge"]),
        );
        let reply = self.call(call.body(body)).await?;
        match reply.status.as_u16() {
            405 | 422 => {}
            409 => return Err(Error::HeadMoved { attempted }),
            _ => return reply.accepted().map(|_| Merged::Now),
        }
        let message = reply.message();
        match self.get(number).await?.state {
            State::Merged => Ok(Merged::Now),
            _ => Err(Error::NotMergeable { attempted, message }),
        }
    }

    async fn merge_later(&self, number: u64, merge: &Merge) -> Result<Merged, Error> {
        let attempted = "ask for the pull request to be merged";
        let pull = self.one(attempted, Method::GET, number, None).await?;
        let body = json!({
            "query": "mutation($input: EnablePullRequestAutoMergeInput!) \
                { enablePullRequestAutoMerge(input: $input) { clientMutationId } }",
            "variables": {"input": {
                "pullRequestId": pull.node_id,
                "expectedHeadOid": merge.head.as_str(),
                "mergeMethod": method(merge.method).to_uppercase(),
            }},
        });
        let call = Call::new(attempted, Method::POST, &[]).body(body);
        let reply = self
            .graph
            .call(call, &self.authorization().await?, ACCEPT)
            .await?
            .accepted()?;
        let message = reply.message();
        let answer: Value = reply.read()?;
        if answer["errors"].as_array().is_none_or(Vec::is_empty) {
            return Ok(Merged::Later);
        }
        // Nothing to wait for: GitHub wants it merged the ordinary way then.
        if message.contains("clean status") || pull.into_ours().state == State::Merged {
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

fn method(method: MergeMethod) -> &'static str {
    match method {
        MergeMethod::Merge => "merge",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase",
    }
}

/// GitHub says 422 to everything it does not like; only the message tells what it was.
fn sort_refusal(attempted: &'static str, reply: &Reply) -> Error {
    let message = reply.message();
    if message.contains("pull request already exists") {
        return Error::AlreadyExists { attempted };
    }
    if message.contains("No commits between") {
        return Error::NoDifference { attempted };
    }
    Error::Refused { attempted, message }
}

impl Forge for GitHub {
    fn find<'a>(&'a self, head: &'a BranchName) -> Answer<'a, Vec<PullRequest>> {
        Box::pin(async move {
            let query = [
                ("state", "all".to_owned()),
                ("head", format!("{}:{head}", self.owner)),
            ];
            let (pulls, _) = self.pages("look for pull requests", &query).await?;
            let project = self.project();
            let mut found: Vec<Pull> = pulls
                .into_iter()
                .filter(|pull| pull.head() == head.as_str() && pull.is_from(&project))
                .collect();
            found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            Ok(found.into_iter().map(Pull::into_ours).collect())
        })
    }

    fn get(&self, number: u64) -> Answer<'_, PullRequest> {
        Box::pin(async move {
            let pull = self
                .one("read the pull request", Method::GET, number, None)
                .await?;
            Ok(pull.into_ours())
        })
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> Answer<'a, PullRequest> {
        Box::pin(async move {
            let attempted = "open a pull request";
            let body = json!({
                "head": new.head.as_str(), "base": new.base.as_str(),
                "title": new.title, "body": new.body, "draft": new.draft,
            });
            let call = Call::new(attempted, Method::POST, &self.path(&["pulls"])).body(body);
            let reply = self.call(call).await?;
            if reply.status == StatusCode::UNPROCESSABLE_ENTITY {
                return Err(sort_refusal(attempted, &reply));
            }
            Ok(reply.read::<Pull>()?.into_ours())
        })
    }

    fn update<'a>(&'a self, number: u64, changes: &'a Changes) -> Answer<'a, PullRequest> {
        Box::pin(async move {
            let mut body = json!({});
            if let Some(title) = &changes.title {
                body["title"] = json!(title);
            }
            if let Some(text) = &changes.body {
                body["body"] = json!(text);
            }
            if let Some(open) = changes.open {
                body["state"] = json!(if open { "open" } else { "closed" });
            }
            let pull = self
                .one("update the pull request", Method::PATCH, number, Some(body))
                .await?;
            Ok(pull.into_ours())
        })
    }

    fn dress<'a>(&'a self, number: u64, dressing: &'a Dressing) -> Answer<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            if !dressing.labels.is_empty() {
                let path = self.path(&["issues", &number, "labels"]);
                let call = Call::new("label the pull request", Method::POST, &path);
                self.call(call.body(json!({"labels": dressing.labels})))
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
            if merge.when_ready {
                self.merge_later(number, merge).await
            } else {
                self.merge_now(number, merge).await
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

    fn list_open<'a>(&'a self, since: Option<&'a Validator>) -> Answer<'a, Listing> {
        Box::pin(async move {
            let attempted = "list the open pull requests";
            if let Some(since) = since
                && self.is_same(attempted, since).await?
            {
                return Ok(Listing::Same);
            }
            let (pulls, validator) = self
                .pages(attempted, &[("state", "open".to_owned())])
                .await?;
            let project = self.project();
            let ours = pulls.into_iter().filter(|pull| pull.is_from(&project));
            Ok(Listing::Now {
                pull_requests: ours.map(Pull::into_ours).collect(),
                validator,
            })
        })
    }
}
