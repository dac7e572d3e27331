//! Comments on pull requests and commit statuses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::super::ForgeState;
use super::{
    ErrorResponse, PullRequestPath, authorize, change, error_response, into_response, text,
};

/// How many comments a pull request can have: the ids follow from its number.
const MAX_COMMENTS: u64 = 10_000;

/// A commit status. The last one of a context counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStatus {
    /// The commit it is on.
    pub commit: String,
    /// Its context.
    pub context: String,
    /// `pending`, `success` or `failure`.
    pub state: String,
    /// Its text.
    pub description: String,
    /// Its link; empty without one.
    pub url: String,
}

/// Checks the token and its scopes, and returns the project.
fn authorize_feedback(
    state: &ForgeState,
    headers: &HeaderMap,
    owner: &str,
    name: &str,
) -> Result<String, ErrorResponse> {
    let project = authorize(state, headers, owner, name)?;
    match state.forbids_feedback.load(Ordering::SeqCst) {
        true => Err(error_response(
            403,
            "token does not have the required scope",
        )),
        false => Ok(project),
    }
}

pub(super) async fn comment(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<PullRequestPath>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let comment = || {
        let project = authorize_feedback(&state, &headers, &owner, &name)?;
        let comment = text(&body, "body").filter(|comment| !comment.is_empty());
        let comment = comment.ok_or_else(|| error_response(422, "[Body]: Required"))?;
        let mut id = 0;
        change(&state, &project, number, |pull| {
            pull.comments.push(comment.clone());
            id = number * MAX_COMMENTS + pull.comments.len() as u64;
            Ok(())
        })?;
        let shown = json!({"id": id, "body": comment});
        Ok((StatusCode::CREATED, Json(shown)).into_response())
    };
    into_response(comment())
}

pub(super) async fn list_comments(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<PullRequestPath>,
    headers: HeaderMap,
) -> Response {
    let list = || {
        let project = authorize(&state, &headers, &owner, &name)?;
        let mut comments = Vec::new();
        change(&state, &project, number, |pull| {
            comments.clone_from(&pull.comments);
            Ok(())
        })?;
        let shown = (number * MAX_COMMENTS + 1..).zip(comments);
        let shown = shown.map(|(id, text)| json!({"id": id, "body": text}));
        Ok(Json(shown.collect::<Vec<_>>()).into_response())
    };
    into_response(list())
}

/// The number in the path is the id of the comment.
pub(super) async fn edit_comment(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, id)): Path<PullRequestPath>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let edit = || {
        let project = authorize_feedback(&state, &headers, &owner, &name)?;
        let comment = text(&body, "body").unwrap_or_default();
        let index = usize::try_from(id % MAX_COMMENTS).unwrap_or_default();
        change(&state, &project, id / MAX_COMMENTS, |pull| {
            let stored = pull.comments.get_mut(index.wrapping_sub(1));
            let stored = stored.ok_or_else(|| error_response(404, "comment does not exist"))?;
            stored.clone_from(&comment);
            Ok(())
        })?;
        Ok(Json(json!({"id": id, "body": comment})).into_response())
    };
    into_response(edit())
}

pub(super) async fn set_status(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, commit)): Path<(String, String, String)>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let set = || {
        let project = authorize_feedback(&state, &headers, &owner, &name)?;
        let field = |name: &str| text(&body, name).unwrap_or_default();
        let status = CommitStatus {
            commit,
            context: field("context"),
            state: field("state"),
            description: field("description"),
            url: field("target_url"),
        };
        if !["pending", "success", "failure"].contains(&status.state.as_str()) {
            return Err(error_response(422, "invalid commit status state"));
        }
        let mut store = state.pulls.lock();
        store.statuses.entry(project).or_default().push(status);
        Ok((StatusCode::CREATED, Json(json!({"id": 1}))).into_response())
    };
    into_response(set())
}

/// Every commit status of a repository, the oldest first.
pub(in super::super) fn statuses(state: &ForgeState, project: &str) -> Vec<CommitStatus> {
    let store = state.pulls.lock();
    store.statuses.get(project).cloned().unwrap_or_default()
}

/// Whether a commit has the status that merges require, if they do.
pub(super) fn is_required_status_met(state: &ForgeState, project: &str, commit: &str) -> bool {
    let required = state.required_status.lock().clone();
    let Some(context) = required else {
        return true;
    };
    let statuses = statuses(state, project);
    let mut last = statuses.iter().rev();
    let last = last.find(|it| it.commit == commit && it.context == context);
    last.is_some_and(|it| it.state == "success")
}
