//! Bitbucket Server's builds, and its comments with their versions.

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};

use super::{Parameters, not_found, refuse};
use crate::forge_doubles::{
    SharedForgeState, answer,
    feedback::{StoredStatus, is_link},
    number,
};

/// Below the pull requests.
pub(super) fn routes() -> Router<SharedForgeState> {
    Router::new()
        .route("/{number}/activities", get(activities))
        .route("/{number}/comments", post(create))
        .route("/{number}/comments/{id}", get(show).put(edit))
}

pub(super) async fn set_status(
    State(forge_state): State<SharedForgeState>,
    Path(commit): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    if !forge_state.has_commit(&commit) {
        return refuse(
            404,
            "commit.NoSuchCommitException",
            "The commit does not exist.",
        );
    }
    let [context, state, description, url, reference] =
        ["key", "state", "description", "url", "ref"]
            .map(|field| body[field].as_str().unwrap_or_default().to_owned());
    let invalid = |said| refuse(400, "validation.ArgumentValidationException", said);
    let states = ["SUCCESSFUL", "FAILED", "INPROGRESS", "CANCELLED", "UNKNOWN"];
    if !states.contains(&state.as_str()) {
        return invalid("state must be one of the build states.");
    }
    if context.is_empty() || context.len() > 255 || description.chars().count() > 255 {
        return invalid("key and description must have at most 255 characters.");
    }
    if !is_link(&url) || url.len() > 450 {
        return invalid("url must be an absolute URL.");
    }
    if !reference.starts_with("refs/heads/") {
        return invalid("ref must start with refs/.");
    }
    forge_state.statuses.push(StoredStatus {
        commit,
        context,
        state,
        description,
        url,
    });
    StatusCode::NO_CONTENT.into_response()
}

/// The newest first: comments, and that it was opened.
async fn activities(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Query(query): Parameters,
) -> Response {
    let Some(comments) = forge_state.lock().comments_of(pull) else {
        return not_found();
    };
    let mut all = vec![json!({"action": "OPENED"})];
    all.extend(comments.iter().map(|(id, text)| {
        let comment = json!({"id": id, "version": version(text), "text": text});
        json!({"action": "COMMENTED", "comment": comment})
    }));
    all.reverse();
    let (start, limit) = (number(&query, "start", 0), number(&query, "limit", 25));
    let shown: Vec<&Value> = all.iter().skip(start).take(limit).collect();
    let is_last = start + shown.len() >= all.len();
    let next = (!is_last).then_some(start + shown.len());
    answer(
        200,
        json!({"values": shown, "isLastPage": is_last, "nextPageStart": next}),
    )
}

/// A version that differs when the text does.
fn version(text: &str) -> usize {
    text.len()
}

async fn create(
    State(forge_state): State<SharedForgeState>,
    Path(pull): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let Some(text) = body["text"].as_str() else {
        return refuse(400, "validation.ArgumentValidationException", "No text.");
    };
    match forge_state.lock().add_comment(pull, text) {
        Some(id) => answer(
            201,
            json!({"id": id, "version": version(text), "text": text}),
        ),
        None => not_found(),
    }
}

fn no_comment() -> Response {
    let said = "The comment does not exist.";
    refuse(404, "comment.NoSuchCommentException", said)
}

async fn show(
    State(forge_state): State<SharedForgeState>,
    Path((_, id)): Path<(u64, u64)>,
) -> Response {
    match forge_state.lock().comment_text(id) {
        Some(text) => answer(
            200,
            json!({"id": id, "version": version(text), "text": text}),
        ),
        None => no_comment(),
    }
}

async fn edit(
    State(forge_state): State<SharedForgeState>,
    Path((_, id)): Path<(u64, u64)>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let (Some(text), Some(new)) = (forge_state.comment_text(id), body["text"].as_str()) else {
        return no_comment();
    };
    if body["version"] != version(text) {
        let said = "You are attempting to modify a comment based on out-of-date information.";
        return refuse(409, "comment.CommentOutOfDateException", said);
    }
    new.clone_into(text);
    answer(200, json!({"id": id, "version": version(new), "text": new}))
}
