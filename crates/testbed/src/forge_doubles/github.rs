//! A double of GitHub's REST and GraphQL APIs, as far as we use them.

mod feedback;

use std::collections::BTreeMap;

use axum::extract::{Path, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http::HeaderMap;
use serde_json::{Value, json};

use super::{
    ForgeState, PROJECT, READER_TOKEN, SharedForgeState, StoredPullRequest, answer, bearer,
    is_known, number, page, scopes_of, show_one, tagged,
};

/// The scopes of a classic token that may do everything that Sluice does.
const SCOPES: &str = "repo";

/// The API of the double.
pub fn router(forge_state: SharedForgeState) -> Router {
    let repository = Router::new()
        .route("/", get(show_repository))
        .route("/pulls", get(list).post(create))
        .route("/compare/{range}", get(compare))
        .route("/pulls/{number}", get(show).patch(edit))
        .route("/pulls/{number}/merge", put(merge))
        .route("/pulls/{number}/requested_reviewers", post(review))
        .route("/issues/{number}/labels", post(label))
        .merge(feedback::routes());
    Router::new()
        .nest(&format!("/api/v3/repos/{PROJECT}"), repository)
        .route("/api/graphql", post(graph))
        .layer(axum::middleware::from_fn(guard))
        .with_state(forge_state)
        .fallback(|| async { answer(404, json!({"message": "Not Found"})) })
}

/// Tokens, and the header that GitHub insists on.
async fn guard(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let has_agent = headers.contains_key("user-agent");
    let is_known = bearer(headers).is_some_and(|token| scopes_of(token, SCOPES).is_some());
    if !has_agent {
        return answer(
            403,
            json!({"message": "Request forbidden by administrative rules."}),
        );
    }
    if !is_known {
        return answer(401, json!({"message": "Bad credentials"}));
    }
    next.run(request).await
}

/// The repository, with the scopes of a classic token in a header. A fine-grained one has none.
async fn show_repository(headers: HeaderMap) -> Response {
    let token = bearer(&headers).unwrap_or_default();
    let permissions = json!({"push": token != READER_TOKEN, "pull": true});
    let mut response = answer(
        200,
        json!({"full_name": PROJECT, "private": true, "permissions": permissions}),
    );
    let scopes = scopes_of(token, SCOPES).unwrap_or_default();
    let scopes = scopes.replace(',', ", ").parse().expect("a header");
    response.headers_mut().insert("x-oauth-scopes", scopes);
    response
}

fn shown(forge_state: &ForgeState, pull: &StoredPullRequest) -> Value {
    json!({
        "number": pull.number,
        "node_id": format!("PR_{}", pull.number),
        "html_url": format!("https://example.com/{PROJECT}/pull/{}", pull.number),
        "title": pull.title,
        "body": if pull.body.is_empty() { Value::Null } else { json!(pull.body) },
        "state": if pull.is_open { "open" } else { "closed" },
        "draft": pull.is_draft,
        "merged_at": pull.is_merged.then_some("2026-11-15T00:00:00Z"),
        "merge_commit_sha": "c".repeat(40),
        "auto_merge": pull.waits_for_merge.then(|| json!({"merge_method": "merge"})),
        "head": {"ref": pull.head, "sha": forge_state.commit_of(&pull.head), "repo": {"full_name": pull.head_project}},
        "base": {"ref": pull.base, "sha": forge_state.commit_of(&pull.base), "repo": {"full_name": PROJECT}},
    })
}

fn not_found() -> Response {
    answer(404, json!({"message": "Not Found"}))
}

fn invalid(message: &str) -> Response {
    let details = json!([{"resource": "PullRequest", "code": "custom", "message": message}]);
    answer(
        422,
        json!({"message": "Validation Failed", "errors": details}),
    )
}

async fn list(
    State(forge_state): State<SharedForgeState>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let mut forge_state = forge_state.lock();
    let state = query.get("state").map_or("open", String::as_str);
    let mut pulls: Vec<StoredPullRequest> = forge_state.pulls.clone();
    pulls.retain(|pull| state == "all" || pull.is_open == (state == "open"));
    if let Some(head) = query.get("head") {
        let label = |pull: &StoredPullRequest| {
            format!(
                "{}:{}",
                pull.head_project.split('/').next().unwrap_or_default(),
                pull.head
            )
        };
        pulls.retain(|pull| label(pull) == *head);
    }
    pulls.reverse();
    let size = number(&query, "per_page", 30).min(100);
    let (page, next) = page(&pulls, size, number(&query, "page", 1));
    let body: Vec<Value> = page.iter().map(|pull| shown(&forge_state, pull)).collect();
    tagged(&mut forge_state, &headers, json!(body), next)
}

async fn create(State(forge_state): State<SharedForgeState>, Json(body): Json<Value>) -> Response {
    let mut forge_state = forge_state.lock();
    let [head, base, title] =
        ["head", "base", "title"].map(|name| body[name].as_str().unwrap_or_default().to_owned());
    if title.is_empty()
        || !forge_state.branches.contains_key(&head)
        || !forge_state.branches.contains_key(&base)
    {
        return invalid("invalid");
    }
    if forge_state.commit_of(&head) == forge_state.commit_of(&base) {
        return invalid(&format!("No commits between {base} and {head}"));
    }
    match forge_state.open(
        &title,
        body["body"].as_str().unwrap_or_default(),
        &head,
        &base,
    ) {
        Err(_) => invalid(&format!("A pull request already exists for team:{head}.")),
        Ok(pull) => {
            let pull = forge_state.set_draft(pull, body["draft"] == true);
            answer(201, shown(&forge_state, &pull))
        }
    }
}

async fn show(State(forge_state): State<SharedForgeState>, Path(number): Path<u64>) -> Response {
    show_one(&forge_state, number, shown_alone, not_found)
}

/// Lists do not have the state of the merge.
fn shown_alone(forge_state: &ForgeState, pull: &StoredPullRequest) -> Value {
    let mut shown = shown(forge_state, pull);
    shown["mergeable_state"] = json!(match () {
        () if pull.is_draft => "draft",
        () if forge_state.has_conflicts => "dirty",
        () if forge_state.has_pending_checks || forge_state.has_merge_queue => "blocked",
        () if forge_state.has_failed_checks => "unstable",
        () => "clean",
    });
    shown
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
        Some("open") if pull.is_merged => {
            return invalid("state cannot be changed. The pull request is merged.");
        }
        Some(state) => pull.is_open = state == "open",
        None => {}
    }
    let pull = pull.clone();
    answer(200, shown(&forge_state, &pull))
}

