//! Pull requests and pages of lists in the JSON of Gitea's API.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::super::ForgeState;
use super::{PullRequest, PullState};

/// Maximum page size.
const MAX_PAGE_SIZE: usize = 50;

pub(super) fn pull(state: &ForgeState, project: &str, pull: &PullRequest) -> Value {
    let repository = json!({"full_name": project});
    let is_merged = pull.state == PullState::Merged;
    json!({
        "id": pull.number,
        "number": pull.number,
        "url": format!("{}/{project}/pulls/{}", state.origin(), pull.number),
        "html_url": format!("{}/{project}/pulls/{}", state.web_origin, pull.number),
        "title": pull.title,
        "body": pull.body,
        "state": if pull.state == PullState::Open { "open" } else { "closed" },
        "draft": pull.title.starts_with("WIP:") || pull.title.starts_with("[WIP]"),
        "merged": is_merged,
        "merged_at": is_merged.then_some("2026-11-15T00:00:00Z"),
        "merge_commit_sha": pull.merge_commit,
        "labels": pull.labels.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "head": {"label": pull.head, "ref": pull.head, "sha": pull.head_commit, "repo": repository},
        "base": {"label": pull.base, "ref": pull.base, "repo": repository},
    })
}

/// One page of a list, with the link to the next.
pub(super) fn page(items: Vec<Value>, query: &BTreeMap<String, String>) -> Response {
    let number = |name: &str| {
        query
            .get(name)
            .and_then(|value| value.parse::<usize>().ok())
    };
    let size = number("limit")
        .filter(|size| *size > 0)
        .unwrap_or(30)
        .min(MAX_PAGE_SIZE);
    let page = number("page").unwrap_or(1).max(1);
    let total = items.len();
    let shown: Vec<Value> = items
        .into_iter()
        .skip((page - 1) * size)
        .take(size)
        .collect();
    let mut headers = vec![("x-total-count", total.to_string())];
    if page * size < total {
        headers.push(("link", format!("</?page={}>; rel=\"next\"", page + 1)));
    }
    let mut response = Json(shown).into_response();
    for (name, value) in headers {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
