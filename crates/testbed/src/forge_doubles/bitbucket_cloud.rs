//! A double of Bitbucket Cloud's API, as far as we use it.

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
    ForgeState, PEOPLE, PROJECT, SharedForgeState, StoredPullRequest, answer, bearer, number,
    scopes_of, show_one,
};

/// The scopes of an access token that may do everything that Sluice does.
const SCOPES: &str = "repository:write,pullrequest:write";

type Parameters = Query<Vec<(String, String)>>;

/// The API of the double.
pub fn router(forge_state: SharedForgeState) -> Router {
    let repository = Router::new()
        .route("/", get(show_repository))
        .route("/pullrequests", get(list).post(create))
        .route("/pullrequests/{number}", get(show).put(edit))
        .route("/pullrequests/{number}/merge", post(merge))
        .route("/pullrequests/{number}/decline", post(decline))
        .merge(feedback::routes())
        .route("/commits", get(commits))
        .route("/commit/{hash}", get(commit));
    Router::new()
        .nest(&format!("/2.0/repositories/{PROJECT}"), repository)
        .route("/2.0/workspaces/team/members", get(members))
        .layer(axum::middleware::from_fn(guard))
        .with_state(forge_state)
        .fallback(|| async { refuse(404, "Repository not found") })
}

fn refuse(status: u16, message: &str) -> Response {
    answer(
        status,
        json!({"type": "error", "error": {"message": message}}),
    )
}

fn not_found() -> Response {
    refuse(404, "StoredPullRequest request not found")
}

async fn guard(request: Request, next: Next) -> Response {
    let token = bearer(request.headers());
    if token.is_none_or(|token| scopes_of(token, SCOPES).is_none()) {
        return refuse(401, "Token is invalid or not supported for this endpoint.");
    }
    next.run(request).await
}

/// The repository, with the scopes of the token in a header.
async fn show_repository(headers: HeaderMap) -> Response {
    let mut response = answer(200, json!({"full_name": PROJECT}));
    let scopes = scopes_of(bearer(&headers).unwrap_or_default(), SCOPES).unwrap_or_default();
    if !scopes.is_empty() {
        let scopes = scopes.replace(',', ", ").parse().expect("a header");
        response.headers_mut().insert("x-oauth-scopes", scopes);
    }
    response
}

pub fn uuid(name: &str) -> String {
    format!("{{uuid-of-{name}}}")
}

fn shown(forge_state: &ForgeState, pull: &StoredPullRequest) -> Value {
    let state = match (pull.is_open, pull.is_merged) {
        (true, _) => "OPEN",
        (false, true) => "MERGED",
        (false, false) => "DECLINED",
    };
    let end = |branch: &str, project: &str| {
        let hash = &forge_state.commit_of(branch)[..12];
        json!({"branch": {"name": branch}, "commit": {"hash": hash}, "repository": {"full_name": project}})
    };
    let reviewers = pull.reviewers.iter();
    json!({
        "type": "pullrequest",
        "id": pull.number, "title": pull.title, "description": pull.body, "state": state,
        "draft": pull.is_draft,
        "source": end(&pull.head, &pull.head_project), "destination": end(&pull.base, PROJECT),
        "merge_commit": pull.is_merged.then(|| json!({"hash": "c".repeat(12)})),
        "reviewers": reviewers.map(|name| json!({"uuid": uuid(name), "nickname": name})).collect::<Vec<_>>(),
        "links": {"html": {"href": format!("https://example.com/{PROJECT}/pull-requests/{}", pull.number)}},
    })
}

fn paged(items: &[Value], query: &[(String, String)], most: usize) -> Response {
    let number = |name: &str, default: usize| {
        let found = query.iter().find(|(key, _)| key == name);
        found.map_or(default, |(_, value)| value.parse().expect("a number"))
    };
    let (size, page) = (number("pagelen", 10), number("page", 1));
    if size > most {
        return refuse(400, "Invalid pagelen");
    }
    let (values, next) = super::page(items, size, page);
    let mut body = json!({"pagelen": size, "page": page, "size": items.len(), "values": values});
    if next.is_some() {
        body["next"] = json!(format!("https://api.example.com/next?page={}", page + 1));
    }
    answer(200, body)
}

/// Several states may be asked for; only open ones are shown to who asks for none.
async fn list(State(forge_state): State<SharedForgeState>, Query(query): Parameters) -> Response {
    let forge_state = forge_state.lock();
    let mut states: Vec<&str> = Vec::new();
    let mut found: Vec<Value> = forge_state
        .pulls
        .iter()
        .rev()
        .map(|pull| shown(&forge_state, pull))
        .collect();
    for (name, value) in &query {
        match name.as_str() {
            "state" => states.push(value),
            "q" => {
                let branch = value.strip_prefix("source.branch.name = \"");
                let Some(branch) = branch.and_then(|rest| rest.strip_suffix('"')) else {
                    return refuse(400, "Invalid query");
                };
                found.retain(|pull| pull["source"]["branch"]["name"] == branch);
            }
            _ => {}
        }
    }
    if states.is_empty() {
        states.push("OPEN");
    }
    found.retain(|pull| states.iter().any(|state| pull["state"] == *state));
    paged(&found, &query, 50)
}

