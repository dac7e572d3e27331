//! GitLab's commit statuses, which are jobs with states that follow each other, and its notes.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::{get, post, put};
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
        .route("/merge_requests/{number}/notes", get(list).post(create))
        .route("/merge_requests/{number}/notes/{id}", put(edit))
}

/// Why a job that is in the first state does not get to the second one.
fn refused_transition(from: &str, to: &str) -> Option<String> {
    let event = match (from, to) {
        ("pending" | "running", "pending") => "enqueue",
        ("running", "running") => "run",
        _ => return None,
    };
    Some(format!(
        "Cannot transition status via :{event} from :{from} (Reason(s): Status cannot transition via \"{event}\")"
    ))
}

async fn set_status(
    State(forge_state): State<SharedForgeState>,
    Path((_, commit)): Path<(String, String)>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    if !forge_state.has_commit(&commit) {
        return answer(404, json!({"message": "404 Commit Not Found"}));
    }
    let [context, state, description, url, branch] =
        ["name", "state", "description", "target_url", "ref"]
            .map(|field| body[field].as_str().unwrap_or_default().to_owned());
    let states = [
        "pending", "running", "success", "failed", "canceled", "skipped",
    ];
    if !states.contains(&state.as_str()) {
        return answer(400, json!({"error": "state does not have a valid value"}));
    }
    if forge_state.branches.get(&branch) != Some(&commit) {
        return answer(
            404,
            json!({"message": "404 References for commit Not Found"}),
        );
    }
    if description.chars().count() > 255 {
        let said = json!({"description": ["is too long (maximum is 255 characters)"]});
        return answer(400, json!({"message": said}));
    }
    if !url.is_empty() && !is_link(&url) {
        return answer(400, json!({"message": {"target_url": ["is blocked"]}}));
    }
    let mut statuses = forge_state.statuses.iter().rev();
    let known = statuses.find(|it| it.commit == commit && it.context == context);
    if let Some(message) = known.and_then(|known| refused_transition(&known.state, &state)) {
        return answer(400, json!({"message": message}));
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
    Path((_, pull)): Path<(String, u64)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let Some(mut comments) = forge_state.lock().comments_of(pull) else {
        return not_found();
    };
    if query.get("sort").is_none_or(|sort| sort == "desc") {
        comments.reverse();
    }
    let size = number(&query, "per_page", 20).min(100);
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
    Path((_, pull)): Path<(String, u64)>,
    Json(body): Json<Value>,
) -> Response {
    let Some(text) = body["body"].as_str() else {
        return answer(400, json!({"error": "body is missing"}));
    };
    match forge_state.lock().add_comment(pull, text) {
        Some(id) => answer(201, json!({"id": id, "body": text})),
        None => not_found(),
    }
}

async fn edit(
    State(forge_state): State<SharedForgeState>,
    Path((_, _, id)): Path<(String, u64, u64)>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let (Some(text), Some(new)) = (forge_state.comment_text(id), body["body"].as_str()) else {
        return not_found();
    };
    new.clone_into(text);
    answer(200, json!({"id": id, "body": new}))
}
