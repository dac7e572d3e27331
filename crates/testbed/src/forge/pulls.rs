//! Pull requests, with the responses of Gitea's API.

mod compare;
mod feedback;
mod gitea_json;
mod merge;
mod metadata;
mod store;
mod token;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::ForgeState;
use super::repository::tip;
use store::change;

pub use feedback::CommitStatus;
pub(super) use feedback::statuses;
pub(super) use merge::merge;
pub use store::{PullRequest, PullState};
pub(super) use store::{PullRequestStore, close, retitle, rewrite};
pub(super) use token::notifications;

/// The status and message of an error response.
pub(super) type ErrorResponse = (StatusCode, String);

fn error_response(status: u16, message: impl Into<String>) -> ErrorResponse {
    (
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        message.into(),
    )
}

/// The path parameters of a repository.
type OwnerAndName = (String, String);
/// The path parameters of a pull request.
type PullRequestPath = (String, String, u64);

pub(super) fn routes() -> Router<Arc<ForgeState>> {
    Router::new()
        .route("/", get(token::show_repository))
        .route("/pulls", get(list).post(create))
        .route("/compare/{range}", get(compare::compare))
        .route("/pulls/{number}", get(show_one).patch(edit))
        .route("/pulls/{number}/merge", post(merge_one))
        .route(
            "/pulls/{number}/requested_reviewers",
            post(metadata::request_reviewers),
        )
        .route(
            "/issues/{number}/comments",
            get(feedback::list_comments).post(feedback::comment),
        )
        .route("/issues/comments/{number}", patch(feedback::edit_comment))
        .route("/statuses/{commit}", post(feedback::set_status))
        .route("/issues/{number}/labels", post(metadata::label))
        .route(
            "/labels",
            get(metadata::list_labels).post(metadata::make_label),
        )
}

/// Checks the token and returns the project.
fn authorize(
    state: &ForgeState,
    headers: &HeaderMap,
    owner: &str,
    name: &str,
) -> Result<String, ErrorResponse> {
    let sent = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let token = sent
        .strip_prefix("token ")
        .or_else(|| sent.strip_prefix("Bearer "));
    if token != Some(state.token.as_str()) {
        return Err(error_response(401, "invalid username, password or token"));
    }
    let project = format!("{owner}/{name}");
    let is_plain = !project.contains("..") && state.repository(&project).join("HEAD").exists();
    if is_plain {
        Ok(project)
    } else {
        Err(error_response(404, "The target couldn't be found."))
    }
}

fn into_response(result: Result<Response, ErrorResponse>) -> Response {
    result.unwrap_or_else(|(status, message)| {
        (
            status,
            Json(json!({"message": message, "url": "/api/swagger"})),
        )
            .into_response()
    })
}

fn text(body: &Value, field: &str) -> Option<String> {
    body[field].as_str().map(str::to_owned)
}

async fn create(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name)): Path<OwnerAndName>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let create = async {
        let project = authorize(&state, &headers, &owner, &name)?;
        let pull = open(&state, &project, &body).await?;
        let shown = gitea_json::pull(&state, &project, &pull);
        Ok((StatusCode::CREATED, Json(shown)).into_response())
    };
    into_response(create.await)
}

/// Opens a pull request as the body of a request describes it.
pub(super) async fn open(
    state: &ForgeState,
    project: &str,
    body: &Value,
) -> Result<PullRequest, ErrorResponse> {
    let _guard = state.write_lock.lock().await;
    let pull = new_pull(state, project, body).await?;
    let mut stored = state.pulls.lock();
    let pulls = stored.pulls.entry(project.to_owned()).or_default();
    pulls.push(pull.clone());
    Ok(pull)
}

async fn new_pull(
    state: &ForgeState,
    project: &str,
    body: &Value,
) -> Result<PullRequest, ErrorResponse> {
    let folder = state.repository(project);
    let [head, base, title] =
        ["head", "base", "title"].map(|field| text(body, field).unwrap_or_default());
    if title.is_empty() {
        return Err(error_response(422, "[Title]: Required"));
    }
    let tips = (tip(&folder, &head).await, tip(&folder, &base).await);
    let (Some(head_commit), Some(base_commit)) = tips else {
        return Err(error_response(404, "The target couldn't be found."));
    };
    if head_commit == base_commit {
        let message = "Invalid PullRequest: There are no changes between the head and the base";
        return Err(error_response(422, message));
    }
    let (number, updated) = state.pulls.lock().next(project, &head, &base)?;
    Ok(PullRequest {
        number,
        title,
        body: text(body, "body").unwrap_or_default(),
        head,
        head_commit,
        base,
        updated,
        state: PullState::Open,
        merge_commit: None,
        comments: Vec::new(),
        labels: Vec::new(),
        reviewers: Vec::new(),
    })
}

