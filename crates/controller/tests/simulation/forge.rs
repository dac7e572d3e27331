//! The forge: the double of Gitea's API on top of a repository in memory. Every change by a process is
//! reported to the [`Watchdog`].

use std::{collections::BTreeMap, sync::Arc};

use axum::body::Body;
use futures::{FutureExt, future::BoxFuture};
use http::{HeaderMap, Method, Request};
use net::{HttpRequest, HttpResponse, HttpTransport, TransportError};
use parking_lot::{Mutex, MutexGuard};
use testbed::forge_doubles::{SharedForgeState, StoredPullRequest, gitea};
use tower::ServiceExt;

use crate::{
    git_objects::{NewCommit, Objects},
    link::{Destination, Link, Loss},
    watchdog::{SideEffect, Watchdog},
};

/// Who commits without being Sluice.
const PERSON: &str = "Ann <ann@example.com> 1700000000 +0000";
pub(crate) const MAIN: &str = "refs/heads/main";
/// The host of the forge, of its repository and of what checks ask.
pub(crate) const HOST: &str = "forge.example";
/// The git repository and its forge.
pub(crate) const REPOSITORY: &str = "https://forge.example/team/config";

pub(crate) struct Forge {
    state: SharedForgeState,
    router: axum::Router,
    objects: Mutex<Objects>,
    references: Mutex<BTreeMap<String, String>>,
    watchdog: Arc<Watchdog>,
}

impl Forge {
    /// A repository with these files on `main`.
    pub(crate) fn new(files: &[(String, String)], watchdog: Arc<Watchdog>) -> Self {
        let state = SharedForgeState::default();
        let forge = Self {
            router: gitea::router(state.clone()),
            state,
            objects: Mutex::default(),
            references: Mutex::default(),
            watchdog,
        };
        forge.commit(files, "the first commit");
        forge
    }

    pub(crate) fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock()
    }

    pub(crate) fn references(&self) -> BTreeMap<String, String> {
        self.references.lock().clone()
    }

    pub(crate) fn pulls(&self) -> Vec<StoredPullRequest> {
        self.state.lock().pulls.clone()
    }

    /// The content of a file on a branch or in a commit.
    pub(crate) fn read(&self, commit: &str, path: &str) -> Option<String> {
        let head = self.references.lock().get(commit).cloned();
        let commit = head.unwrap_or_else(|| commit.to_owned());
        let objects = self.objects();
        let files = objects.files(&commit)?;
        objects.text(&files.get(path)?.1)
    }

    /// A person commits files to `main`.
    pub(crate) fn commit(&self, files: &[(String, String)], message: &str) {
        let main = self.references.lock().get(MAIN).cloned();
        let mut objects = self.objects();
        let base = main.as_deref().and_then(|main| objects.files(main));
        let mut all = base.unwrap_or_default();
        for (path, content) in files {
            let blob = objects.put("blob", content.clone().into_bytes());
            all.insert(path.clone(), ("100644".to_owned(), blob));
        }
        let tree = objects.write_tree(&all);
        let parents: Vec<&str> = main.iter().map(String::as_str).collect();
        let commit = objects.commit(&NewCommit {
            tree: &tree,
            parents: &parents,
            author: PERSON,
            committer: PERSON,
            message,
        });
        drop(objects);
        self.set(MAIN, &commit);
    }

    fn set(&self, reference: &str, commit: &str) {
        let branch = reference.trim_start_matches("refs/heads/").to_owned();
        let mut references = self.references.lock();
        references.insert(reference.to_owned(), commit.to_owned());
        self.state.lock().branches.insert(branch, commit.to_owned());
    }

    /// A process pushes.
    pub(crate) async fn pushed(&self, who: &str, reference: &str, commit: &str) {
        if self.references.lock().get(reference).map(String::as_str) == Some(commit) {
            return;
        }
        let effect = SideEffect::Push {
            branch: reference.trim_start_matches("refs/heads/").to_owned(),
            commit: commit.to_owned(),
        };
        self.watchdog.observe(who, &effect, self).await;
        self.set(reference, commit);
    }

    /// A person merges a pull request; whether that was possible.
    pub(crate) fn merge(&self, number: u64) -> bool {
        if self.has_conflicts(number) {
            return false;
        }
        self.state.lock().merge(number);
        self.merge_in_git(number);
        true
    }

    /// A person closes a pull request.
    pub(crate) fn close(&self, number: u64) {
        if let Some(pull) = self.state.lock().find(number) {
            pull.is_open = false;
        }
    }

    fn head(&self, number: u64) -> Option<String> {
        let pulls = self.pulls();
        let pull = pulls.iter().find(|pull| pull.number == number)?;
        let reference = format!("refs/heads/{}", pull.head);
        self.references.lock().get(&reference).cloned()
    }

    /// Whether a file was changed both on `main` and in the pull request.
    fn has_conflicts(&self, number: u64) -> bool {
        let Some(head) = self.head(number) else {
            return true;
        };
        let main = self
            .references
            .lock()
            .get(MAIN)
            .cloned()
            .unwrap_or_default();
        let objects = self.objects();
        let files = |commit: &str| objects.files(commit).unwrap_or_default();
        let base = objects.parent(&head).unwrap_or_default();
        let (base, main, head) = (files(&base), files(&main), files(&head));
        let differs = |path: &String| {
            let (base, main, head) = (base.get(path), main.get(path), head.get(path));
            head != base && main != base && main != head
        };
        head.keys().any(differs)
    }

    fn merge_in_git(&self, number: u64) {
        let Some(head) = self.head(number) else {
            return;
        };
        let main = self
            .references
            .lock()
            .get(MAIN)
            .cloned()
            .unwrap_or_default();
        let mut objects = self.objects();
        let base = objects.parent(&head).unwrap_or_default();
        let base = objects.files(&base).unwrap_or_default();
        let mut files = objects.files(&main).unwrap_or_default();
        for (path, file) in objects.files(&head).unwrap_or_default() {
            if base.get(&path) != Some(&file) {
                files.insert(path, file);
            }
        }
        let tree = objects.write_tree(&files);
        let commit = objects.commit(&NewCommit {
            tree: &tree,
            parents: &[&main, &head],
            author: PERSON,
            committer: PERSON,
            message: &format!("Merge #{number}"),
        });
        drop(objects);
        self.set(MAIN, &commit);
    }

    /// Answers a request of a process.
    async fn answer(&self, who: &str, request: Request<Body>) -> Option<HttpResponse> {
        let path = request.uri().path().to_owned();
        if let Some(version) = path.strip_prefix("/checks/") {
            let status = self.watchdog.measure(who, version);
            return Some(HttpResponse::with_body(
                status,
                HeaderMap::new(),
                "measured",
            ));
        }
        let before = self.pulls();
        if let Some(number) = merged_number(request.method(), &path) {
            let has_conflicts = self.has_conflicts(number);
            self.state.lock().has_conflicts = has_conflicts;
        }
        let response = self.router.clone().oneshot(request).await.ok()?;
        for effect in effects(&before, &self.pulls()) {
            self.watchdog.observe(who, &effect, self).await;
            if let SideEffect::Merge(pull) = &effect {
                self.merge_in_git(pull.number);
            }
        }
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.ok()?;
        Some(HttpResponse::with_body(parts.status, parts.headers, body))
    }
}