async fn merge(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number).cloned() else {
        return not_found();
    };
    if body["sha"]
        .as_str()
        .is_some_and(|sha| sha != forge_state.commit_of(&pull.head))
    {
        return answer(
            409,
            json!({"message": "Head branch was modified. Review and try the merge again."}),
        );
    }
    let refused = |message: &str| answer(405, json!({"message": message}));
    if !pull.is_open || pull.is_draft || forge_state.has_conflicts {
        return refused("Pull Request is not mergeable");
    }
    if forge_state.has_merge_queue {
        return refused("Changes must be made through the merge queue");
    }
    if forge_state.has_pending_checks {
        return refused("Required status check \"ci\" is expected.");
    }
    forge_state.merge(number);
    answer(
        200,
        json!({"sha": "c".repeat(40), "merged": true, "message": "Pull Request successfully merged"}),
    )
}

async fn graph(State(forge_state): State<SharedForgeState>, Json(body): Json<Value>) -> Response {
    let mut forge_state = forge_state.lock();
    let (query, input) = (
        body["query"].as_str().unwrap_or_default(),
        &body["variables"]["input"],
    );
    let ids = [
        &body["variables"]["id"],
        &input["id"],
        &input["pullRequestId"],
    ];
    let id = ids.iter().find_map(|id| id.as_str()?.strip_prefix("PR_"));
    let number: u64 = id.and_then(|id| id.parse().ok()).unwrap_or_default();
    let Some(pull) = forge_state.find(number).cloned() else {
        return graph_answer(Err("Could not resolve to a node"));
    };
    if query.starts_with("query") {
        let (is_enabled, is_in) = (forge_state.has_merge_queue, pull.is_queued);
        let node = json!({"isMergeQueueEnabled": is_enabled, "isInMergeQueue": is_in});
        return graph_answer(Ok(json!({"node": node})));
    }
    let head = forge_state.commit_of(&pull.head);
    let refusal = match () {
        () if query.contains("enablePullRequestAutoMerge") => {
            enable_refusal(&forge_state, &pull, &head, input)
        }
        () if query.contains("disablePullRequestAutoMerge") && !pull.waits_for_merge => {
            Some("Can't disable auto-merge for this pull request.")
        }
        () if query.contains("dequeuePullRequest") && !pull.is_queued => {
            Some("Pull request is not in the merge queue")
        }
        () => None,
    };
    if let Some(message) = refusal {
        return graph_answer(Err(message));
    }
    let is_waiting = forge_state.has_pending_checks;
    let stored = forge_state.find(number).expect("it is there");
    if query.contains("enablePullRequestAutoMerge") {
        // What waits for nothing goes into the queue at once.
        (stored.waits_for_merge, stored.is_queued) = (is_waiting, !is_waiting);
    } else if query.contains("disablePullRequestAutoMerge") {
        stored.waits_for_merge = false;
    } else {
        stored.is_queued = false;
    }
    graph_answer(Ok(json!({})))
}

