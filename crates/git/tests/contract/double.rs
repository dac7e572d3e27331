//! What all doubles share: the pull requests, faults on purpose, and who asked for what.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use git::credentials::Credentials;
use git::forge::{self, Forge, ForgeProduct, NewPullRequest};
use git::names::{BranchName, ObjectId};
use git::repository_url::RepositoryUrl;
use http::StatusCode;
use net::{AddressPolicy, OutboundHttp};
use parking_lot::Mutex;

pub(crate) const PROJECT: &str = "team/config";
pub(crate) const TOKEN: &str = "the-right-token";
pub(crate) const BRANCH: &str = "promotion-team-app-prod";

/// Who can be asked for a review.
pub(crate) const PEOPLE: [&str; 3] = ["zoe", "ann", "ben"];

/// Whether a person or `team:name` can be asked for a review.
pub(crate) fn is_known(name: &String) -> bool {
    PEOPLE.contains(&name.as_str()) || name == "team:platform"
}

const ANY_ADDRESS: AddressPolicy = AddressPolicy::UNRESTRICTED;

/// A pull request as a forge keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) number: u64,
    /// How often it was changed, where a forge counts that.
    pub(crate) version: u64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) is_open: bool,
    pub(crate) is_merged: bool,
    pub(crate) is_draft: bool,
    pub(crate) waits_for_merge: bool,
    pub(crate) head: String,
    /// Whose branch it is.
    pub(crate) head_project: String,
    /// Where it leads, if elsewhere.
    pub(crate) base_project: Option<String>,
    pub(crate) base: String,
    pub(crate) labels: Vec<String>,
    pub(crate) reviewers: Vec<String>,
    pub(crate) comments: Vec<String>,
}

/// What goes wrong with the next request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Answer(u16, Vec<(&'static str, String)>, &'static str),
    NeverEndingBody,
    EndlessBody,
}

/// What a forge does not have, or does in its own way.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    pub(crate) has_labels: bool,
    pub(crate) asks_teams: bool,
    pub(crate) reopens: bool,
    /// It merges by itself once it may.
    pub(crate) merges_later: bool,
    /// It does not say whether checks will come, and is looked at twice.
    pub(crate) is_looked_at_twice: bool,
    /// Its lists name whole commits.
    pub(crate) lists_commits: bool,
    pub(crate) has_validators: bool,
}

pub(crate) fn habits(kind: ForgeProduct) -> Habits {
    let is_bitbucket = matches!(
        kind,
        ForgeProduct::BitbucketServer | ForgeProduct::BitbucketCloud
    );
    Habits {
        has_labels: !is_bitbucket,
        asks_teams: !is_bitbucket && kind != ForgeProduct::GitLab,
        reopens: kind != ForgeProduct::BitbucketCloud,
        merges_later: !is_bitbucket && kind != ForgeProduct::Gitea,
        is_looked_at_twice: kind == ForgeProduct::GitLab,
        lists_commits: kind != ForgeProduct::BitbucketCloud,
        has_validators: matches!(kind, ForgeProduct::GitHub | ForgeProduct::GitLab),
    }
}

/// What a double knows.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) pulls: Vec<Pull>,
    pub(crate) branches: BTreeMap<String, String>,
    pub(crate) labels: Vec<String>,
    pub(crate) has_pending_checks: bool,
    pub(crate) has_failed_checks: bool,
    pub(crate) has_conflicts: bool,
    /// The branch protection keeps our user from merging.
    pub(crate) is_protected: bool,
    pub(crate) faults: VecDeque<Fault>,
    pub(crate) requests: usize,
    pub(crate) not_modified: usize,
    /// What the table says of this check beside that it holds.
    pub(crate) remark: Option<&'static str>,
}

pub(crate) type Shared = Arc<Mutex<World>>;

impl World {
    pub(crate) fn find(&mut self, number: u64) -> Option<&mut Pull> {
        self.pulls.iter_mut().find(|pull| pull.number == number)
    }

