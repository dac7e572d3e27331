//! Pull requests, by the words and codes of Gitea's API.

mod dressing;
mod merging;
mod show;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::Shared;
use super::repository::tip;

pub(super) use merging::merge;

/// Where a pull request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullState {
    /// Neither merged nor closed.
    Open,
    /// In the base.
    Merged,
    /// Turned down.
    Closed,
}

/// A pull request.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// From 1.
    pub number: u64,
    /// With the mark of a draft, if it is one.
    pub title: String,
    /// All of it.
    pub body: String,
    /// The branch to merge.
    pub head: String,
    /// Its tip; where it was, once finished.
    pub head_commit: String,
    /// The branch to merge into.
    pub base: String,
    /// Where it stands.
    pub state: PullState,
    /// What it became, once merged.
    pub merge_commit: Option<String>,
    /// What was said on it.
    pub comments: Vec<String>,
    /// Names of labels.
    pub labels: Vec<String>,
    /// Who was asked.
    pub reviewers: Vec<String>,
    /// Grows with every change.
    updated: u64,
}

/// All pull requests and labels of all repositories.
#[derive(Default)]
pub(super) struct Store {
    pulls: BTreeMap<String, Vec<PullRequest>>,
    labels: BTreeMap<String, Vec<String>>,
    clock: u64,
}

impl Store {
    /// Number and time of the next pull request, unless there is an open one like it.
    fn next(&mut self, project: &str, head: &str, base: &str) -> Result<(u64, u64), Refusal> {
        self.clock += 1;
        let pulls = self.pulls.entry(project.to_owned()).or_default();
        let mut open = pulls.iter().filter(|pull| pull.state == PullState::Open);
        if open.any(|pull| pull.head == head && pull.base == base) {
            return Err(refuse(409, "pull request already exists for these targets"));
        }
        Ok((pulls.len() as u64 + 1, self.clock))
    }

    fn find(&mut self, project: &str, number: u64) -> Option<&mut PullRequest> {
        self.clock += 1;
        let clock = self.clock;
        let pull = self
            .pulls
            .get_mut(project)?
            .iter_mut()
            .find(|pull| pull.number == number)?;
        pull.updated = clock;
        Some(pull)
    }
}

/// An answer that is not what was hoped for: status and message.
pub(super) type Refusal = (StatusCode, String);

fn refuse(status: u16, message: impl Into<String>) -> Refusal {
    (
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        message.into(),
    )
}

type Place = (String, String);
type Numbered = (String, String, u64);

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/pulls", get(list).post(create))
        .route("/pulls/{number}", get(show_one).patch(edit))
        .route("/pulls/{number}/merge", post(merge_one))
        .route(
            "/pulls/{number}/requested_reviewers",
            post(dressing::ask_reviewers),
        )
        .route("/issues/{number}/comments", post(dressing::comment))
        .route("/issues/{number}/labels", post(dressing::label))
        .route(
            "/labels",
            get(dressing::list_labels).post(dressing::make_label),
        )
}

/// Who may ask, and about which repository.
fn enter(shared: &Shared, headers: &HeaderMap, owner: &str, name: &str) -> Result<String, Refusal> {
    let sent = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let token = sent
        .strip_prefix("token ")
        .or_else(|| sent.strip_prefix("Bearer "));
    if token != Some(shared.token.as_str()) {
        return Err(refuse(401, "invalid username, password or token"));
    }
    let project = format!("{owner}/{name}");
    let is_plain = !project.contains("..") && shared.repository(&project).join("HEAD").exists();
    if is_plain {
        Ok(project)
    } else {
        Err(refuse(404, "The target couldn't be found."))
    }
}

fn answered(result: Result<Response, Refusal>) -> Response {
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
    State(shared): State<Arc<Shared>>,
    Path((owner, name)): Path<Place>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let create = async {
        let project = enter(&shared, &headers, &owner, &name)?;
        let _alone = shared.writing.lock().await;
        let pull = new_pull(&shared, &project, &body).await?;
        let shown = show::pull(&shared, &project, &pull);
        shared
            .pulls
            .lock()
            .pulls
            .entry(project)
            .or_default()
            .push(pull);
        Ok((StatusCode::CREATED, Json(shown)).into_response())
    };
    answered(create.await)
}