fn enable_refusal(
    forge_state: &ForgeState,
    pull: &StoredPullRequest,
    head: &str,
    input: &Value,
) -> Option<&'static str> {
    let method = input["mergeMethod"].as_str().unwrap_or_default();
    if !["MERGE", "SQUASH", "REBASE"].contains(&method) {
        return Some("Argument 'mergeMethod' has an invalid value");
    }
    let is_stale = input["expectedHeadOid"]
        .as_str()
        .is_some_and(|id| id != head);
    if is_stale {
        return Some("Head branch was modified. Review and try the merge again.");
    }
    if pull.is_queued {
        return Some("Pull request is already in the queue");
    }
    let is_clean = !forge_state.has_pending_checks && !forge_state.has_merge_queue;
    is_clean.then_some("Pull request Pull request is in clean status")
}

fn graph_answer(result: Result<Value, &str>) -> Response {
    answer(
        200,
        match result {
            Ok(data) => json!({"data": data}),
            Err(message) => {
                json!({"data": null, "errors": [{"type": "UNPROCESSABLE", "message": message}]})
            }
        },
    )
}

async fn label(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    let Some(labels) = body["labels"].as_array() else {
        return invalid("labels");
    };
    pull.labels.extend(
        labels
            .iter()
            .filter_map(|label| label.as_str().map(str::to_owned)),
    );
    answer(200, json!([]))
}

async fn review(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number).cloned() else {
        return not_found();
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
    if names.iter().any(|name| !is_known(name)) {
        let said = "Reviews may only be requested from collaborators. One or more of the users or \
                    teams you specified is not a collaborator of the repository.";
        return answer(422, json!({"message": said}));
    }
    forge_state
        .find(number)
        .expect("it is there")
        .reviewers
        .extend(names);
    answer(201, shown(&forge_state, &pull))
}

/// Pages of at most 100 commits, the oldest first.
async fn compare(
    State(forge_state): State<SharedForgeState>,
    Path(range): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let forge_state = forge_state.lock();
    let range = range.split_once("...");
    let Some(commits) = range.and_then(|(from, to)| forge_state.between(from, to)) else {
        return not_found();
    };
    let size = number(&query, "per_page", 30).min(100);
    let (shown, _) = page(commits, size, number(&query, "page", 1));
    let shown = shown.iter().map(|it| {
        let details = json!({"message": it.message, "author": {"name": it.author}});
        json!({"sha": it.id, "commit": details})
    });
    let shown: Vec<Value> = shown.collect();
    answer(
        200,
        json!({"total_commits": commits.len(), "commits": shown}),
    )
}
