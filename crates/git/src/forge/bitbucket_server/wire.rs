//! The responses of Bitbucket Server that are read.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::forge::api_client::ApiResponse;
use crate::forge::session::ListPage;
use crate::forge::{PullRequest, PullRequestState};
use crate::names::ObjectId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerPullRequest {
    pub(super) id: u64,
    pub(super) version: u64,
    pub(super) title: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) state: String,
    #[serde(default)]
    pub(super) draft: bool,
    pub(super) from_ref: ServerBranchReference,
    pub(super) to_ref: ServerBranchReference,
    #[serde(default)]
    pub(super) reviewers: Vec<Value>,
    links: ServerLinks,
    #[serde(default)]
    properties: ServerProperties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerBranchReference {
    display_id: String,
    pub(super) latest_commit: Option<String>,
    pub(super) repository: ServerRepository,
}

#[derive(Deserialize)]
pub(super) struct ServerRepository {
    pub(super) slug: String,
    pub(super) project: ServerProject,
}

#[derive(Deserialize)]
pub(super) struct ServerProject {
    pub(super) key: String,
}

#[derive(Deserialize)]
struct ServerLinks {
    #[serde(rename = "self", default)]
    own: Vec<ServerLink>,
}

#[derive(Deserialize)]
struct ServerLink {
    href: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerProperties {
    merge_commit: Option<ServerCommit>,
}

#[derive(Deserialize)]
struct ServerCommit {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerPage<T> {
    values: Vec<T>,
    is_last_page: bool,
    next_page_start: Option<u64>,
}

impl<T: DeserializeOwned> ListPage for ServerPage<T> {
    type Item = T;
    const PARAMETER: &'static str = "start";
    const FIRST: u64 = 0;

    fn next(&self, _current: u64) -> Option<u64> {
        self.next_page_start.filter(|_| !self.is_last_page)
    }

    fn into_items(self) -> Vec<T> {
        self.values
    }
}

impl ServerPullRequest {
    pub(super) fn into_pull_request(self) -> PullRequest {
        let id = |text: String| ObjectId::new(text).ok();
        let state = match self.state.as_str() {
            "OPEN" => PullRequestState::Open,
            "MERGED" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        let url = self.links.own.into_iter().next();
        PullRequest {
            number: self.id,
            url: url.map(|link| link.href).unwrap_or_default(),
            title: self.title,
            body: self.description,
            state,
            draft: self.draft,
            head: self.from_ref.display_id,
            head_commit: self.from_ref.latest_commit.and_then(id),
            base: self.to_ref.display_id,
            is_merge_scheduled: false,
            merge_commit: self
                .properties
                .merge_commit
                .and_then(|commit| id(commit.id)),
        }
    }
}

/// Whether the response names this exception, whose package differs between versions.
pub(super) fn has_exception(response: &ApiResponse, exception: &str) -> bool {
    let body = response.json();
    let errors = body["errors"].as_array();
    errors.into_iter().flatten().any(|error| {
        let name = error["exceptionName"].as_str();
        name.is_some_and(|name| name.ends_with(&format!(".{exception}")))
    })
}
