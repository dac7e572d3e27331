//! Azure DevOps' statuses of pull requests, and its threads of comments.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{not_found, refuse};
use crate::forge_doubles::{SharedForgeState, answer, feedback::StoredStatus};

pub(super) fn routes() -> Router<SharedForgeState> {
    Router::new()
        .route("/pullrequests/{number}/statuses", post(set_status))
        .route("/pullrequests/{number}/threads", get(list).post(create))
        .route(
            "/pullrequests/{number}/threads/{thread}/comments/{id}",
            patch(edit),
        )
}

/// Stored with the commit that the pull request has at the time.
async fn set_status(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(head) = forge_state.find(pull).map(|pull| pull.head.clone()) else {
        return not_found();
    };
    let [state, description, url] = ["state", "description", "targetUrl"]
        .map(|field| body[field].as_str().unwrap_or_default().to_owned());
    let context = &body["context"];
    let [genre, name] =
        ["genre", "name"].map(|field| context[field].as_str().unwrap_or_default().to_owned());
    let states = [
        "notSet",
        "pending",
        "succeeded",
        "failed",
        "error",
        "notApplicable",
    ];
    if name.is_empty() || !states.contains(&state.as_str()) {
        let said = "The status must have a context with a name, and a known state.";
        return refuse(400, "InvalidArgumentValueException", said);
    }
    let commit = forge_state.commit_of(&head);
    forge_state.statuses.push(StoredStatus {
        commit,
        context: format!("{genre}/{name}"),
        state,
        description,
        url,
    });
    answer(200, json!({"id": forge_state.statuses.len()}))
}

/// A thread per comment; its id is that of the comment, whose own id is 1.
fn thread(id: u64, text: &str) -> Value {
    json!({"id": id, "comments": [{"id": 1, "content": text}]})
}

async fn list(State(forge_state): State<SharedForgeState>, Path(pull): Path<u64>) -> Response {
    let Some(comments) = forge_state.lock().comments_of(pull) else {
        return not_found();
    };
    let threads = comments.iter().map(|(id, text)| thread(*id, text));
    answer(200, json!({"value": threads.collect::<Vec<_>>()}))
}

async fn create(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let Some(text) = body["comments"][0]["content"].as_str() else {
        return not_found();
    };
    if body["status"] != "closed" {
        return refuse(400, "Test", "an open thread would hold up the merge");
    }
    match forge_state.lock().add_comment(pull, text) {
        Some(id) => answer(200, thread(id, text)),
        None => not_found(),
    }
}

async fn edit(
    State(forge_state): State<SharedForgeState>,
    Path((_, id, comment)): Path<(u64, u64, u64)>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let text = forge_state.comment_text(id).filter(|_| comment == 1);
    let (Some(text), Some(new)) = (text, body["content"].as_str()) else {
        let said = "The requested comment does not exist.";
        return refuse(404, "CommentNotFoundException", said);
    };
    new.clone_into(text);
    answer(200, json!({"id": 1, "content": new}))
}