    /// Opens one, or says which open one is in the way.
    pub(crate) fn open(
        &mut self,
        title: &str,
        body: &str,
        head: &str,
        base: &str,
    ) -> Result<Pull, u64> {
        let is_same = |pull: &&Pull| {
            pull.is_open && pull.head == head && pull.base == base && pull.head_project == PROJECT
        };
        if let Some(existing) = self.pulls.iter().find(is_same) {
            return Err(existing.number);
        }
        let pull = Pull {
            number: self.pulls.len() as u64 + 1,
            version: 0,
            title: title.to_owned(),
            body: body.to_owned(),
            is_open: true,
            is_merged: false,
            is_draft: false,
            waits_for_merge: false,
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

    pub(crate) fn commit_of(&self, branch: &str) -> String {
        self.branches
            .get(branch)
            .cloned()
            .unwrap_or_else(|| "e".repeat(40))
    }

    pub(crate) fn merge(&mut self, number: u64) {
        if let Some(pull) = self.find(number) {
            (pull.is_open, pull.is_merged) = (false, true);
        }
    }
}

/// A double that listens, and forges that talk to it.
pub(crate) struct Arena {
    pub(crate) world: Shared,
    pub(crate) kind: ForgeProduct,
    pub(crate) address: String,
    pub(crate) http: Arc<OutboundHttp>,
}

impl Arena {
    pub(crate) async fn start(kind: ForgeProduct, router: fn(Shared) -> Router) -> Self {
        let mut world = World::default();
        world.branches.insert("main".to_owned(), "a".repeat(40));
        world.branches.insert(BRANCH.to_owned(), "b".repeat(40));
        let world: Shared = Arc::new(Mutex::new(world));
        let router = router(world.clone());
        let router = router.layer(axum::middleware::from_fn_with_state(
            world.clone(),
            misbehave,
        ));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let http = OutboundHttp::new(ANY_ADDRESS).with_timeout(Duration::from_secs(20));
        Self {
            world,
            kind,
            address,
            http: Arc::new(http),
        }
    }

    /// Where people would clone the repository from, and what else the secret has to say.
    fn address_of(&self, project: &str) -> (String, Option<String>) {
        let address = &self.address;
        match self.kind {
            ForgeProduct::BitbucketServer => (format!("{address}/scm/{project}.git"), None),
            ForgeProduct::BitbucketCloud => {
                let url = format!("https://bitbucket.org/{project}.git");
                (url, Some(format!("{address}/2.0")))
            }
            ForgeProduct::AzureDevOps => {
                let (project, name) = project.split_once('/').expect("two parts");
                (format!("{address}/collection/{project}/_git/{name}"), None)
            }
            _ => (format!("{address}/{project}.git"), None),
        }
    }

    /// The forge as who has this token sees this repository.
    pub(crate) fn forge_of(
        &self,
        project: &str,
        token: &str,
        http: &Arc<OutboundHttp>,
    ) -> Box<dyn Forge> {
        let (url, api) = self.address_of(project);
        let url = RepositoryUrl::parse(&url, ANY_ADDRESS).expect("a URL");
        let mut entries: BTreeMap<String, Vec<u8>> =
            [("token".to_owned(), token.as_bytes().to_vec())].into();
        entries.extend(api.map(|api| ("apiURL".to_owned(), api.into_bytes())));
        let login = Credentials::from_entries(&entries).expect("credentials");
        forge::open(self.kind, http, &url, &login).expect("a forge")
    }

    pub(crate) fn habits(&self) -> Habits {
        habits(self.kind)
    }

    pub(crate) fn remark(&self, remark: &'static str) {
        self.world.lock().remark = Some(remark);
    }

    pub(crate) fn forge(&self) -> Box<dyn Forge> {
        self.forge_of(PROJECT, TOKEN, &self.http)
    }

    pub(crate) fn fail_next(&self, fault: Fault) {
        self.world.lock().faults.push_back(fault);
    }

    pub(crate) fn requests(&self) -> usize {
        self.world.lock().requests
    }
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).expect("a branch name")
}

pub(crate) fn tip() -> ObjectId {
    ObjectId::new("b".repeat(40)).expect("an id")
}

pub(crate) fn new_pull() -> NewPullRequest {
    NewPullRequest {
        head: branch(BRANCH),
        base: branch("main"),
        title: "Promote team/app in prod to 2.0.0".to_owned(),
        body: "team/app/prod".to_owned(),
        draft: false,
    }
}

async fn misbehave(State(world): State<Shared>, request: Request, next: Next) -> Response {
    let fault = {
        let mut world = world.lock();
        world.requests += 1;
        world.faults.pop_front()
    };
    match fault {
        None => next.run(request).await,
        Some(Fault::Answer(status, headers, body)) => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(Body::from(body)).expect("a response")
        }
        Some(Fault::NeverEndingBody) => {
            let start = futures::stream::once(std::future::ready(Ok::<_, std::io::Error>("[")));
            let body = futures::StreamExt::chain(start, futures::stream::pending());
            Body::from_stream(body).into_response()
        }
        Some(Fault::EndlessBody) => {
            let more =
                futures::stream::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(1 << 20)));
            Body::from_stream(more).into_response()
        }
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

pub(crate) fn answer(status: u16, body: serde_json::Value) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, axum::Json(body)).into_response()
}

/// A number among the parameters of a request.
pub(crate) fn number(query: &BTreeMap<String, String>, name: &str, default: usize) -> usize {
    let value = query.get(name).and_then(|value| value.parse().ok());
    value.unwrap_or(default)
}

/// A page with its link and its tag, or the word that it is the same.
pub(crate) fn tagged(
    world: &mut World,
    asked: &http::HeaderMap,
    body: serde_json::Value,
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
        world.not_modified += 1;
        return answer(304, serde_json::Value::Null);
    }
    let mut response = answer(200, body);
    let headers = response.headers_mut();
    headers.insert("etag", etag.parse().expect("a header"));
    if let Some(next) = next {
        headers.insert("link", next.parse().expect("a header"));
    }
    response
}