/// All pull requests of a repository; open ones with the current tip of their branch.
pub(super) async fn all(state: &ForgeState, project: &str) -> Vec<PullRequest> {
    let mut pulls = state
        .pulls
        .lock()
        .pulls
        .get(project)
        .cloned()
        .unwrap_or_default();
    for pull in pulls
        .iter_mut()
        .filter(|pull| pull.state == PullState::Open)
    {
        if let Some(commit) = tip(&state.repository(project), &pull.head).await {
            pull.head_commit = commit;
        }
    }
    pulls
}

async fn one(state: &ForgeState, project: &str, number: u64) -> Result<PullRequest, ErrorResponse> {
    let found = all(state, project)
        .await
        .into_iter()
        .find(|pull| pull.number == number);
    found.ok_or_else(|| error_response(404, "The target couldn't be found."))
}

async fn list(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name)): Path<OwnerAndName>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let list = async {
        let project = authorize(&state, &headers, &owner, &name)?;
        let mut pulls = all(&state, &project).await;
        match query.get("state").map_or("open", String::as_str) {
            "open" => pulls.retain(|pull| pull.state == PullState::Open),
            "closed" => pulls.retain(|pull| pull.state != PullState::Open),
            _ => {}
        }
        let is_by_update = query.get("sort").is_some_and(|sort| sort == "recentupdate");
        pulls.sort_by_key(|pull| {
            std::cmp::Reverse(if is_by_update {
                pull.updated
            } else {
                pull.number
            })
        });
        let shown = pulls
            .iter()
            .map(|pull| gitea_json::pull(&state, &project, pull))
            .collect();
        Ok(gitea_json::page(shown, &query))
    };
    into_response(list.await)
}

async fn show_one(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<PullRequestPath>,
    headers: HeaderMap,
) -> Response {
    let show = async {
        let project = authorize(&state, &headers, &owner, &name)?;
        let pull = one(&state, &project, number).await?;
        Ok(Json(gitea_json::pull(&state, &project, &pull)).into_response())
    };
    into_response(show.await)
}

async fn edit(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<PullRequestPath>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let edit = async {
        let project = authorize(&state, &headers, &owner, &name)?;
        let _guard = state.write_lock.lock().await;
        change(&state, &project, number, |pull| {
            pull.title = text(&body, "title").unwrap_or_else(|| pull.title.clone());
            pull.body = text(&body, "body").unwrap_or_else(|| pull.body.clone());
            match (text(&body, "state").as_deref(), pull.state) {
                (Some(_), PullState::Merged) => {
                    return Err(error_response(
                        412,
                        "cannot change state of this pull request, it was already merged",
                    ));
                }
                (Some("closed"), _) => pull.state = PullState::Closed,
                (Some("open"), _) => pull.state = PullState::Open,
                _ => {}
            }
            Ok(())
        })?;
        let pull = one(&state, &project, number).await?;
        Ok((
            StatusCode::CREATED,
            Json(gitea_json::pull(&state, &project, &pull)),
        )
            .into_response())
    };
    into_response(edit.await)
}

async fn merge_one(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<PullRequestPath>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let merge_one = async {
        let project = authorize(&state, &headers, &owner, &name)?;
        // As in version 1.26: the merge is scheduled.
        if body["merge_when_checks_succeed"] == true {
            return Ok(StatusCode::CREATED.into_response());
        }
        if state.forbids_merge.load(Ordering::SeqCst) {
            return Err(error_response(405, "User not allowed to merge PR"));
        }
        let is_squash = body["Do"] == "squash";
        let expected = text(&body, "head_commit_id").filter(|commit| !commit.is_empty());
        merge(&state, &project, number, is_squash, expected.as_deref()).await?;
        Ok(StatusCode::OK.into_response())
    };
    into_response(merge_one.await)
}
