//! A double of Azure DevOps' API, as far as we use it.

mod feedback;

use std::collections::BTreeMap;

use axum::extract::{Path, Query, Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    ForgeState, PEOPLE, PROJECT, SharedForgeState, StoredPullRequest, TOKEN, answer, number,
    show_one,
};

type Parameters = Query<BTreeMap<String, String>>;

const SELF: &str = "00000000-0000-0000-0000-0000000000ff";
/// Takes auto-complete away.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// The API of the double.
pub fn router(forge_state: SharedForgeState) -> Router {
    let (project, repository) = PROJECT.split_once('/').expect("two parts");
    let pulls = Router::new()
        .route("/pullrequests", get(list).post(create))
        .route("/pullrequests/{number}", get(show).patch(edit))
        .route("/pullrequests/{number}/labels", post(label))
        .route("/pullrequests/{number}/reviewers/{id}", put(review))
        .merge(feedback::routes())
        .route("/commits", get(commits))
        .route("/diffs/commits", get(difference));
    let path = format!("/collection/{project}/_apis/git/repositories/{repository}");
    Router::new()
        .nest(&path, pulls)
        .route("/collection/_apis/identities", get(identities))
        .layer(axum::middleware::from_fn(guard))
        .with_state(forge_state)
        .fallback(|| async { refuse(404, "GitRepositoryNotFoundException", "TF401019: It does not exist or you do not have permissions for the operation you are attempting.") })
}

fn refuse(status: u16, kind: &str, message: &str) -> Response {
    answer(
        status,
        json!({"$id": "1", "innerException": null, "message": message, "typeKey": kind, "errorCode": 0}),
    )
}

fn not_found() -> Response {
    refuse(
        404,
        "GitPullRequestNotFoundException",
        "TF401180: The requested pull request was not found.",
    )
}

/// Who is not known is shown a page to sign in, as a success.
async fn guard(request: Request, next: Next) -> Response {
    let expected = format!("Basic {}", STANDARD.encode(format!(":{TOKEN}")));
    let sent = request.headers().get("authorization");
    if sent.is_none_or(|sent| *sent != expected) {
        let page = Html("<html>Sign in</html>");
        return (StatusCode::NON_AUTHORITATIVE_INFORMATION, page).into_response();
    }
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("api-version=") {
        let said = "No api-version was supplied for the request.";
        return refuse(400, "VssVersionNotSpecifiedException", said);
    }
    let path = request.uri().path();
    let is_preview = path.ends_with("/labels") || path.ends_with("/statuses");
    if is_preview && !query.contains("-preview") {
        let said = "The -preview flag must be supplied in the api-version for such requests.";
        return refuse(400, "VssInvalidPreviewVersionException", said);
    }
    next.run(request).await
}

