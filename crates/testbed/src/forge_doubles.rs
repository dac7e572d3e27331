//! Strict doubles of the APIs of six forges, on loopback: the contract of forges is tested against them,
//! and benchmarks promote to them.
//!
//! A double refuses what the real forge refuses. It knows no git: its branches are what tests say.

pub mod azure;
pub mod bitbucket_cloud;
pub mod bitbucket_server;
pub mod feedback;
pub mod gitea;
pub mod github;
pub mod gitlab;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;

/// The one repository.
pub const PROJECT: &str = "team/config";
/// The token that opens it.
pub const TOKEN: &str = "the-right-token";

/// The token of a user who may read the repository and not write to it, where a double has one.
pub const READER_TOKEN: &str = "the-token-of-a-reader";
/// How tokens start that have only some scopes.
const SCOPED: &str = "scopes:";

/// A token of a double that has only these scopes, such as `write:repository`.
pub fn token_with(scopes: &[&str]) -> String {
    format!("{SCOPED}{}", scopes.join(","))
}

/// The scopes of a token; nothing for an unknown one. `all` are those of the tokens that need no others.
pub(crate) fn scopes_of<'a>(token: &'a str, all: &'a str) -> Option<&'a str> {
    match token {
        TOKEN | READER_TOKEN => Some(all),
        token => token.strip_prefix(SCOPED),
    }
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &http::HeaderMap) -> Option<&str> {
    headers
        .get("authorization")?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
}

/// The users that can be reviewers.
pub const PEOPLE: [&str; 3] = ["zoe", "ann", "ben"];

/// Whether a user or `team:name` can be a reviewer.
pub(crate) fn is_known(name: &String) -> bool {
    PEOPLE.contains(&name.as_str()) || name == "team:platform"
}

/// A pull request as a forge stores it.
#[derive(Clone, Debug, Default)]
pub struct StoredPullRequest {
    pub number: u64,
    /// How often it was changed, where a forge counts that.
    pub version: u64,
    pub title: String,
    pub body: String,
    pub is_open: bool,
    pub is_merged: bool,
    pub is_draft: bool,
    /// The forge merges it by itself once its conditions are met.
    pub waits_for_merge: bool,
    /// It is in the merge queue.
    pub is_queued: bool,
    pub head: String,
    /// The repository of its branch.
    pub head_project: String,
    /// The repository it would be merged into, if another one.
    pub base_project: Option<String>,
    pub base: String,
    pub labels: Vec<String>,
    pub reviewers: Vec<String>,
    pub comments: Vec<String>,
}

impl StoredPullRequest {
    /// Sets title and text where a request has them.
    pub(crate) fn set_texts(&mut self, title: &Value, body: &Value) {
        if let Some(title) = title.as_str() {
            self.title = title.to_owned();
        }
        if let Some(body) = body.as_str() {
            self.body = body.to_owned();
        }
    }
}

/// A commit as a forge stores it.
#[derive(Clone, Debug)]
pub struct StoredCommit {
    pub id: String,
    pub message: String,
    pub author: String,
}

