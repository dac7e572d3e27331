//! What Bitbucket Server writes.

use serde::Deserialize;
use serde_json::Value;

use crate::forge::api_client::ApiResponse;
use crate::forge::{PullRequest, PullRequestState};
use crate::names::ObjectId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pull {
    pub(super) id: u64,
    pub(super) version: u64,
    pub(super) title: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) state: String,
    #[serde(default)]
    pub(super) draft: bool,
    pub(super) from_ref: Ref,
    pub(super) to_ref: Ref,
    #[serde(default)]
    pub(super) reviewers: Vec<Value>,
    links: Links,
    #[serde(default)]
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ref {
    display_id: String,
    pub(super) latest_commit: Option<String>,
    pub(super) repository: Repository,
}

#[derive(Deserialize)]
pub(super) struct Repository {
    pub(super) slug: String,
    pub(super) project: Project,
}

#[derive(Deserialize)]
pub(super) struct Project {
    pub(super) key: String,
}

#[derive(Deserialize)]
struct Links {
    #[serde(rename = "self", default)]
    own: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    href: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    merge_commit: Option<Commit>,
}

#[derive(Deserialize)]
struct Commit {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    pub(super) values: Vec<Pull>,
    pub(super) is_last_page: bool,
    pub(super) next_page_start: Option<u64>,
}

impl Pull {
    pub(super) fn into_ours(self) -> PullRequest {
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
            merge_commit: self
                .properties
                .merge_commit
                .and_then(|commit| id(commit.id)),
        }
    }
}

/// Whether a refusal is of this kind. Older versions name the exceptions after another product.
pub(super) fn is_because(response: &ApiResponse, exception: &str) -> bool {
    let body = response.json();
    let errors = body["errors"].as_array();
    errors.into_iter().flatten().any(|error| {
        let name = error["exceptionName"].as_str();
        name.is_some_and(|name| name.ends_with(&format!(".{exception}")))
    })
}
