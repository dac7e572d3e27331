//! A repository on a real Gitea, behind a proxy that injects faults, and what people do to it.
//!
//! One server serves all cases of a run; each case has a repository of its own.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use git::names::ObjectId;
use net::{AddressPolicy, HttpClient, HttpRequest, OutboundHttp};
use serde_json::{Value, json};
use testbed::forge_doubles::{PEOPLE, StoredPullRequest};
use testbed::real::Assets;
use testbed::real::gitea::RealGitea;
use tokio::sync::OnceCell;

use crate::double::BRANCH;

/// The organisation that has the repositories.
const OWNER: &str = "team";
/// The user whose token Sluice has.
const ROBOT: &str = "sluice";
/// A user who may read the repositories, as everybody may.
const READER: &str = "reader";
/// What that token may do.
pub(crate) const SCOPES: [&str; 2] = ["write:repository", "write:issue"];
/// The required check.
const CHECK: &str = "ci";
/// How long the server may take to notice a change.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The server and the token of [`ROBOT`].
struct Shared {
    gitea: RealGitea,
    token: String,
}

static SHARED: OnceCell<Shared> = OnceCell::const_new();
/// How often a branch was replaced, so that each time it gets another content.
static PUSHES: AtomicUsize = AtomicUsize::new(0);
static REPOSITORIES: AtomicUsize = AtomicUsize::new(0);

/// A repository with the branches `main` and [`BRANCH`].
pub(crate) struct RealRepository {
    shared: &'static Shared,
    pub(crate) project: String,
}

impl Shared {
    async fn start() -> Self {
        let assets = Assets::from_env().expect("the folder that `cargo xtask kube` prints");
        let gitea = RealGitea::start(&assets).await.expect("a Gitea");
        for name in PEOPLE.iter().chain([&ROBOT, &READER]) {
            gitea.create_user(name).await.expect("a user");
        }
        let administer = async |method, path: &str, body| {
            let done = gitea.administer(method, path, body).await;
            done.expect("the administrator may")
        };
        administer("POST", "/orgs", json!({"username": OWNER})).await;
        for (team, members) in [("platform", &PEOPLE[..]), ("robots", &[ROBOT])] {
            let body = json!({
                "name": team, "permission": "write", "includes_all_repositories": true,
                "units": ["repo.code", "repo.pulls", "repo.issues"],
            });
            let created = administer("POST", &format!("/orgs/{OWNER}/teams"), body).await;
            for member in members {
                let path = format!("/teams/{}/members/{member}", created["id"]);
                administer("PUT", &path, Value::Null).await;
            }
        }
        let token = gitea.create_token(ROBOT, &SCOPES).await.expect("a token");
        Self { gitea, token }
    }
}

impl RealRepository {
    pub(crate) async fn create() -> Self {
        let shared = SHARED.get_or_init(Shared::start).await;
        let number = REPOSITORIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("config-{number}");
        let this = Self {
            shared,
            project: format!("{OWNER}/{name}"),
        };
        let body = json!({"name": name, "default_branch": "main"});
        let created = shared.gitea.administer("POST", "/orgs/team/repos", body);
        created.await.expect("a repository");
        let first = commit("main", "", "First", "1.0.0\n");
        this.import(&(first + &commit(BRANCH, "main", "Promote", "2.0.0\n")))
            .await;
        this.until_filled().await;
        this
    }

