//! A double of Gitea's API, as far as we use it.

mod feedback;

use std::collections::BTreeMap;

use axum::extract::{Path, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::HeaderMap;
use serde_json::{Value, json};

use super::{
    ForgeState, PROJECT, READER_TOKEN, SharedForgeState, StoredPullRequest, answer, is_known,
    number, page, scopes_of, show_one,
};

/// The scopes of a token that may do everything that Sluice does.
const ALL_SCOPES: &str = "write:repository,write:issue";

/// The API of the double.
pub fn router(forge_state: SharedForgeState) -> Router {
    let repository = Router::new()
        .route("/", get(show_repository))
        .route("/pulls", get(list).post(create))
        .route("/compare/{range}", get(compare))
        .route("/pulls/{number}", get(show).patch(edit))
        .route("/pulls/{number}/merge", post(merge))
        .route("/pulls/{number}/requested_reviewers", post(review))
        .route("/issues/{number}/labels", post(label))
        .merge(feedback::routes())
        .route("/labels", get(labels).post(make_label));
    Router::new()
        .nest(&format!("/api/v1/repos/{PROJECT}"), repository)
        .route("/api/v1/notifications/new", get(unread))
        .route("/api/v1/user", get(own_user))
        .layer(axum::middleware::from_fn(guard))
        .with_state(forge_state)
        .fallback(|| async { not_found() })
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let sent = headers.get("authorization")?.to_str().ok()?;
    sent.strip_prefix("token ")
}

async fn show_repository(headers: HeaderMap) -> Response {
    let may_push = token(&headers) != Some(READER_TOKEN);
    let permissions = json!({"admin": false, "push": may_push, "pull": true});
    answer(
        200,
        json!({"full_name": PROJECT, "permissions": permissions}),
    )
}

async fn unread() -> Response {
    answer(200, json!({"new": 0}))
}

async fn own_user() -> Response {
    answer(200, json!({"login": "sluice"}))
}

/// The category of scopes that a path belongs to.
fn category(path: &str) -> &'static str {
    match path {
        "/api/v1/notifications/new" => "notification",
        "/api/v1/user" => "user",
        _ if path.contains("/issues/") || path.ends_with("/labels") => "issue",
        _ => "repository",
    }
}

async fn guard(request: Request, next: Next) -> Response {
    let scopes = token(request.headers()).and_then(|token| scopes_of(token, ALL_SCOPES));
    let Some(scopes) = scopes else {
        return answer(
            401,
            json!({"message": "invalid username, password or token"}),
        );
    };
    let category = category(request.uri().path());
    let level = if request.method() == "GET" {
        "read"
    } else {
        "write"
    };
    let is_allowed = |scope: &str| {
        let (has, of) = scope.split_once(':').unwrap_or_default();
        of == category && (has == level || has == "write")
    };
    if !scopes.split(',').any(is_allowed) {
        let message = format!(
            "token does not have at least one of required scope(s), required=[{level}:{category}], \
             token scope={scopes}"
        );
        return answer(403, json!({"message": message}));
    }
    next.run(request).await
}

fn not_found() -> Response {
    answer(404, json!({"errors": null, "message": "not found"}))
}

/// The answer of routes that say what they looked for.
fn no_pull_request() -> Response {
    answer(
        404,
        json!({"errors": [], "message": "GetPullRequestByIndex"}),
    )
}

/// Without its branch, a pull request has only the reference that Gitea keeps for it.
fn head_reference(forge_state: &ForgeState, pull: &StoredPullRequest) -> String {
    match forge_state.deleted_branches.contains_key(&pull.head) {
        true => format!("refs/pull/{}/head", pull.number),
        false => pull.head.clone(),
    }
}

fn shown(forge_state: &ForgeState, pull: &StoredPullRequest) -> Value {
    json!({
        "number": pull.number,
        "html_url": format!("https://example.com/{PROJECT}/pulls/{}", pull.number),
        "title": pull.title,
        "body": pull.body,
        "state": if pull.is_open { "open" } else { "closed" },
        "draft": pull.title.starts_with("WIP:"),
        "merged": pull.is_merged,
        "merged_at": pull.is_merged.then_some("2026-11-15T00:00:00Z"),
        "merge_commit_sha": pull.is_merged.then(|| "c".repeat(40)),
        "head": {"label": pull.head, "ref": head_reference(forge_state, pull), "sha": forge_state.commit_of(&pull.head), "repo": {"full_name": pull.head_project}},
        "base": {"label": pull.base, "ref": pull.base, "sha": forge_state.commit_of(&pull.base), "repo": {"full_name": PROJECT}},
    })
}

fn paged(items: Vec<Value>, query: &BTreeMap<String, String>) -> Response {
    let (shown, next) = page(
        &items,
        number(query, "limit", 30).min(50),
        number(query, "page", 1),
    );
    let mut response = answer(200, json!(shown));
    if let Some(next) = next {
        response
            .headers_mut()
            .insert("link", next.parse().expect("a header"));
    }
    response
}

async fn list(
    State(forge_state): State<SharedForgeState>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let forge_state = forge_state.lock();
    let state = query.get("state").map_or("open", String::as_str);
    let kept = forge_state
        .pulls
        .iter()
        .rev()
        .filter(|pull| state == "all" || pull.is_open == (state == "open"));
    paged(kept.map(|pull| shown(&forge_state, pull)).collect(), &query)
}

