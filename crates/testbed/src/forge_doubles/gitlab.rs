//! A double of GitLab's API, as far as we use it.

mod feedback;

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http::HeaderMap;
use serde_json::{Value, json};

use super::{
    ForgeState, PEOPLE, PROJECT, READER_TOKEN, SharedForgeState, StoredPullRequest, answer, bearer,
    number, page, scopes_of, show_one, tagged,
};

/// The scopes of a token that may do everything that Sluice does.
const SCOPES: &str = "api,write_repository";
/// The ids of the users whose tokens these are.
const READER: u64 = 8;
const DEVELOPER: u64 = 9;

type Parameters = Query<BTreeMap<String, String>>;

/// The API of the double.
pub fn router(forge_state: SharedForgeState) -> Router {
    let project = Router::new()
        .route("/merge_requests", get(list).post(create))
        .route("/merge_requests/{number}", get(show).put(edit))
        .route("/merge_requests/{number}/merge", put(merge))
        .merge(feedback::routes())
        .route(
            "/merge_requests/{number}/cancel_merge_when_pipeline_succeeds",
            post(cancel_merge),
        )
        .route("/members/all/{user}", get(show_member))
        .route("/repository/compare", get(compare));
    Router::new()
        .nest("/api/v4/projects/{project}", project)
        .route("/api/v4/users", get(users))
        .route("/api/v4/personal_access_tokens/self", get(show_token))
        .layer(axum::middleware::from_fn(guard))
        .with_state(forge_state)
        .fallback(|| async { answer(404, json!({"error": "404 Not Found"})) })
}

async fn guard(request: Request, next: Next) -> Response {
    let token = bearer(request.headers());
    if token.is_none_or(|token| scopes_of(token, SCOPES).is_none()) {
        return answer(401, json!({"message": "401 Unauthorized"}));
    }
    // The whole path of a project is one segment, its slashes encoded.
    let project = format!("/api/v4/projects/{}/", PROJECT.replace('/', "%2F"));
    let path = request.uri().path();
    if path.starts_with("/api/v4/projects/") && !path.starts_with(&project) {
        return answer(404, json!({"message": "404 Project Not Found"}));
    }
    next.run(request).await
}

/// The token of the request. A token without scopes stands for one that is no access token.
async fn show_token(headers: HeaderMap) -> Response {
    let token = bearer(&headers).unwrap_or_default();
    let scopes = scopes_of(token, SCOPES).unwrap_or_default();
    if scopes.is_empty() {
        let message =
            "400 Bad request - This endpoint requires token type to be a personal access token";
        return answer(400, json!({"message": message}));
    }
    let user = if token == READER_TOKEN {
        READER
    } else {
        DEVELOPER
    };
    let scopes: Vec<&str> = scopes.split(',').collect();
    answer(
        200,
        json!({"id": 42, "scopes": scopes, "user_id": user, "active": true}),
    )
}

async fn show_member(Path((_, user)): Path<(String, u64)>) -> Response {
    let level = if user == READER { 20 } else { 30 };
    answer(200, json!({"id": user, "access_level": level}))
}

fn shown(forge_state: &ForgeState, pull: &StoredPullRequest) -> Value {
    let state = match (pull.is_open, pull.is_merged) {
        (true, _) => "opened",
        (false, true) => "merged",
        (false, false) => "closed",
    };
    let ids = PEOPLE.iter().enumerate();
    let reviewers = ids.filter(|(_, name)| pull.reviewers.iter().any(|asked| asked == *name));
    json!({
        "id": 1000 + pull.number,
        "iid": pull.number,
        "web_url": format!("https://example.com/{PROJECT}/-/merge_requests/{}", pull.number),
        "title": pull.title,
        "description": if pull.body.is_empty() { Value::Null } else { json!(pull.body) },
        "state": state,
        "draft": pull.title.starts_with("Draft:"),
        "source_branch": pull.head,
        "target_branch": pull.base,
        "source_project_id": if pull.head_project == PROJECT { 1 } else { 2 },
        "target_project_id": 1,
        "sha": forge_state.commit_of(&pull.head),
        "merge_commit_sha": pull.is_merged.then(|| "c".repeat(40)),
        "squash_commit_sha": null,
        "merge_when_pipeline_succeeds": pull.waits_for_merge,
        "head_pipeline": pipeline(forge_state),
        "detailed_merge_status": match (forge_state.has_conflicts, forge_state.has_pending_checks) {
            _ if pull.title.starts_with("Draft:") => "draft_status",
            (true, _) => "conflict",
            (false, true) => "ci_still_running",
            (false, false) => "mergeable",
        },
        "reviewers": reviewers.map(|(id, name)| json!({"id": id, "username": name})).collect::<Vec<_>>(),
    })
}

