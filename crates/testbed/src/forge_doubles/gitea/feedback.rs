//! Gitea's commit statuses and comments. The list of comments has no pages.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::not_found;
use crate::forge_doubles::{SharedForgeState, answer, feedback::StoredStatus};

pub(super) fn routes() -> Router<SharedForgeState> {
    Router::new()
        .route("/statuses/{commit}", post(set_status))
        .route("/issues/{number}/comments", get(list).post(create))
        .route("/issues/comments/{id}", patch(edit))
}

/// What version 1.26 answers where it does not find the commit or the pull request.
fn internal_error() -> Response {
    answer(500, json!({"message": ""}))
}

async fn set_status(
    State(forge_state): State<SharedForgeState>,
    Path(commit): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    if !forge_state.has_commit(&commit) {
        return internal_error();
    }
    let [context, state, description, url] = ["context", "state", "description", "target_url"]
        .map(|field| body[field].as_str().unwrap_or_default().to_owned());
    let states = ["pending", "success", "error", "failure", "warning"];
    if !states.contains(&state.as_str()) {
        return answer(422, json!({"message": "invalid commit status state"}));
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

async fn list(State(forge_state): State<SharedForgeState>, Path(pull): Path<u64>) -> Response {
    let Some(comments) = forge_state.lock().comments_of(pull) else {
        return internal_error();
    };
    let shown = comments
        .iter()
        .map(|(id, text)| json!({"id": id, "body": text}));
    answer(200, shown.collect())
}

async fn create(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let Some(text) = body["body"].as_str().filter(|text| !text.is_empty()) else {
        return answer(422, json!({"message": "[Body]: Required"}));
    };
    match forge_state.lock().add_comment(pull, text) {
        Some(id) => answer(201, json!({"id": id, "body": text})),
        None => internal_error(),
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