fn merged_number(method: &Method, path: &str) -> Option<u64> {
    let path = path.strip_suffix("/merge").filter(|_| method == "POST")?;
    path.rsplit('/').next()?.parse().ok()
}

fn effects(before: &[StoredPullRequest], after: &[StoredPullRequest]) -> Vec<SideEffect> {
    let mut effects = Vec::new();
    for pull in after {
        let earlier = before.iter().find(|it| it.number == pull.number);
        let was = |it: fn(&StoredPullRequest) -> bool| earlier.is_some_and(it);
        if earlier.is_none() {
            effects.push(SideEffect::Open(pull.clone()));
        } else if pull.is_merged && !was(|it| it.is_merged) {
            effects.push(SideEffect::Merge(pull.clone()));
        } else if pull.is_open && !was(|it| it.is_open) {
            effects.push(SideEffect::Reopen(pull.clone()));
        } else if !pull.is_open && was(|it| it.is_open) {
            effects.push(SideEffect::Close(pull.clone()));
        }
    }
    effects
}

/// The way of a process to the forge.
pub(crate) struct ForgeTransport {
    pub(crate) forge: Arc<Forge>,
    pub(crate) link: Arc<Link>,
}

impl HttpTransport for ForgeTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>> {
        let path = request.url.path().replace("/api/v1/repos/team/config", "");
        let what = format!("{} {path}", request.method);
        let (forge, who) = (self.forge.clone(), self.link.name().to_owned());
        let request = Arc::new(request);
        async move {
            let perform = move || {
                let (forge, who) = (forge.clone(), who.clone());
                let request = copy(&request);
                async move {
                    let answer = forge.answer(&who, request).await;
                    answer.ok_or_else(|| TransportError::from("no answer"))
                }
                .boxed()
            };
            let lost = |loss| match loss {
                Loss::Refused => Ok(unavailable()),
                _ => Err(TransportError::from("the connection was closed")),
            };
            self.link
                .call(Destination::Forge, &what, perform, lost)
                .await
        }
        .boxed()
    }
}

fn unavailable() -> HttpResponse {
    HttpResponse::with_body(http::StatusCode::BAD_GATEWAY, HeaderMap::new(), "simulated")
}

/// The same request, since it may arrive twice.
fn copy(request: &HttpRequest) -> Request<Body> {
    let mut copy = Request::new(Body::from(request.body.clone()));
    *copy.method_mut() = request.method.clone();
    *copy.headers_mut() = request.headers.clone();
    let path = &request.url[url::Position::BeforePath..];
    *copy.uri_mut() = path.parse().unwrap_or_default();
    copy
}