fn pipeline(forge_state: &ForgeState) -> Value {
    match (
        forge_state.has_pending_checks,
        forge_state.has_failed_checks,
    ) {
        (true, _) => json!({"status": "running", "source": "push"}),
        (false, true) => json!({"status": "failed", "source": "push"}),
        (false, false) if forge_state.statuses.is_empty() => Value::Null,
        // A status makes a pipeline of its own.
        (false, false) => external_pipeline(forge_state),
    }
}

fn external_pipeline(forge_state: &ForgeState) -> Value {
    let last = forge_state.statuses.last();
    let state = last.map_or("success", |last| last.state.as_str());
    json!({"status": state, "source": "external"})
}

fn not_found() -> Response {
    answer(404, json!({"message": "404 Not found"}))
}

async fn list(
    State(forge_state): State<SharedForgeState>,
    Query(query): Parameters,
    headers: HeaderMap,
) -> Response {
    let mut forge_state = forge_state.lock();
    let state = query.get("state").map_or("all", String::as_str);
    if !["opened", "closed", "merged", "all"].contains(&state) {
        return answer(400, json!({"error": "state does not have a valid value"}));
    }
    let mut shown: Vec<Value> = forge_state
        .pulls
        .iter()
        .rev()
        .map(|pull| shown(&forge_state, pull))
        .collect();
    shown.retain(|pull| state == "all" || pull["state"] == state);
    if let Some(branch) = query.get("source_branch") {
        shown.retain(|pull| pull["source_branch"] == **branch);
    }
    let size = number(&query, "per_page", 20).min(100);
    let (shown, next) = page(&shown, size, number(&query, "page", 1));
    tagged(&mut forge_state, &headers, json!(shown), next)
}

async fn create(State(forge_state): State<SharedForgeState>, Json(body): Json<Value>) -> Response {
    let mut forge_state = forge_state.lock();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let (head, base, title) = (text("source_branch"), text("target_branch"), text("title"));
    if title.is_empty() {
        return answer(400, json!({"error": "title is missing"}));
    }
    match forge_state.open(&title, &text("description"), &head, &base) {
        Err(other) => {
            let said = format!(
                "Another open merge request already exists for this source branch: !{other}"
            );
            answer(409, json!({"message": [said]}))
        }
        // It does not mind that nothing differs.
        Ok(pull) => answer(201, shown(&forge_state, &pull)),
    }
}

async fn show(
    State(forge_state): State<SharedForgeState>,
    Path((_, number)): Path<(String, u64)>,
) -> Response {
    show_one(&forge_state, number, shown, not_found)
}

