//! GitHub's commit statuses and comments: at most 140 characters, and only on commits that exist.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::not_found;
use crate::forge_doubles::{
    SharedForgeState, answer,
    feedback::{StoredStatus, is_link},
    number, page,
};

pub(super) fn routes() -> Router<SharedForgeState> {
    Router::new()
        .route("/statuses/{commit}", post(set_status))
        .route("/issues/{number}/comments", get(list).post(create))
        .route("/issues/comments/{id}", patch(edit))
}

async fn set_status(
    State(forge_state): State<SharedForgeState>,
    Path(commit): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let [context, state, description, url] = ["context", "state", "description", "target_url"]
        .map(|field| body[field].as_str().unwrap_or_default().to_owned());
    let problem = match () {
        () if !forge_state.has_commit(&commit) => {
            Some(format!("No commit found for SHA: {commit}"))
        }
        () if !["error", "failure", "pending", "success"].contains(&state.as_str()) => {
            Some("State is not included in the list".to_owned())
        }
        () if description.chars().count() > 140 => {
            Some("description is too long (maximum is 140 characters)".to_owned())
        }
        () if !url.is_empty() && !is_link(&url) => {
            Some("Target URL must use http(s) scheme".to_owned())
        }
        () => None,
    };
    if let Some(message) = problem {
        return answer(422, json!({"message": message}));
    }
    forge_state.statuses.push(StoredStatus {
        commit,
        context,
        state,
        description,
        url,
    });
    answer(201, json!({"id": forge_state.statuses.len()}))
}

async fn list(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let Some(comments) = forge_state.lock().comments_of(pull) else {
        return not_found();
    };
    let size = number(&query, "per_page", 30).min(100);
    let (comments, next) = page(&comments, size, number(&query, "page", 1));
    let shown = comments
        .iter()
        .map(|(id, text)| json!({"id": id, "body": text}));
    let mut response = answer(200, shown.collect());
    if let Some(next) = next {
        let headers = response.headers_mut();
        headers.insert("link", next.parse().expect("a header"));
    }
    response
}

async fn create(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let text = body["body"].as_str().unwrap_or_default();
    match forge_state.lock().add_comment(pull, text) {
        Some(id) => answer(201, json!({"id": id, "body": text})),
        None => not_found(),
    }
}

async fn edit(
    State(forge_state): State<SharedForgeState>,
    Path(id): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let (Some(text), Some(new)) = (forge_state.comment_text(id), body["body"].as_str()) else {
        return not_found();
    };
    new.clone_into(text);
    answer(200, json!({"id": id, "body": new}))
}