    /// Gitea notices in the background that a repository is not empty any more.
    async fn until_filled(&self) {
        let began = Instant::now();
        while self.administer("GET", "", Value::Null).await["empty"] == true {
            assert!(began.elapsed() < PATIENCE, "{} stays empty", self.project);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn token(&self) -> &str {
        &self.shared.token
    }

    /// Another token of the same user.
    pub(crate) async fn token_with(&self, scopes: &[&str]) -> String {
        let token = self.shared.gitea.create_token(ROBOT, scopes).await;
        token.expect("a token")
    }

    /// A token of a user who is in no team.
    pub(crate) async fn token_of_reader(&self) -> String {
        let token = self.shared.gitea.create_token(READER, &SCOPES).await;
        token.expect("a token")
    }

    /// Pushes a stream of `git fast-import`, by force.
    pub(crate) async fn import(&self, stream: &str) {
        let pushed = self.shared.gitea.import(&self.project, stream).await;
        pushed.expect("pushed");
    }

    /// Replaces the commit of [`BRANCH`] by another one on `main`.
    pub(crate) async fn force_push(&self) {
        let content = format!("2.{}.0\n", PUSHES.fetch_add(1, Ordering::Relaxed) + 1);
        self.import(&commit(BRANCH, "main", "Again", &content))
            .await;
    }

    /// Deletes [`BRANCH`]. Gitea closes its pull requests in the background.
    pub(crate) async fn delete_branch(&self) {
        let path = format!("/branches/{BRANCH}");
        self.administer("DELETE", &path, Value::Null).await;
        let began = Instant::now();
        let is_of_branch = |pull: &Value| pull["head"]["label"] == BRANCH;
        loop {
            let open = self.administer("GET", "/pulls?state=open", Value::Null);
            if !open
                .await
                .as_array()
                .into_iter()
                .flatten()
                .any(is_of_branch)
            {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the pull request stays open");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Asks the API of the repository as the administrator.
    pub(crate) async fn administer(&self, method: &str, path: &str, body: Value) -> Value {
        let path = format!("/repos/{}{path}", self.project);
        let done = self.shared.gitea.administer(method, &path, body).await;
        done.expect("the administrator may")
    }

    /// The commit of a branch.
    pub(crate) async fn tip(&self, branch: &str) -> ObjectId {
        let path = format!("/branches/{branch}");
        let read = self.administer("GET", &path, Value::Null).await;
        ObjectId::new(read["commit"]["id"].as_str().expect("an id")).expect("an id")
    }

    /// The last commits of a branch, the oldest first.
    pub(crate) async fn commits(&self, branch: &str, count: usize) -> Vec<ObjectId> {
        let mut ids = Vec::new();
        for page in 1..=count.div_ceil(50) {
            let query = "stat=false&verification=false&files=false&limit=50";
            let path = format!("/commits?sha={branch}&{query}&page={page}");
            let listed = self.administer("GET", &path, Value::Null).await;
            ids.extend(texts(&listed, "sha"));
        }
        ids.truncate(count);
        let ids = ids.into_iter().rev().map(ObjectId::new);
        ids.map(|id| id.expect("an id")).collect()
    }

    /// Opens a pull request from each of so many branches that it creates.
    pub(crate) async fn open_others(&self, count: usize) -> Vec<u64> {
        let names: Vec<_> = (0..count).map(|number| format!("other-{number}")).collect();
        let commits = names.iter().map(|name| commit(name, "main", name, name));
        self.import(&commits.collect::<String>()).await;
        let mut numbers = Vec::new();
        for name in &names {
            let body = json!({"head": name, "base": "main", "title": "other"});
            let opened = self.administer("POST", "/pulls", body).await;
            numbers.push(opened["number"].as_u64().expect("a number"));
        }
        numbers
    }

    pub(crate) async fn close(&self, number: u64) {
        let body = json!({"state": "closed"});
        self.administer("PATCH", &format!("/pulls/{number}"), body)
            .await;
    }

    pub(crate) async fn merge(&self, number: u64) {
        self.until_mergeable(number).await;
        let path = format!("/pulls/{number}/merge");
        self.administer("POST", &path, json!({"Do": "merge"})).await;
    }

    /// Gitea looks for conflicts in the background.
    pub(crate) async fn until_mergeable(&self, number: u64) {
        let began = Instant::now();
        loop {
            let path = format!("/pulls/{number}");
            let pull = self.administer("GET", &path, Value::Null).await;
            if pull["mergeable"] == true {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{number} is never mergeable");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Opens a pull request from the branch of the same name in a fork.
    pub(crate) async fn open_from_fork(&self) {
        let gitea = &self.shared.gitea;
        let token = gitea.create_token("ben", &["all"]).await.expect("a token");
        let name = self.project.replace('/', "-");
        let path = format!("/repos/{}/forks", self.project);
        let body = json!({"name": name});
        let forked = gitea.request(&token, "POST", &path, &body);
        assert_eq!(forked.await.expect("a response").status, 202);
        let stream = commit(BRANCH, "main", "From a fork", "3.0.0\n");
        let pushed = gitea.import(&format!("ben/{name}"), &stream).await;
        pushed.expect("pushed");
        let body = json!({
            "head": format!("ben/{name}:{BRANCH}"), "base": "main", "title": "from a fork",
            "body": "team/app/prod",
        });
        self.administer("POST", "/pulls", body).await;
    }

    /// Protects `main`; the fields are those of the API.
    pub(crate) async fn protect(&self, fields: &Value) {
        let mut rule = fields.clone();
        rule["rule_name"] = json!("main");
        self.administer("POST", "/branch_protections", rule).await;
    }

    pub(crate) async fn unprotect(&self) {
        self.administer("DELETE", "/branch_protections/main", Value::Null)
            .await;
    }

    /// Requires a check, and reports whether it passed.
    pub(crate) async fn set_check(&self, state: &str) {
        let rules = self.administer("GET", "/branch_protections", Value::Null);
        if rules.await == json!([]) {
            let rule = json!({"enable_status_check": true, "status_check_contexts": [CHECK]});
            self.protect(&rule).await;
        }
        let path = format!("/statuses/{}", self.tip(BRANCH).await);
        let status = json!({"context": CHECK, "state": state});
        self.administer("POST", &path, status).await;
    }

    /// Labels, reviewers and comments of a pull request, and whether it is open.
    pub(crate) async fn stored(&self, number: u64) -> StoredPullRequest {
        let path = format!("/pulls/{number}");
        let pull = self.administer("GET", &path, Value::Null).await;
        let comments = format!("/issues/{number}/comments");
        let comments = self.administer("GET", &comments, Value::Null).await;
        let mut reviewers = texts(&pull["requested_reviewers"], "login");
        let teams = texts(&pull["requested_reviewers_teams"], "name");
        reviewers.extend(teams.iter().map(|team| format!("team:{team}")));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        StoredPullRequest {
            number,
            title: text(&pull["title"]),
            body: text(&pull["body"]),
            is_open: pull["state"] == "open",
            is_merged: pull["merged"] == true,
            head: text(&pull["head"]["label"]),
            head_project: text(&pull["head"]["repo"]["full_name"]),
            base: text(&pull["base"]["ref"]),
            labels: texts(&pull["labels"], "name"),
            reviewers,
            comments: texts(&comments, "body"),
            ..StoredPullRequest::default()
        }
    }

    /// The newest status of each context on the commit of [`BRANCH`]: `context state: description`.
    pub(crate) async fn statuses(&self) -> Vec<String> {
        let path = format!("/commits/{}/status", self.tip(BRANCH).await);
        let combined = self.administer("GET", &path, Value::Null).await;
        let statuses = combined["statuses"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let shown = statuses.map(|it| {
            let [context, state] = ["context", "status"].map(|name| text(&it[name]));
            format!("{context} {state}: {}", text(&it["description"]))
        });
        shown.collect()
    }

    pub(crate) async fn delete_comments(&self, number: u64) {
        let path = format!("/issues/{number}/comments");
        let comments = self.administer("GET", &path, Value::Null).await;
        for comment in comments.as_array().into_iter().flatten() {
            let path = format!("/issues/comments/{}", comment["id"]);
            self.administer("DELETE", &path, Value::Null).await;
        }
    }

    /// A server in front of Gitea for [`testbed::forge_doubles::serve`].
    pub(crate) fn proxy(&self) -> Router {
        let authority = self.shared.gitea.certificate_authority().as_bytes();
        let http = OutboundHttp::new(AddressPolicy::UNRESTRICTED);
        let http = http.with_timeout(Duration::from_secs(120));
        let client = http.client("127.0.0.1", Some(authority)).expect("a client");
        let upstream = Arc::new((client, self.shared.gitea.address().to_owned()));
        Router::new().fallback(forward).with_state(upstream)
    }
}

/// A commit of one file on a branch, as `git fast-import` reads it. Without a branch to start from it is the
/// first one, or goes on from the commit before it in the stream.
pub(crate) fn commit(branch: &str, from: &str, message: &str, content: &str) -> String {
    let person = "Ann <ann@example.com> 1700000000 +0000";
    let mut text = format!("commit refs/heads/{branch}\nauthor {person}\ncommitter {person}\n");
    let _ = write!(text, "data {}\n{message}\n", message.len());
    match from {
        "" => {}
        // A branch that goes on is read anew.
        from if from == branch => text.push_str(&format!("from refs/heads/{from}^0\n")),
        from => text.push_str(&format!("from refs/heads/{from}\n")),
    }
    let _ = write!(
        text,
        "M 100644 inline app.yaml\ndata {}\n{content}\n",
        content.len()
    );
    text
}

fn texts(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let texts = items.filter_map(|item| item[field].as_str());
    texts.map(str::to_owned).collect()
}

async fn forward(State(upstream): State<Arc<(HttpClient, String)>>, request: Request) -> Response {
    let (client, address) = &*upstream;
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().expect("a path");
    let url = format!("{address}{path}").parse().expect("a URL");
    let mut forwarded = HttpRequest::new(parts.method, url);
    for name in ["authorization", "content-type", "accept", "if-none-match"] {
        if let Some(value) = parts.headers.get(name) {
            let name = name.parse().expect("a header");
            forwarded = forwarded.header(name, value.clone());
        }
    }
    forwarded.body = to_bytes(body, 1 << 20).await.expect("a body").to_vec();
    let answered = client.send(forwarded).await.expect("a response");
    let mut response = Response::builder().status(answered.status);
    for name in ["content-type", "link", "etag", "location"] {
        if let Some(value) = answered.headers.get(name) {
            response = response.header(name, value.clone());
        }
    }
    let body = answered.read_body(32 << 20).await.expect("a body");
    response.body(Body::from(body)).expect("a response")
}
