//! The clients of all forges, fed answers that are damaged at random: nothing panics, asks without end or
//! repeats the token.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use futures::future::BoxFuture;
use git::credentials::Credentials;
use git::forge::{
    self, CommentId, CommitState, CommitStatus, Error, Forge, ForgeProduct, MergeMethod,
    MergeOptions, NewPullRequest, PullRequest, PullRequestHead, PullRequestMetadata,
    PullRequestUpdate, TokenRight,
};
use git::names::{BranchName, ObjectId};
use git::repository_url::RepositoryUrl;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use net::{AddressPolicy, HttpRequest, HttpResponse, HttpTransport, OutboundHttp, TransportError};
use parking_lot::Mutex;
use testbed::damage::{Damage, ShownOnPanic, seeds};
use testbed::forge_doubles::{
    ForgeState, PROJECT, SharedForgeState, StoredCommit, StoredPullRequest, TOKEN, azure,
    bitbucket_cloud, bitbucket_server, gitea, github, gitlab,
};
use tower::ServiceExt;

const BRANCH: &str = "promotion-team-app-prod";
/// More requests than this for one call of a client never end.
const MANY: usize = 400;
/// Messages end up in statuses and events.
const LONGEST_MESSAGE: usize = 4096;

type NewRouter = fn(SharedForgeState) -> Router;

const FORGES: [(ForgeProduct, NewRouter, &str, Option<&str>); 6] = [
    (
        ForgeProduct::GitHub,
        github::router,
        "https://forge.example/team/config.git",
        None,
    ),
    (
        ForgeProduct::Gitea,
        gitea::router,
        "https://forge.example/team/config.git",
        None,
    ),
    (
        ForgeProduct::GitLab,
        gitlab::router,
        "https://forge.example/team/config.git",
        None,
    ),
    (
        ForgeProduct::BitbucketServer,
        bitbucket_server::router,
        "https://forge.example/scm/team/config.git",
        None,
    ),
    (
        ForgeProduct::BitbucketCloud,
        bitbucket_cloud::router,
        "https://bitbucket.org/team/config.git",
        Some("https://forge.example/2.0"),
    ),
    (
        ForgeProduct::AzureDevOps,
        azure::router,
        "https://forge.example/collection/team/_git/config",
        None,
    ),
];

/// A double of a forge whose answers are damaged on the way.
struct DamagedForge {
    router: Router,
    damage: Mutex<Damage>,
    requests: AtomicUsize,
    is_intact: bool,
}

impl DamagedForge {
    fn damaged(&self, status: StatusCode, headers: HeaderMap, body: &[u8]) -> HttpResponse {
        if self.is_intact {
            return HttpResponse::with_body(status, headers, body.to_vec());
        }
        let mut damage = self.damage.lock();
        let (mut status, mut headers, mut body) = (status, headers, body.to_vec());
        if damage.once_in(2) {
            body = match serde_json::from_slice(&body) {
                Ok(value) => damage.json(&value),
                Err(_) => damage.bytes(&body),
            };
        }
        if damage.once_in(12) {
            let codes = [200, 201, 204, 302, 401, 403, 404, 405, 409, 422, 429, 500];
            let code = codes[damage.below(codes.len())];
            status = StatusCode::from_u16(code).unwrap_or(status);
        }
        if damage.once_in(6) {
            let names = [
                "link",
                "etag",
                "retry-after",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ];
            let names = [
                names.as_slice(),
                &["x-oauth-scopes", "location", "x-next-page"],
            ]
            .concat();
            let name = damage.pick(&names);
            if let Ok(value) = HeaderValue::from_bytes(damage.word().as_bytes()) {
                headers.insert(name, value);
            }
        }
        HttpResponse::with_body(status, headers, body)
    }
}

impl HttpTransport for DamagedForge {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>> {
        Box::pin(async move {
            self.requests.fetch_add(1, Ordering::SeqCst);
            let path = &request.url[url::Position::BeforePath..];
            let mut asked = Request::builder().method(request.method).uri(path);
            for (name, value) in &request.headers {
                asked = asked.header(name, value);
            }
            let asked = asked.body(Body::from(request.body))?;
            let answer = self.router.clone().oneshot(asked).await?;
            let (parts, body) = answer.into_parts();
            let body = to_bytes(body, 1 << 24).await?;
            Ok(self.damaged(parts.status, parts.headers, &body))
        })
    }
}

fn state() -> SharedForgeState {
    let mut state = ForgeState::default();
    state.branches.insert("main".to_owned(), "a".repeat(40));
    state.branches.insert(BRANCH.to_owned(), "b".repeat(40));
    for (number, id) in [(1, 'a'), (2, 'b')] {
        state.history.push(StoredCommit {
            id: id.to_string().repeat(40),
            message: format!("Change {number}\n\nwith a text"),
            author: "Ann".to_owned(),
        });
    }
    state.pulls.push(StoredPullRequest {
        number: 1,
        title: "An older one".to_owned(),
        head: BRANCH.to_owned(),
        head_project: PROJECT.to_owned(),
        base: "main".to_owned(),
        ..StoredPullRequest::default()
    });
    Arc::new(Mutex::new(state))
}