async fn create(State(forge_state): State<SharedForgeState>, Json(body): Json<Value>) -> Response {
    let mut forge_state = forge_state.lock();
    let branch = |end: &str| {
        body[end]["branch"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (head, base) = (branch("source"), branch("destination"));
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    if text("title").is_empty() || !forge_state.branches.contains_key(&head) {
        return refuse(400, "source: branch not found");
    }
    if forge_state.commit_of(&head) == forge_state.commit_of(&base) {
        return refuse(400, "There are no changes to be pulled");
    }
    let number = match forge_state.open(&text("title"), &text("description"), &head, &base) {
        Ok(pull) => pull.number,
        // It takes the one that is there.
        Err(existing) => existing,
    };
    let pull = forge_state.find(number).expect("it is there");
    (pull.title, pull.body) = (text("title"), text("description"));
    pull.is_draft = body["draft"] == true;
    let pull = pull.clone();
    answer(201, shown(&forge_state, &pull))
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
    if !pull.is_open {
        return refuse(400, "Only open pull requests can be mutated");
    }
    let Some(title) = body["title"].as_str() else {
        return refuse(400, "title: required key not provided");
    };
    pull.title = title.to_owned();
    if let Some(text) = body["description"].as_str() {
        pull.body = text.to_owned();
    }
    if let Some(reviewers) = body["reviewers"].as_array() {
        let wanted = |name: &&&str| reviewers.iter().any(|user| user["uuid"] == uuid(name));
        pull.reviewers = PEOPLE
            .iter()
            .filter(wanted)
            .map(|name| (*name).to_owned())
            .collect();
        if pull.reviewers.len() != reviewers.len() {
            return refuse(400, "reviewers: malformed account");
        }
    }
    let pull = pull.clone();
    answer(200, shown(&forge_state, &pull))
}

async fn decline(State(forge_state): State<SharedForgeState>, Path(number): Path<u64>) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    if !pull.is_open {
        return refuse(400, "This pull request is already closed.");
    }
    pull.is_open = false;
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
    let strategies = ["merge_commit", "squash", "rebase_fast_forward"];
    if !strategies.contains(&body["merge_strategy"].as_str().unwrap_or("merge_commit")) {
        return refuse(400, "merge_strategy: not a valid choice");
    }
    if !pull.is_open {
        return refuse(400, "This pull request is already closed.");
    }
    if forge_state.has_conflicts {
        return refuse(409, "Conflicts during merge.");
    }
    if pull.is_draft || forge_state.has_pending_checks {
        return refuse(400, "You can't merge until you resolve all merge checks.");
    }
    forge_state.merge(number);
    let pull = forge_state.find(number).expect("it is there").clone();
    answer(200, shown(&forge_state, &pull))
}

async fn commit(State(forge_state): State<SharedForgeState>, Path(hash): Path<String>) -> Response {
    let forge_state = forge_state.lock();
    let merges = "c".repeat(40);
    let mut known = forge_state.branches.values().chain([&merges]);
    match known.find(|commit| commit.starts_with(&hash)) {
        Some(commit) => answer(200, json!({"type": "commit", "hash": commit})),
        None => refuse(404, "Commit not found"),
    }
}

async fn members(Query(query): Parameters) -> Response {
    let members = PEOPLE.iter().map(|name| {
        json!({"user": {"uuid": uuid(name), "nickname": name, "account_id": format!("557058:{name}"), "display_name": name.to_uppercase()}})
    });
    paged(&members.collect::<Vec<_>>(), &query, 100)
}

async fn commits(
    State(forge_state): State<SharedForgeState>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let forge_state = forge_state.lock();
    let ends = query.get("exclude").zip(query.get("include"));
    let Some(commits) = ends.and_then(|(from, to)| forge_state.between(from, to)) else {
        return refuse(404, "Commit not found");
    };
    let size = number(&query, "pagelen", 30).min(100);
    let newest = commits.iter().rev().take(size);
    let values = newest.map(|it| {
        let author = json!({"raw": format!("{} <someone@example.com>", it.author)});
        json!({"hash": it.id, "message": it.message, "author": author})
    });
    let mut page = json!({"values": values.collect::<Vec<Value>>(), "pagelen": size});
    if commits.len() > size {
        page["next"] = json!("https://example.com/next");
    }
    answer(200, page)
}