async fn new_pull(shared: &Shared, project: &str, body: &Value) -> Result<PullRequest, Refusal> {
    let folder = shared.repository(project);
    let [head, base, title] =
        ["head", "base", "title"].map(|field| text(body, field).unwrap_or_default());
    if title.is_empty() {
        return Err(refuse(422, "[Title]: Required"));
    }
    let tips = (tip(&folder, &head).await, tip(&folder, &base).await);
    let (Some(head_commit), Some(base_commit)) = tips else {
        return Err(refuse(404, "The target couldn't be found."));
    };
    if head_commit == base_commit {
        let message = "Invalid PullRequest: There are no changes between the head and the base";
        return Err(refuse(422, message));
    }
    let (number, updated) = shared.pulls.lock().next(project, &head, &base)?;
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

/// All pull requests of a repository; open ones with the tip their branch has now.
pub(super) async fn all(shared: &Shared, project: &str) -> Vec<PullRequest> {
    let mut pulls = shared
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
        if let Some(commit) = tip(&shared.repository(project), &pull.head).await {
            pull.head_commit = commit;
        }
    }
    pulls
}

async fn one(shared: &Shared, project: &str, number: u64) -> Result<PullRequest, Refusal> {
    let found = all(shared, project)
        .await
        .into_iter()
        .find(|pull| pull.number == number);
    found.ok_or_else(|| refuse(404, "The target couldn't be found."))
}

async fn list(
    State(shared): State<Arc<Shared>>,
    Path((owner, name)): Path<Place>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let list = async {
        let project = enter(&shared, &headers, &owner, &name)?;
        let mut pulls = all(&shared, &project).await;
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
            .map(|pull| show::pull(&shared, &project, pull))
            .collect();
        Ok(show::page(shown, &query))
    };
    answered(list.await)
}

async fn show_one(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
) -> Response {
    let show = async {
        let project = enter(&shared, &headers, &owner, &name)?;
        let pull = one(&shared, &project, number).await?;
        Ok(Json(show::pull(&shared, &project, &pull)).into_response())
    };
    answered(show.await)
}

async fn edit(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let edit = async {
        let project = enter(&shared, &headers, &owner, &name)?;
        let _alone = shared.writing.lock().await;
        change(&shared, &project, number, |pull| {
            pull.title = text(&body, "title").unwrap_or_else(|| pull.title.clone());
            pull.body = text(&body, "body").unwrap_or_else(|| pull.body.clone());
            match (text(&body, "state").as_deref(), pull.state) {
                (Some(_), PullState::Merged) => {
                    return Err(refuse(
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
        let pull = one(&shared, &project, number).await?;
        Ok((
            StatusCode::CREATED,
            Json(show::pull(&shared, &project, &pull)),
        )
            .into_response())
    };
    answered(edit.await)
}

fn change(
    shared: &Shared,
    project: &str,
    number: u64,
    how: impl FnOnce(&mut PullRequest) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut store = shared.pulls.lock();
    let pull = store
        .find(project, number)
        .ok_or_else(|| refuse(404, "The target couldn't be found."))?;
    how(pull)
}

pub(super) fn close(shared: &Shared, project: &str, number: u64) -> Option<()> {
    let close = |pull: &mut PullRequest| {
        pull.state = PullState::Closed;
        Ok(())
    };
    change(shared, project, number, close).ok()
}

pub(super) fn retitle(shared: &Shared, project: &str, number: u64, title: &str) -> Option<()> {
    let retitle = |pull: &mut PullRequest| {
        pull.title = title.to_owned();
        Ok(())
    };
    change(shared, project, number, retitle).ok()
}

async fn merge_one(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let merge_one = async {
        let project = enter(&shared, &headers, &owner, &name)?;
        // As version 1.26 has it: whoever asks for a merge later is told that it is scheduled.
        if body["merge_when_checks_succeed"] == true {
            return Ok(StatusCode::CREATED.into_response());
        }
        if shared.is_protected.load(Ordering::SeqCst) {
            return Err(refuse(405, "User not allowed to merge PR"));
        }
        let is_squash = body["Do"] == "squash";
        let expected = text(&body, "head_commit_id").filter(|commit| !commit.is_empty());
        merge(&shared, &project, number, is_squash, expected.as_deref()).await?;
        Ok(StatusCode::OK.into_response())
    };
    answered(merge_one.await)
}