/// What a client may say about a damaged answer.
fn check<T>(called: &str, result: Result<T, Error>) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    assert!(!text.contains(TOKEN), "{called}: {text}");
    assert!(
        text.len() <= LONGEST_MESSAGE,
        "{called}: {} bytes",
        text.len()
    );
    assert!(!error.reason().is_empty());
    None
}

async fn call_everything(forge: &dyn Forge) {
    let head = BranchName::new(BRANCH).expect("a branch");
    let base = BranchName::new("main").expect("a branch");
    let id = |letter: &str| ObjectId::new(letter.repeat(40)).expect("an id");
    let new = NewPullRequest {
        head: head.clone(),
        base,
        title: "Promote".to_owned(),
        body: "A text.\n\nSluice: team/app/prod".to_owned(),
        draft: false,
    };
    let created = check("create", forge.create(&new).await);
    let number = created.as_ref().map_or(2, |it: &PullRequest| it.number);
    check("find", forge.find(&head).await);
    check("get", forge.get(number).await);
    check("list_open", forge.list_open(None).await);
    let update = PullRequestUpdate {
        title: Some("Promote it".to_owned()),
        body: Some("Another text".to_owned()),
        open: Some(true),
    };
    check("update", forge.update(number, &update).await);
    let metadata = PullRequestMetadata {
        labels: vec!["promotion".to_owned()],
        reviewers: vec!["ann".to_owned(), "team/platform".to_owned()],
    };
    check("add_metadata", forge.add_metadata(number, &metadata).await);
    check("compare", forge.compare((&id("a"), &id("b"))).await);
    let rights = [TokenRight::PullRequests, TokenRight::CommitStatuses];
    check("check_token", forge.check_token(&rights).await);
    give_feedback(forge, number).await;
    let merge = MergeOptions {
        head: id("b"),
        method: MergeMethod::Squash,
    };
    check("schedule_merge", forge.schedule_merge(number, &merge).await);
    check(
        "cancel_scheduled_merge",
        forge.cancel_scheduled_merge(number).await,
    );
    check("merge", forge.merge(number, &merge).await);
}

async fn give_feedback(forge: &dyn Forge, number: u64) {
    let head = PullRequestHead {
        number,
        url: "https://forge.example/team/config/pulls/2".to_owned(),
        branch: BranchName::new(BRANCH).expect("a branch"),
        commit: ObjectId::new("b".repeat(40)).expect("an id"),
    };
    let status = CommitStatus {
        context: "sluice/team/app/prod".to_owned(),
        state: CommitState::Pending,
        description: "waits".to_owned(),
        url: None,
    };
    check("status", forge.set_commit_status(&head, &status).await);
    let line = "Sluice-Comment: team/app/prod";
    let comment = check("comment", forge.comment(number, line).await);
    check("find_comment", forge.find_comment(number, line).await);
    let id = comment.unwrap_or_else(|| CommentId::new("1"));
    check("edit_comment", forge.edit_comment(number, &id, "x").await);
}

/// Runs all calls on a forge; returns how many requests it got.
fn run_case(forge: usize, seed: u64, is_intact: bool) -> usize {
    let (product, router, url, api) = FORGES[forge];
    let _shown = ShownOnPanic(seed);
    let damaged = Arc::new(DamagedForge {
        router: router(state()),
        damage: Mutex::new(Damage::new(seed)),
        requests: AtomicUsize::new(0),
        is_intact,
    });
    let http = OutboundHttp::new(AddressPolicy::UNRESTRICTED).with_transport(damaged.clone());
    let url = RepositoryUrl::parse(url, AddressPolicy::UNRESTRICTED).expect("a URL");
    let mut entries = BTreeMap::from([("token".to_owned(), TOKEN.as_bytes().to_vec())]);
    entries.extend(api.map(|api| ("apiURL".to_owned(), api.as_bytes().to_vec())));
    let login = Credentials::from_entries(&entries).expect("credentials");
    let client = forge::open(product, &Arc::new(http), &url, &login).expect("a forge");
    // Clients that ask again later wait in virtual time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(call_everything(client.as_ref()));
    damaged.requests.load(Ordering::SeqCst)
}

#[test]
fn damaged_answers_of_forges_do_no_harm() {
    for seed in seeds() {
        for (forge, (product, ..)) in FORGES.iter().enumerate() {
            let requests = run_case(forge, seed, false);
            let name = product.as_str();
            assert!(requests <= MANY, "{name}: {requests} requests, seed {seed}");
        }
    }
}

/// Otherwise the test above would damage answers to requests that fail anyway.
#[test]
fn with_answers_that_are_not_damaged_the_calls_reach_the_double() {
    for (forge, (product, ..)) in FORGES.iter().enumerate() {
        let requests = run_case(forge, 1, true);
        assert!(requests >= 12, "{}: {requests}", product.as_str());
    }
}