/// How the next request fails.
#[derive(Clone, Debug)]
pub enum InjectedFault {
    /// It does not: another one is to fail.
    AsUsual,
    /// The request is carried out, but the answer is this status and body.
    CarriedOut(u16, &'static str),
    /// Status, headers and body.
    Answer(u16, Vec<(&'static str, String)>, &'static str),
    NeverEndingBody,
    EndlessBody,
}

/// The state of a double.
#[derive(Default)]
pub struct ForgeState {
    pub pulls: Vec<StoredPullRequest>,
    pub branches: BTreeMap<String, String>,
    /// Branches that were deleted, with their last commit.
    pub deleted_branches: BTreeMap<String, String>,
    /// The history of the source code: id, message and author, the oldest first.
    pub history: Vec<StoredCommit>,
    pub labels: Vec<String>,
    /// Every status that was set, the oldest first.
    pub statuses: Vec<feedback::StoredStatus>,
    pub has_pending_checks: bool,
    pub has_failed_checks: bool,
    pub has_conflicts: bool,
    /// Only the merge queue may merge into the base branch.
    pub has_merge_queue: bool,
    /// Branch protection forbids our user to merge.
    pub is_protected: bool,
    /// The repository does not allow squash merges.
    pub forbids_squash: bool,
    pub faults: VecDeque<InjectedFault>,
    pub requests: usize,
    /// Method and path of every request, the oldest first.
    pub log: Vec<String>,
    pub not_modified: usize,
    /// What the table of the contract shows for this check beside that it passes.
    pub remark: Option<&'static str>,
}

/// The state, shared by the double and the test.
pub type SharedForgeState = Arc<Mutex<ForgeState>>;

impl ForgeState {
    /// The pull request of that number.
    pub fn find(&mut self, number: u64) -> Option<&mut StoredPullRequest> {
        self.pulls.iter_mut().find(|pull| pull.number == number)
    }

    /// Opens a pull request; the number of the open one for the same branches, if there is one.
    pub fn open(
        &mut self,
        title: &str,
        body: &str,
        head: &str,
        base: &str,
    ) -> Result<StoredPullRequest, u64> {
        let is_same = |pull: &&StoredPullRequest| {
            pull.is_open && pull.head == head && pull.base == base && pull.head_project == PROJECT
        };
        if let Some(existing) = self.pulls.iter().find(is_same) {
            return Err(existing.number);
        }
        let pull = StoredPullRequest {
            number: self.pulls.len() as u64 + 1,
            version: 0,
            title: title.to_owned(),
            body: body.to_owned(),
            is_open: true,
            is_merged: false,
            is_draft: false,
            waits_for_merge: false,
            is_queued: false,
            head: head.to_owned(),
            head_project: PROJECT.to_owned(),
            base_project: None,
            base: base.to_owned(),
            labels: Vec::new(),
            reviewers: Vec::new(),
            comments: Vec::new(),
        };
        self.pulls.push(pull.clone());
        Ok(pull)
    }

    /// Makes a new pull request a draft, or not; returns it.
    pub(crate) fn set_draft(
        &mut self,
        mut pull: StoredPullRequest,
        is_draft: bool,
    ) -> StoredPullRequest {
        pull.is_draft = is_draft;
        if let Some(stored) = self.find(pull.number) {
            stored.is_draft = is_draft;
        }
        pull
    }

    /// The commits after one commit up to another one, the oldest first; `None` if one is unknown.
    pub(crate) fn between(&self, from: &str, to: &str) -> Option<&[StoredCommit]> {
        let place = |id: &str| self.history.iter().position(|commit| commit.id == id);
        let (from, to) = (place(from)?, place(to)?);
        Some(self.history.get(from + 1..=to).unwrap_or_default())
    }

    /// The commit of a branch.
    pub fn commit_of(&self, branch: &str) -> String {
        self.branches
            .get(branch)
            .or_else(|| self.deleted_branches.get(branch))
            .cloned()
            .unwrap_or_else(|| "e".repeat(40))
    }

    /// Deletes a branch and closes its open pull requests.
    pub fn delete_branch(&mut self, branch: &str) {
        let deleted = self.branches.remove_entry(branch);
        self.deleted_branches.extend(deleted);
        let pulls = self.pulls.iter_mut();
        for pull in pulls.filter(|pull| pull.head == branch) {
            pull.is_open = false;
        }
    }

    /// Merges a pull request.
    pub fn merge(&mut self, number: u64) {
        if let Some(pull) = self.find(number) {
            (pull.is_open, pull.is_merged) = (false, true);
        }
    }
}

/// Serves a double on a free port; returns its address.
pub async fn serve(
    forge_state: &SharedForgeState,
    router: impl FnOnce(SharedForgeState) -> Router,
) -> String {
    let faults = from_fn_with_state(forge_state.clone(), inject_faults);
    let router = router(forge_state.clone()).layer(faults);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn inject_faults(
    State(forge_state): State<SharedForgeState>,
    request: Request,
    next: Next,
) -> Response {
    let fault = {
        let mut forge_state = forge_state.lock();
        forge_state.requests += 1;
        let line = format!("{} {}", request.method(), request.uri().path());
        forge_state.log.push(line);
        forge_state.faults.pop_front()
    };
    match fault {
        None | Some(InjectedFault::AsUsual) => next.run(request).await,
        Some(InjectedFault::CarriedOut(status, body)) => {
            next.run(request).await;
            let response = Response::builder().status(status);
            response.body(Body::from(body)).expect("a response")
        }
        Some(InjectedFault::Answer(status, headers, body)) => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(Body::from(body)).expect("a response")
        }
        Some(InjectedFault::NeverEndingBody) => {
            let start = futures::stream::once(std::future::ready(Ok::<_, std::io::Error>("[")));
            let body = futures::StreamExt::chain(start, futures::stream::pending());
            Body::from_stream(body).into_response()
        }
        Some(InjectedFault::EndlessBody) => {
            let more =
                futures::stream::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(1 << 20)));
            Body::from_stream(more).into_response()
        }
    }
}

/// One pull request, as a forge shows it.
pub(crate) fn show_one(
    forge_state: &SharedForgeState,
    number: u64,
    shown: fn(&ForgeState, &StoredPullRequest) -> Value,
    not_found: fn() -> Response,
) -> Response {
    let mut forge_state = forge_state.lock();
    match forge_state.find(number).cloned() {
        Some(pull) => answer(200, shown(&forge_state, &pull)),
        None => not_found(),
    }
}

/// One page of a list and the link to the next.
pub(crate) fn page<T: Clone>(items: &[T], size: usize, page: usize) -> (Vec<T>, Option<String>) {
    let shown: Vec<T> = items
        .iter()
        .skip((page - 1) * size)
        .take(size)
        .cloned()
        .collect();
    let next =
        (page * size < items.len()).then(|| format!("</next?page={}>; rel=\"next\"", page + 1));
    (shown, next)
}

/// A JSON response.
pub fn answer(status: u16, body: Value) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, axum::Json(body)).into_response()
}

/// A number among the parameters of a request.
pub(crate) fn number(query: &BTreeMap<String, String>, name: &str, default: usize) -> usize {
    let value = query.get(name).and_then(|value| value.parse().ok());
    value.unwrap_or(default)
}

/// A page with its link and its ETag, or 304 if the client has it.
pub(crate) fn tagged(
    forge_state: &mut ForgeState,
    asked: &http::HeaderMap,
    body: Value,
    next: Option<String>,
) -> Response {
    let hash = body.to_string().bytes().fold(7u64, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    let etag = format!("W/\"{hash:x}\"");
    if asked
        .get("if-none-match")
        .is_some_and(|sent| *sent == *etag)
    {
        forge_state.not_modified += 1;
        return answer(304, Value::Null);
    }
    let mut response = answer(200, body);
    let headers = response.headers_mut();
    headers.insert("etag", etag.parse().expect("a header"));
    if let Some(next) = next {
        headers.insert("link", next.parse().expect("a header"));
    }
    response
}
