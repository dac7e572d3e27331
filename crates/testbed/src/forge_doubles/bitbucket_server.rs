//! A double of Bitbucket Server's API, as far as we use it.

mod feedback;

use std::collections::BTreeMap;

use axum::extract::{Path, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{
    ForgeState, PEOPLE, PROJECT, SharedForgeState, StoredPullRequest, TOKEN, answer, number,
    show_one,
};

type Parameters = Query<BTreeMap<String, String>>;

/// The API of the double.
pub fn router(forge_state: SharedForgeState) -> Router {
    let (key, slug) = PROJECT.split_once('/').expect("two parts");
    let pulls = Router::new()
        .route("/", get(list).post(create))
        .route("/{number}", get(show).put(edit))
        .route("/{number}/merge", post(merge))
        .route("/{number}/decline", post(decline))
        .route("/{number}/reopen", post(reopen))
        .merge(feedback::routes());
    let path = format!("/rest/api/1.0/projects/{key}/repos/{slug}/pull-requests");
    let commits_path = format!("/rest/api/1.0/projects/{key}/repos/{slug}/commits");
    Router::new()
        .nest(&path, pulls)
        .route(&commits_path, get(commits))
        .route(
            &format!("{commits_path}/{{commit}}/builds"),
            post(feedback::set_status),
        )
        .layer(axum::middleware::from_fn(guard))
        .with_state(forge_state)
        .fallback(|| async {
            refuse(
                404,
                "repository.NoSuchRepositoryException",
                "It does not exist.",
            )
        })
}

fn refuse(status: u16, exception: &str, message: &str) -> Response {
    let name = format!("com.atlassian.bitbucket.{exception}");
    answer(
        status,
        json!({"errors": [{"context": null, "message": message, "exceptionName": name}]}),
    )
}

fn not_found() -> Response {
    refuse(
        404,
        "pull.NoSuchPullRequestException",
        "The pull request does not exist.",
    )
}

fn out_of_date() -> Response {
    let said = "You are attempting to modify a pull request based on out-of-date information.";
    refuse(409, "pull.PullRequestOutOfDateException", said)
}

async fn guard(request: Request, next: Next) -> Response {
    let sent = request.headers().get("authorization");
    if sent.is_none_or(|sent| *sent != format!("Bearer {TOKEN}")) {
        let exception = "auth.IncorrectPasswordAuthenticationException";
        return refuse(
            401,
            exception,
            "Authentication failed. Please check your credentials and try again.",
        );
    }
    next.run(request).await
}

fn shown(forge_state: &ForgeState, pull: &StoredPullRequest) -> Value {
    let state = match (pull.is_open, pull.is_merged) {
        (true, _) => "OPEN",
        (false, true) => "MERGED",
        (false, false) => "DECLINED",
    };
    let end = |branch: &str, project: &str| {
        let (key, slug) = project.split_once('/').expect("two parts");
        json!({
            "id": format!("refs/heads/{branch}"), "displayId": branch,
            "latestCommit": forge_state.commit_of(branch),
            "repository": {"slug": slug, "project": {"key": key.to_uppercase()}},
        })
    };
    let mut shown = json!({
        "id": pull.number, "version": pull.version, "title": pull.title, "state": state,
        "open": pull.is_open, "closed": !pull.is_open, "draft": pull.is_draft,
        "fromRef": end(&pull.head, &pull.head_project), "toRef": end(&pull.base, pull.base_project.as_deref().unwrap_or(PROJECT)),
        "reviewers": pull.reviewers.iter().map(|name| json!({"user": {"name": name}, "approved": false})).collect::<Vec<_>>(),
        "links": {"self": [{"href": format!("https://example.com/projects/T/repos/c/pull-requests/{}", pull.number)}]},
    });
    if !pull.body.is_empty() {
        shown["description"] = json!(pull.body);
    }
    if pull.is_merged {
        shown["properties"] =
            json!({"mergeCommit": {"id": "c".repeat(40), "displayId": "ccccccccccc"}});
    }
    shown
}

async fn list(State(forge_state): State<SharedForgeState>, Query(query): Parameters) -> Response {
    let forge_state = forge_state.lock();
    let mut found: Vec<Value> = forge_state
        .pulls
        .iter()
        .rev()
        .map(|pull| shown(&forge_state, pull))
        .collect();
    let state = query.get("state").map_or("OPEN", String::as_str);
    found.retain(|pull| state == "ALL" || pull["state"] == state);
    if let Some(at) = query.get("at") {
        let is_outgoing = query
            .get("direction")
            .is_some_and(|direction| direction == "OUTGOING");
        let end = if is_outgoing { "fromRef" } else { "toRef" };
        found.retain(|pull| pull[end]["id"] == **at);
    }
    let (start, limit) = (
        number(&query, "start", 0),
        number(&query, "limit", 25).min(100),
    );
    let is_last = start + limit >= found.len();
    let values: Vec<Value> = found.into_iter().skip(start).take(limit).collect();
    let mut page = json!({"size": values.len(), "limit": limit, "start": start, "isLastPage": is_last, "values": values});
    page["nextPageStart"] = if is_last {
        Value::Null
    } else {
        json!(start + limit)
    };
    answer(200, page)
}

async fn create(State(forge_state): State<SharedForgeState>, Json(body): Json<Value>) -> Response {
    let mut forge_state = forge_state.lock();
    let branch = |end: &str| {
        let id = body[end]["id"].as_str()?.strip_prefix("refs/heads/")?;
        let repository = &body[end]["repository"];
        let (key, slug) = (
            repository["project"]["key"].as_str()?,
            repository["slug"].as_str()?,
        );
        (format!("{key}/{slug}") == PROJECT).then(|| id.to_owned())
    };
    let (Some(head), Some(base), Some(title)) =
        (branch("fromRef"), branch("toRef"), body["title"].as_str())
    else {
        return refuse(
            400,
            "validation.ArgumentValidationException",
            "A ref is missing.",
        );
    };
    if forge_state.commit_of(&head) == forge_state.commit_of(&base) {
        let said = format!("{head} is already up-to-date with branch {base}");
        return refuse(409, "pull.EmptyPullRequestException", &said);
    }
    let text = body["description"].as_str().unwrap_or_default();
    match forge_state.open(title, text, &head, &base) {
        Err(_) => {
            let said = "Only one pull request may be open for a given source and target branch";
            refuse(409, "pull.DuplicatePullRequestException", said)
        }
        Ok(pull) => {
            let pull = forge_state.set_draft(pull, body["draft"] == true);
            answer(201, shown(&forge_state, &pull))
        }
    }
}

async fn show(State(forge_state): State<SharedForgeState>, Path(number): Path<u64>) -> Response {
    show_one(&forge_state, number, shown, not_found)
}

/// What is left out is removed.
async fn edit(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    if body["version"].as_u64() != Some(pull.version) {
        return out_of_date();
    }
    if !pull.is_open {
        return refuse(
            409,
            "pull.IllegalPullRequestStateException",
            "It is not open.",
        );
    }
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (pull.title, pull.body) = (text("title"), text("description"));
    pull.is_draft = body["draft"] == true;
    let names = body["reviewers"].as_array().into_iter().flatten();
    let names = names.filter_map(|reviewer| reviewer["user"]["name"].as_str());
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.iter().any(|name| !PEOPLE.contains(&name.as_str())) {
        return refuse(
            409,
            "pull.InvalidPullRequestReviewersException",
            "No such user.",
        );
    }
    pull.reviewers = names;
    pull.version += 1;
    let pull = pull.clone();
    answer(200, shown(&forge_state, &pull))
}

fn turn(
    forge_state: &SharedForgeState,
    number: u64,
    query: &BTreeMap<String, String>,
    open: bool,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    if query.get("version") != Some(&pull.version.to_string()) {
        return out_of_date();
    }
    if pull.is_merged || pull.is_open == open {
        return refuse(
            409,
            "pull.IllegalPullRequestStateException",
            "It is not in that state.",
        );
    }
    (pull.is_open, pull.version) = (open, pull.version + 1);
    let pull = pull.clone();
    answer(200, shown(&forge_state, &pull))
}

async fn decline(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Query(query): Parameters,
    Json(_): Json<Value>,
) -> Response {
    turn(&forge_state, number, &query, false)
}

async fn reopen(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Query(query): Parameters,
    Json(_): Json<Value>,
) -> Response {
    turn(&forge_state, number, &query, true)
}

async fn merge(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Query(query): Parameters,
    Json(_): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number).cloned() else {
        return not_found();
    };
    if query.get("version") != Some(&pull.version.to_string()) {
        return out_of_date();
    }
    if !pull.is_open {
        return refuse(
            409,
            "pull.IllegalPullRequestStateException",
            "It is not open.",
        );
    }
    if forge_state.has_conflicts || forge_state.has_pending_checks || pull.is_draft {
        let said = "Merging the pull request has been vetoed.";
        return refuse(409, "pull.PullRequestMergeVetoedException", said);
    }
    forge_state.merge(number);
    let pull = forge_state.find(number).expect("it is there").clone();
    answer(200, shown(&forge_state, &pull))
}

async fn commits(
    State(forge_state): State<SharedForgeState>,
    Query(query): Parameters,
) -> Response {
    let forge_state = forge_state.lock();
    let ends = query.get("since").zip(query.get("until"));
    let Some(commits) = ends.and_then(|(from, to)| forge_state.between(from, to)) else {
        return refuse(
            404,
            "commit.NoSuchCommitException",
            "The commit does not exist.",
        );
    };
    let limit = number(&query, "limit", 25);
    let newest = commits.iter().rev().take(limit);
    let values = newest.map(|it| {
        let author = json!({"name": "someone", "displayName": it.author});
        json!({"id": it.id, "message": it.message, "author": author})
    });
    let values: Vec<Value> = values.collect();
    let is_last = commits.len() <= limit;
    answer(200, json!({"values": values, "isLastPage": is_last}))
}