fn shown(forge_state: &ForgeState, pull: &StoredPullRequest) -> Value {
    let status = match (pull.is_open, pull.is_merged) {
        (true, _) => "active",
        (false, true) => "completed",
        (false, false) => "abandoned",
    };
    let mut shown = json!({
        "pullRequestId": pull.number, "status": status, "title": pull.title,
        "isDraft": pull.is_draft,
        "sourceRefName": format!("refs/heads/{}", pull.head),
        "targetRefName": format!("refs/heads/{}", pull.base),
        "mergeStatus": if forge_state.has_conflicts { "conflicts" } else { "succeeded" },
        "lastMergeSourceCommit": {"commitId": forge_state.commit_of(&pull.head)},
        "lastMergeCommit": {"commitId": "c".repeat(40)},
        "repository": {"name": "config", "project": {"name": "team"}},
    });
    if !pull.body.is_empty() {
        shown["description"] = json!(pull.body);
    }
    if pull.head_project != PROJECT {
        shown["forkSource"] = json!({"repository": {"name": "stranger"}});
    }
    if pull.waits_for_merge {
        shown["autoCompleteSetBy"] = json!({"id": SELF});
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
    let status = query
        .get("searchCriteria.status")
        .map_or("active", String::as_str);
    found.retain(|pull| status == "all" || pull["status"] == status);
    if let Some(branch) = query.get("searchCriteria.sourceRefName") {
        found.retain(|pull| pull["sourceRefName"] == **branch);
    }
    let (skip, top) = (number(&query, "$skip", 0), number(&query, "$top", 101));
    let mut found: Vec<Value> = found.into_iter().skip(skip).take(top).collect();
    for pull in &mut found {
        if let Some(text) = pull["description"].as_str() {
            pull["description"] = text.chars().take(400).collect::<String>().into();
        }
    }
    answer(200, json!({"count": found.len(), "value": found}))
}

async fn create(State(forge_state): State<SharedForgeState>, Json(body): Json<Value>) -> Response {
    let mut forge_state = forge_state.lock();
    let branch = |name: &str| {
        body[name]
            .as_str()?
            .strip_prefix("refs/heads/")
            .map(str::to_owned)
    };
    let (Some(head), Some(base), Some(title)) = (
        branch("sourceRefName"),
        branch("targetRefName"),
        body["title"].as_str(),
    ) else {
        return refuse(400, "InvalidArgumentValueException", "A value is missing.");
    };
    let text = body["description"].as_str().unwrap_or_default();
    if text.chars().count() > 4000 {
        return refuse(
            400,
            "InvalidArgumentValueException",
            "The description is too long.",
        );
    }
    match forge_state.open(title, text, &head, &base) {
        Err(_) => {
            let said =
                "TF401179: An active pull request for the source and target branch already exists.";
            refuse(409, "GitPullRequestExistsException", said)
        }
        // It does not mind that nothing differs.
        Ok(pull) => {
            let pull = forge_state.set_draft(pull, body["isDraft"] == true);
            answer(201, shown(&forge_state, &pull))
        }
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
    pull.set_texts(&body["title"], &body["description"]);
    match body["status"].as_str() {
        Some("completed") => {
            if let Some(refusal) = complete(&mut forge_state, number, &body) {
                return refusal;
            }
        }
        Some(_) if pull.is_merged => {
            return refuse(
                400,
                "GitPullRequestNotEditableException",
                "TF401181: The pull request cannot be edited due to its state.",
            );
        }
        Some(status) => pull.is_open = status == "active",
        None => {}
    }
    let pull = forge_state.find(number).expect("it is there");
    if let Some(id) = body["autoCompleteSetBy"]["id"].as_str() {
        if id != SELF && id != NOBODY {
            return refuse(
                400,
                "InvalidArgumentValueException",
                "It can only be set by who asks.",
            );
        }
        pull.waits_for_merge = id == SELF;
    }
    let pull = pull.clone();
    answer(200, shown(&forge_state, &pull))
}

fn complete(forge_state: &mut ForgeState, number: u64, body: &Value) -> Option<Response> {
    let pull = forge_state.find(number).expect("it is there").clone();
    let head = forge_state.commit_of(&pull.head);
    if !pull.is_open {
        let said = "TF401181: The pull request cannot be edited due to its state.";
        return Some(refuse(400, "GitPullRequestNotEditableException", said));
    }
    match body["lastMergeSourceCommit"]["commitId"].as_str() {
        None => {
            return Some(refuse(
                400,
                "InvalidArgumentValueException",
                "lastMergeSourceCommit",
            ));
        }
        Some(seen) if seen != head => {
            let said = "TF401192: The pull request's source branch has changed.";
            return Some(refuse(409, "GitPullRequestStaleException", said));
        }
        Some(_) => {}
    }
    if pull.is_draft {
        return Some(refuse(
            400,
            "GitPullRequestDraftException",
            "A draft cannot be completed.",
        ));
    }
    if forge_state.has_pending_checks {
        let said = "TF402455: Policies of the target branch are not met.";
        return Some(refuse(403, "GitRefUpdateRejectedByPolicyException", said));
    }
    // Conflicts do not refuse the wish; they only keep it from coming true.
    if !forge_state.has_conflicts {
        forge_state.merge(number);
    }
    None
}

async fn label(
    State(forge_state): State<SharedForgeState>,
    Path(number): Path<u64>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let (Some(pull), Some(name)) = (forge_state.find(number), body["name"].as_str()) else {
        return not_found();
    };
    pull.labels.push(name.to_owned());
    answer(200, json!({"id": "x", "name": name, "active": true}))
}

/// The identity of the person at a place.
fn identity(index: usize) -> String {
    format!("00000000-0000-0000-0000-{index:012}")
}

async fn review(
    State(forge_state): State<SharedForgeState>,
    Path((number, id)): Path<(u64, String)>,
    Json(body): Json<Value>,
) -> Response {
    let mut forge_state = forge_state.lock();
    let Some(pull) = forge_state.find(number) else {
        return not_found();
    };
    if body["vote"] != 0 {
        return refuse(400, "InvalidArgumentValueException", "vote");
    }
    let place = (0..=PEOPLE.len()).find(|place| identity(*place) == id);
    match place {
        Some(place) => pull.reviewers.push(
            PEOPLE
                .get(place)
                .map_or("team:platform", |name| name)
                .to_owned(),
        ),
        None => return refuse(400, "InvalidArgumentValueException", "No such identity."),
    }
    answer(200, json!({"id": id, "vote": 0}))
}

async fn difference(
    State(forge_state): State<SharedForgeState>,
    Query(query): Parameters,
) -> Response {
    let forge_state = forge_state.lock();
    let is_commit = query
        .get("baseVersionType")
        .is_some_and(|it| it == "commit");
    let ends = query.get("baseVersion").zip(query.get("targetVersion"));
    let range = ends.and_then(|(from, to)| forge_state.between(from, to));
    if let Some(commits) = range.filter(|_| is_commit) {
        let counts = json!({"aheadCount": commits.len(), "behindCount": 0, "changes": []});
        return answer(200, counts);
    }
    let commit = |name: &str| {
        query
            .get(name)
            .filter(|_| !is_commit)
            .and_then(|branch| forge_state.branches.get(branch))
    };
    let (Some(base), Some(target)) = (commit("baseVersion"), commit("targetVersion")) else {
        return refuse(
            404,
            "GitUnresolvableToCommitException",
            "TF401175: The version descriptor could not be resolved.",
        );
    };
    let ahead = u64::from(base != target);
    answer(
        200,
        json!({"aheadCount": ahead, "behindCount": 0, "changes": []}),
    )
}

async fn identities(Query(query): Parameters) -> Response {
    let wanted = query.get("filterValue").map_or("", String::as_str);
    if query
        .get("searchFilter")
        .is_none_or(|filter| filter != "General")
    {
        return refuse(400, "InvalidArgumentValueException", "searchFilter");
    }
    let mut names = PEOPLE.iter().copied().chain(["[team]\\platform"]);
    let found = names.position(|name| name == wanted);
    let found: Vec<Value> = found
        .map(|place| json!({"id": identity(place)}))
        .into_iter()
        .collect();
    answer(200, json!({"count": found.len(), "value": found}))
}

/// The history of a commit, the newest first.
async fn commits(
    State(forge_state): State<SharedForgeState>,
    Query(query): Parameters,
) -> Response {
    let forge_state = forge_state.lock();
    let version = query.get("searchCriteria.itemVersion.version");
    let is_commit = query
        .get("searchCriteria.itemVersion.versionType")
        .is_some_and(|it| it == "commit");
    let history = &forge_state.history;
    let newest = version.and_then(|version| history.iter().position(|it| it.id == *version));
    let Some(newest) = newest.filter(|_| is_commit) else {
        return refuse(
            404,
            "GitUnresolvableToCommitException",
            "TF401175: The version descriptor could not be resolved.",
        );
    };
    let top = number(&query, "searchCriteria.$top", 100);
    let commits = history[..=newest].iter().rev().take(top);
    let value = commits
        .map(|it| json!({"commitId": it.id, "comment": it.message, "author": {"name": it.author}}));
    let value: Vec<Value> = value.collect();
    answer(200, json!({"count": value.len(), "value": value}))
}