async fn create(State(forge_state): State<SharedForgeState>, Json(body): Json<Value>) -> Response {
    let mut forge_state = forge_state.lock();
    let [head, base, title] =
        ["head", "base", "title"].map(|name| body[name].as_str().unwrap_or_default().to_owned());
    if title.is_empty() {
        return answer(422, json!({"message": "[Title]: Required"}));
    }
    if !forge_state.branches.contains_key(&head) || !forge_state.branches.contains_key(&base) {
        return not_found();
    }
    // Other branches may be the same commit.
    if head == base {
        let message = "Invalid PullRequest: There are no changes between the head and the base";
        return answer(422, json!({"message": message}));
    }
    match forge_state.open(
        &title,
        body["body"].as_str().unwrap_or_default(),
        &head,
        &base,
    ) {
        Err(_) => answer(
            409,
            json!({"message": "pull request already exists for these targets"}),
        ),
        Ok(pull) => answer(201, shown(&forge_state, &pull)),
    }
}

async fn show(State(forge_state): State<SharedForgeState>, Path(number): Path<u64>) -> Response {
    show_one(&forge_state, number, shown, not_found)
}

async fn edit(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    pull.set_texts(&body["title"], &body["body"]);
    match body["state"].as_str() {
        Some(state) if !["open", "closed"].contains(&state) => {
            return answer(412, json!({"message": format!("unknown state: {state}")}));
        }
        Some(_) if pull.is_merged => {
            return answer(
                412,
                json!({"message": "cannot change state of this pull request, it was already merged"}),
            );
        }
        Some(state) => pull.is_open = state == "open",
        None => {}
    }
    let pull = pull.clone();
    answer(201, shown(&forge_state, &pull))
}

async fn merge(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number).cloned() else {
        return no_pull_request();
    };
    let method = body["Do"].as_str().unwrap_or_default();
    if !["merge", "squash", "rebase"].contains(&method) {
        let problem = if method.is_empty() { "Required" } else { "In" };
        return answer(422, json!({"message": format!("[Do]: {problem}")}));
    }
    if !pull.is_open && !pull.is_merged {
        return not_found();
    }
    // Version 1.26 schedules whatever it is asked to, also for those who may not merge.
    if body["merge_when_checks_succeed"] == true {
        return schedule(&mut forge_state, &pull);
    }
    if let Some(message) = obstacle(&forge_state, &pull, method) {
        return answer(405, json!({"message": message}));
    }
    let expected = body["head_commit_id"].as_str();
    if expected.is_some_and(|sha| sha != forge_state.commit_of(&pull.head)) {
        return answer(409, json!({"message": "head out of date"}));
    }
    forge_state.merge(number);
    answer(200, Value::Null)
}

fn schedule(forge_state: &mut ForgeState, pull: &StoredPullRequest) -> Response {
    if pull.waits_for_merge {
        return answer(409, json!({"message": "already scheduled to auto merge"}));
    }
    if let Some(stored) = forge_state.find(pull.number) {
        stored.waits_for_merge = true;
    }
    answer(201, Value::Null)
}

/// What keeps a pull request from being merged, in the order in which Gitea asks.
fn obstacle(forge_state: &ForgeState, pull: &StoredPullRequest, method: &str) -> Option<String> {
    let message = if pull.is_merged {
        "The PR is already merged"
    } else if forge_state.is_protected {
        "User not allowed to merge PR"
    } else if pull.title.starts_with("WIP:") {
        "Work in progress PRs cannot be merged"
    } else if forge_state.has_conflicts {
        "Please try again later"
    } else if forge_state.has_pending_checks {
        "Not all required status checks successful"
    } else if forge_state.forbids_squash && method == "squash" {
        "squash is not allowed an allowed merge style for this repository"
    } else {
        return None;
    };
    Some(message.to_owned())
}

async fn labels(
    State(forge_state): State<SharedForgeState>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let forge_state = forge_state.lock();
    let all = forge_state
        .labels
        .iter()
        .enumerate()
        .map(|(index, name)| json!({"id": index + 1, "name": name}));
    paged(all.collect(), &query)
}

async fn make_label(
    State(forge_state): State<SharedForgeState>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let (Some(name), Some(_)) = (body["name"].as_str(), body["color"].as_str()) else {
        return answer(422, json!({"message": "[Color]: Required"}));
    };
    forge_state.labels.push(name.to_owned());
    answer(201, json!({"id": forge_state.labels.len(), "name": name}))
}

async fn label(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let known = forge_state.labels.clone();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    for id in body["labels"].as_array().into_iter().flatten() {
        // Older versions take numbers only.
        let Some(id) = id.as_u64() else {
            return answer(422, json!({"message": "invalid label id"}));
        };
        pull.labels.extend(known.get(id as usize - 1).cloned());
    }
    answer(200, json!([]))
}

async fn review(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return no_pull_request();
    };
    let mut names = Vec::new();
    for (field, prefix) in [("reviewers", ""), ("team_reviewers", "team:")] {
        let listed = body[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        names.extend(listed.map(|name| format!("{prefix}{name}")));
    }
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let message = match unknown.strip_prefix("team:") {
            Some(team) => format!("Team '{team}' not exist"),
            None => format!("User '{unknown}' not exist"),
        };
        return answer(404, json!({"errors": null, "message": message}));
    }
    let reviews: Vec<Value> = names.iter().map(|_| json!({"body": ""})).collect();
    pull.reviewers.extend(names);
    answer(201, json!(reviews))
}

/// The newest first.
async fn compare(
    State(forge_state): State<SharedForgeState>,
    Path(range): Path<String>,
) -> Response {
    let forge_state = forge_state.lock();
    let range = range.split_once("...");
    let Some(commits) = range.and_then(|(from, to)| forge_state.between(from, to)) else {
        return not_found();
    };
    let shown = commits.iter().rev().map(|it| {
        let details = json!({"message": it.message, "author": {"name": it.author}});
        json!({"sha": it.id, "commit": details})
    });
    let shown: Vec<Value> = shown.collect();
    answer(
        200,
        json!({"total_commits": commits.len(), "commits": shown}),
    )
}
