//! Pull requests, by the words and codes of Gitea's API.

mod merging;
mod show;

use std::collections::BTreeMap;
use std::sync::Arc;

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
        .route("/pulls/{number}/requested_reviewers", post(ask_reviewers))
        .route("/issues/{number}/comments", post(comment))
        .route("/issues/{number}/labels", post(label))
        .route("/labels", get(list_labels).post(make_label))
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
    if head == base {
        return Err(refuse(
            422,
            "Invalid PullRequest: There are no changes between the head and the base",
        ));
    }
    let (Some(head_commit), Some(base_commit)) =
        (tip(&folder, &head).await, tip(&folder, &base).await)
    else {
        return Err(refuse(404, "The target couldn't be found."));
    };
    if head_commit == base_commit {
        return Err(refuse(
            422,
            "Invalid PullRequest: There are no changes between the head and the base",
        ));
    }
    let mut store = shared.pulls.lock();
    store.clock += 1;
    let updated = store.clock;
    let pulls = store.pulls.entry(project.to_owned()).or_default();
    let is_same = |pull: &&PullRequest| {
        pull.state == PullState::Open && pull.head == head && pull.base == base
    };
    if let Some(existing) = pulls.iter().find(is_same) {
        return Err(refuse(
            409,
            format!(
                "pull request already exists for these targets [issue_id: {}]",
                existing.number
            ),
        ));
    }
    let number = pulls.len() as u64 + 1;
    let body = text(body, "body").unwrap_or_default();
    Ok(PullRequest {
        number,
        title,
        body,
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

async fn merge_one(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let merge_one = async {
        let project = enter(&shared, &headers, &owner, &name)?;
        let is_squash = body["Do"] == "squash";
        let expected = text(&body, "head_commit_id").filter(|commit| !commit.is_empty());
        merge(&shared, &project, number, is_squash, expected.as_deref()).await?;
        Ok(StatusCode::OK.into_response())
    };
    answered(merge_one.await)
}

async fn ask_reviewers(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let ask = || {
        let project = enter(&shared, &headers, &owner, &name)?;
        let named = ["reviewers", "team_reviewers"].map(|field| body[field].as_array().cloned());
        let named: Vec<Value> = named.into_iter().flatten().flatten().collect();
        change(&shared, &project, number, |pull| {
            pull.reviewers.extend(
                named
                    .iter()
                    .filter_map(|name| name.as_str().map(str::to_owned)),
            );
            Ok(())
        })?;
        Ok((StatusCode::CREATED, Json(json!([]))).into_response())
    };
    answered(ask())
}

async fn comment(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let comment = || {
        let project = enter(&shared, &headers, &owner, &name)?;
        let said = text(&body, "body").filter(|said| !said.is_empty());
        let said = said.ok_or_else(|| refuse(422, "[Body]: Required"))?;
        change(&shared, &project, number, |pull| {
            pull.comments.push(said.clone());
            Ok(())
        })?;
        Ok((StatusCode::CREATED, Json(json!({"id": 1, "body": said}))).into_response())
    };
    answered(comment())
}

async fn label(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let label = || {
        let project = enter(&shared, &headers, &owner, &name)?;
        let known = shared
            .pulls
            .lock()
            .labels
            .get(&project)
            .cloned()
            .unwrap_or_default();
        let ids = body["labels"].as_array().cloned().unwrap_or_default();
        let place = |id: &Value| {
            id.as_u64()
                .and_then(|id| usize::try_from(id).ok()?.checked_sub(1))
        };
        let names: Vec<String> = ids
            .iter()
            .filter_map(|id| known.get(place(id)?).cloned())
            .collect();
        change(&shared, &project, number, |pull| {
            pull.labels.extend(names);
            pull.labels.sort();
            pull.labels.dedup();
            Ok(())
        })?;
        Ok(Json(json!([])).into_response())
    };
    answered(label())
}

async fn list_labels(
    State(shared): State<Arc<Shared>>,
    Path((owner, name)): Path<Place>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    answered(enter(&shared, &headers, &owner, &name).map(|project| {
        let known = shared
            .pulls
            .lock()
            .labels
            .get(&project)
            .cloned()
            .unwrap_or_default();
        let shown = known
            .iter()
            .enumerate()
            .map(|(index, name)| json!({"id": index + 1, "name": name}));
        show::page(shown.collect(), &query)
    }))
}

async fn make_label(
    State(shared): State<Arc<Shared>>,
    Path((owner, name)): Path<Place>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let make = || {
        let project = enter(&shared, &headers, &owner, &name)?;
        let (Some(label), Some(_)) = (text(&body, "name"), text(&body, "color")) else {
            return Err(refuse(422, "[Name]: Required"));
        };
        let mut store = shared.pulls.lock();
        let labels = store.labels.entry(project).or_default();
        labels.push(label.clone());
        Ok((
            StatusCode::CREATED,
            Json(json!({"id": labels.len(), "name": label})),
        )
            .into_response())
    };
    answered(make())
}
