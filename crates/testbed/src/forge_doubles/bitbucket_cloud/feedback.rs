//! Bitbucket Cloud's build statuses, which need a link and have short keys, and its comments.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{Parameters, not_found, refuse};
use crate::forge_doubles::{
    SharedForgeState, answer,
    feedback::{StoredStatus, is_link},
};

pub(super) fn routes() -> Router<SharedForgeState> {
    Router::new()
        .route("/commit/{hash}/statuses/build", post(set_status))
        .route("/pullrequests/{number}/comments", get(list).post(create))
        .route("/pullrequests/{number}/comments/{id}", put(edit))
}

async fn set_status(
    State(forge_state): State<SharedForgeState>,
    Path(commit): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    if !forge_state.has_commit(&commit) {
        return refuse(404, "Commit not found");
    }
    let [context, state, description, url] = ["key", "state", "description", "url"]
        .map(|field| body[field].as_str().unwrap_or_default().to_owned());
    if context.is_empty() || context.len() > 40 {
        return refuse(400, "key: ensure this value has at most 40 characters");
    }
    if !["SUCCESSFUL", "FAILED", "INPROGRESS", "STOPPED"].contains(&state.as_str()) {
        return refuse(400, "state: value is not a valid choice");
    }
    if !is_link(&url) {
        return refuse(400, "url: required key not provided");
    }
    forge_state.statuses.push(StoredStatus {
        commit,
        context,
        state,
        description,
        url,
    });
    answer(201, json!({"type": "build"}))
}

/// Pages of at most 100, with the comments that were deleted.
async fn list(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Query(query): Parameters,
) -> Response {
    let Some(comments) = forge_state.lock().comments_of(pull) else {
        return not_found();
    };
    let value = |name: &str, default: usize| {
        let found = query.iter().find(|(own, _)| own == name);
        found
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(default)
    };
    let (size, page) = (value("pagelen", 10).min(100), value("page", 1));
    let shown = comments.iter().skip((page - 1) * size).take(size);
    let shown =
        shown.map(|(id, text)| json!({"id": id, "deleted": false, "content": {"raw": text}}));
    let mut body = json!({"values": shown.collect::<Vec<_>>(), "page": page});
    if page * size < comments.len() {
        body["next"] = json!("https://example.com/next");
    }
    answer(200, body)
}

async fn create(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let Some(text) = body["content"]["raw"].as_str() else {
        return refuse(400, "content: required key not provided");
    };
    match forge_state.lock().add_comment(pull, text) {
        Some(id) => answer(201, json!({"id": id, "content": {"raw": text}})),
        None => not_found(),
    }
}

async fn edit(
    State(forge_state): State<SharedForgeState>,
    Path((_, id)): Path<(u64, u64)>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let new = body["content"]["raw"].as_str();
    let (Some(text), Some(new)) = (forge_state.comment_text(id), new) else {
        return not_found();
    };
    new.clone_into(text);
    answer(200, json!({"id": id, "content": {"raw": new}}))
}
