//! A small forge: real git over HTTP, and the pull requests of Gitea's API.
//!
//! Repositories are bare folders served by `git http-backend`, so that clients meet real git. The
//! API behaves as Gitea documents it, as far as it goes: wrong tokens are refused, duplicates are
//! refused, lists have pages, merges make real merge commits. What it does not know is 404. It
//! lives on loopback, in a temporary folder, for as long as the value.

mod backend;
mod pulls;
mod repository;
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::ServiceExt;

pub use pulls::{PullRequest, PullState};
pub use repository::Repository;

/// Why the forge could not be set up or used. It is a test's problem, so a sentence is enough.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempted}: {because}")]
pub struct Error {
    attempted: String,
    because: String,
}

impl Error {
    fn new(attempted: impl Into<String>, because: impl ToString) -> Self {
        Self {
            attempted: attempted.into(),
            because: because.to_string(),
        }
    }
}

/// Stands between clients and a repository: passes a request on, now, later or never, and then its
/// answer.
pub type Gate = Arc<dyn Fn(Request, Next) -> BoxFuture<'static, Response> + Send + Sync>;

/// A running forge.
pub struct Forge {
    shared: Arc<Shared>,
    address: SocketAddr,
    certificate: Option<String>,
    server: JoinHandle<()>,
}

/// What every request sees.
struct Shared {
    folder: tempfile::TempDir,
    token: String,
    is_up: AtomicBool,
    is_guarded: AtomicBool,
    is_protected: AtomicBool,
    requests: AtomicU64,
    bytes: AtomicU64,
    pulls: Mutex<pulls::Store>,
    /// Pull requests change one at a time, as a database would have it.
    writing: tokio::sync::Mutex<()>,
    origin: std::sync::OnceLock<String>,
    /// By project.
    gates: Mutex<BTreeMap<String, Gate>>,
    /// Other APIs, by the beginning of their paths.
    beside: Mutex<BTreeMap<String, Router>>,
}

impl Forge {
    /// Starts a forge on a free port, without TLS.
    pub async fn start() -> Result<Self, Error> {
        let listener = listen().await?;
        let shared = Arc::new(Shared::new()?);
        let address = listener
            .local_addr()
            .map_err(|error| Error::new("listen", error))?;
        let _ = shared.origin.set(format!("http://{address}"));
        let router = router(shared.clone());
        let server = tokio::spawn(async move {
            // It ends with the task that runs it.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            shared,
            address,
            certificate: None,
            server,
        })
    }

    /// Starts a forge with TLS, under a certificate authority of its own.
    pub async fn start_with_tls() -> Result<Self, Error> {
        let listener = listen().await?;
        let shared = Arc::new(Shared::new()?);
        let address = listener
            .local_addr()
            .map_err(|error| Error::new("listen", error))?;
        let _ = shared.origin.set(format!("https://{address}"));
        let (listener, certificate) = tls::wrap(listener)?;
        let router = router(shared.clone());
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            shared,
            address,
            certificate: Some(certificate),
            server,
        })
    }

    /// `http://127.0.0.1:PORT`, or https.
    pub fn origin(&self) -> String {
        self.shared.origin().to_owned()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate authority to trust, if it speaks TLS.
    pub fn certificate_authority(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// Opens the API; as a password, with any user name, it opens the repositories.
    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// Makes a repository with one commit on `main`.
    pub async fn create_repository(
        &self,
        project: &str,
        files: &[(&str, &str)],
    ) -> Result<Repository, Error> {
        Repository::create(self.shared.clone(), project, files).await
    }

    /// Answers everything with 503, or works again.
    pub fn set_up(&self, is_up: bool) {
        self.shared.is_up.store(is_up, Ordering::SeqCst);
    }

    /// Has pull requests wait for a review that nobody gave, or lets them be merged again.
    pub fn set_guarded(&self, is_guarded: bool) {
        self.shared.is_guarded.store(is_guarded, Ordering::SeqCst);
    }

    /// Keeps the token's user from merging by a branch protection, or lets it merge again.
    pub fn set_protected(&self, is_protected: bool) {
        self.shared
            .is_protected
            .store(is_protected, Ordering::SeqCst);
    }

    /// Has something else answer what is asked below a path: another forge's API, say.
    pub fn serve_beside(&self, prefix: &str, router: Router) {
        self.shared.beside.lock().insert(prefix.to_owned(), router);
    }

    /// How many requests came in so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// How many bytes of content went in and out so far.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Forge {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn new() -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("forge-").tempdir();
        let folder = folder.map_err(|error| Error::new("make a folder for the forge", error))?;
        Ok(Self {
            folder,
            token: "a-token-for-the-small-forge".to_owned(),
            is_up: AtomicBool::new(true),
            is_guarded: AtomicBool::new(false),
            is_protected: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            pulls: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            origin: std::sync::OnceLock::new(),
            gates: Mutex::default(),
            beside: Mutex::default(),
        })
    }

    fn origin(&self) -> &str {
        self.origin.get().map(String::as_str).unwrap_or_default()
    }

    /// The bare repository of `owner/name`, whether it exists or not.
    fn repository(&self, project: &str) -> PathBuf {
        self.folder.path().join(format!("{project}.git"))
    }

    /// What else answers below a path.
    fn beside(&self, path: &str) -> Option<Router> {
        let beside = self.beside.lock();
        let found = beside.iter().find(|(prefix, _)| path.starts_with(*prefix));
        found.map(|(_, router)| router.clone())
    }

    /// What stands before the repository that a path leads to.
    fn gate(&self, path: &str) -> Option<Gate> {
        let path = path.strip_prefix("/api/v1/repos").unwrap_or(path);
        let mut parts = path.trim_start_matches('/').split('/');
        let (owner, name) = (parts.next()?, parts.next()?);
        let project = format!("{owner}/{}", name.trim_end_matches(".git"));
        self.gates.lock().get(&project).cloned()
    }
}

async fn listen() -> Result<TcpListener, Error> {
    TcpListener::bind(("127.0.0.1", 0))
        .await
        .map_err(|error| Error::new("listen", error))
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .nest("/api/v1/repos/{owner}/{name}", pulls::routes())
        // What both have in common is enough for pull requests to GitHub Enterprise.
        .nest("/api/v3/repos/{owner}/{name}", pulls::routes())
        .fallback(backend::serve)
        .layer(axum::middleware::from_fn_with_state(shared.clone(), count))
        .with_state(shared)
}

async fn count(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    if !shared.is_up.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let content = request.body().size_hint().exact().unwrap_or_default();
    let path = request.uri().path();
    let response = match (shared.beside(path), shared.gate(path)) {
        (Some(router), _) => router
            .oneshot(request)
            .await
            .unwrap_or_else(|never| match never {}),
        (None, Some(gate)) => gate(request, next).await,
        (None, None) => next.run(request).await,
    };
    let answer = response.body().size_hint().exact().unwrap_or_default();
    shared.bytes.fetch_add(content + answer, Ordering::SeqCst);
    response
}