async fn edit(
    State(forge_state): State<SharedForgeState>,
    Path((_, number)): Path<(String, u64)>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    let known = [
        "title",
        "description",
        "state_event",
        "add_labels",
        "reviewer_ids",
    ];
    if !known.iter().any(|name| body.get(name).is_some()) {
        return answer(
            400,
            json!({"error": "title, description are missing, at least one parameter must be provided"}),
        );
    }
    pull.set_texts(&body["title"], &body["description"]);
    match body["state_event"].as_str() {
        Some("close") => pull.is_open = false,
        Some("reopen") if !pull.is_merged => pull.is_open = true,
        Some(_) => {
            return answer(
                400,
                json!({"error": "state_event does not have a valid value"}),
            );
        }
        None => {}
    }
    if let Some(labels) = body["add_labels"].as_str() {
        pull.labels.extend(labels.split(',').map(str::to_owned));
    }
    if let Some(ids) = body["reviewer_ids"].as_array() {
        let distinct: BTreeSet<String> = ids.iter().map(Value::to_string).collect();
        assert_eq!(distinct.len(), ids.len(), "each once");
        let name = |id: &Value| {
            PEOPLE
                .get(id.as_u64()? as usize)
                .map(|name| (*name).to_owned())
        };
        pull.reviewers = ids.iter().filter_map(name).collect();
    }
    let pull = pull.clone();
    answer(200, shown(&forge_state, &pull))
}

async fn merge(
    State(forge_state): State<SharedForgeState>,
    Path((_, number)): Path<(String, u64)>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number).cloned() else {
        return not_found();
    };
    let not_allowed = || answer(405, json!({"message": "405 Method Not Allowed"}));
    let Some(sha) = body["sha"].as_str() else {
        return answer(400, json!({"message": "SHA must be provided when merging"}));
    };
    if !pull.is_open || pull.title.starts_with("Draft:") {
        return not_allowed();
    }
    if sha != forge_state.commit_of(&pull.head) {
        let said = format!(
            "SHA does not match HEAD of source branch: {}",
            forge_state.commit_of(&pull.head)
        );
        return answer(409, json!({"message": said}));
    }
    if forge_state.has_conflicts {
        return answer(422, json!({"message": "Branch cannot be merged"}));
    }
    let later = body["auto_merge"] == true || body["merge_when_pipeline_succeeds"] == true;
    match (forge_state.has_pending_checks, later) {
        (true, false) | (false, true) => return not_allowed(),
        (true, true) if pull.waits_for_merge => return not_allowed(),
        (true, true) => {
            forge_state
                .find(number)
                .expect("it is there")
                .waits_for_merge = true
        }
        (false, false) => forge_state.merge(number),
    }
    let pull = forge_state.find(number).expect("it is there").clone();
    answer(200, shown(&forge_state, &pull))
}

/// Says 201 also where there is nothing to cancel.
async fn cancel_merge(
    State(forge_state): State<SharedForgeState>,
    Path((_, number)): Path<(String, u64)>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    let was_scheduled = std::mem::take(&mut pull.waits_for_merge);
    let said = match was_scheduled {
        true => json!({"status": "success"}),
        false => {
            json!({"status": "error", "http_status": 406, "message": "Can't cancel the automatic merge"})
        }
    };
    answer(201, said)
}

async fn compare(
    State(forge_state): State<SharedForgeState>,
    Query(query): Parameters,
) -> Response {
    let forge_state = forge_state.lock();
    let ends = query.get("from").zip(query.get("to"));
    if let Some(commits) = ends.and_then(|(from, to)| forge_state.between(from, to)) {
        let commits = commits.iter().map(|it| {
            let title = it.message.lines().next();
            json!({"id": it.id, "title": title, "message": it.message, "author_name": it.author})
        });
        let commits: Vec<Value> = commits.collect();
        return answer(200, json!({"commits": commits, "diffs": []}));
    }
    let commit = |name: &str| {
        query
            .get(name)
            .and_then(|branch| forge_state.branches.get(branch))
    };
    let (Some(from), Some(to)) = (commit("from"), commit("to")) else {
        return not_found();
    };
    let commits: Vec<Value> = (from != to)
        .then(|| json!({"id": to}))
        .into_iter()
        .collect();
    answer(
        200,
        json!({"commits": commits, "diffs": [], "compare_same_ref": from == to}),
    )
}

async fn users(Query(query): Parameters) -> Response {
    let wanted = query.get("username").map_or("", String::as_str);
    let found = PEOPLE
        .iter()
        .enumerate()
        .filter(|(_, name)| **name == wanted);
    let found = found.map(|(id, name)| json!({"id": id, "username": name}));
    answer(200, json!(found.collect::<Vec<_>>()))
}
