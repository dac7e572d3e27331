//! A small git forge: real git over HTTP, and the pull requests of Gitea's API.
//!
//! Repositories are bare folders served by `git http-backend`. The implemented part of the API behaves as
//! Gitea documents it: wrong tokens and duplicates are refused, lists have pages, merges create real merge
//! commits. Other paths return 404. It listens on loopback, stores its data in a temporary folder, and
//! stops on drop.

mod git_http;
mod lists;
mod markdown;
mod pages;
mod pulls;
mod repository;
pub(crate) mod tls;

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
use axum::routing::get;
use axum::serve::Listener;
use futures::future::BoxFuture;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::ServiceExt;

pub use pulls::{CommitStatus, PullRequest, PullState};
pub use repository::Repository;

/// Why the forge could not be started or used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempted}: {because}")]
pub struct Error {
    attempted: String,
    because: String,
}

impl Error {
    pub(crate) fn new(attempted: impl Into<String>, because: impl ToString) -> Self {
        Self {
            attempted: attempted.into(),
            because: because.to_string(),
        }
    }
}

/// Handles the requests for a repository: it may delay, drop or pass on a request and its response.
pub type RequestInterceptor =
    Arc<dyn Fn(Request, Next) -> BoxFuture<'static, Response> + Send + Sync>;

/// A running forge.
pub struct Forge {
    state: Arc<ForgeState>,
    address: SocketAddr,
    certificate: Option<String>,
    servers: Vec<JoinHandle<()>>,
}

/// The state shared by all requests.
struct ForgeState {
    folder: tempfile::TempDir,
    token: String,
    is_available: AtomicBool,
    requires_review: AtomicBool,
    forbids_merge: AtomicBool,
    forbids_push: AtomicBool,
    forbids_feedback: AtomicBool,
    required_status: Mutex<Option<String>>,
    requests: AtomicU64,
    bytes: AtomicU64,
    pulls: Mutex<pulls::PullRequestStore>,
    /// Serializes changes of pull requests.
    write_lock: tokio::sync::Mutex<()>,
    origin: String,
    /// Where the pages for people are.
    web_origin: String,
    /// By project.
    interceptors: Mutex<BTreeMap<String, RequestInterceptor>>,
    /// Other APIs, by path prefix.
    additional_apis: Mutex<BTreeMap<String, Router>>,
}

impl Forge {
    /// Starts a forge on a free port, without TLS.
    pub async fn start() -> Result<Self, Error> {
        let listener = listen().await?;
        let address = local_address(&listener)?;
        let state = ForgeState::new(format!("http://{address}"), format!("http://{address}"))?;
        Self::serve(listener, address, state, None)
    }

    /// Starts a forge with TLS, with its own certificate authority.
    pub async fn start_with_tls() -> Result<Self, Error> {
        let (listener, web) = (listen().await?, listen().await?);
        let (address, web_address) = (local_address(&listener)?, local_address(&web)?);
        let (listener, certificate) = tls::wrap(listener)?;
        let origins = (
            format!("https://{address}"),
            format!("http://{web_address}"),
        );
        let state = ForgeState::new(origins.0, origins.1)?;
        let mut forge = Self::serve(listener, address, state, Some(certificate))?;
        let pages = pages::routes().with_state(forge.state.clone());
        forge.servers.push(spawn(web, pages));
        Ok(forge)
    }

    fn serve<L>(
        listener: L,
        address: SocketAddr,
        state: ForgeState,
        certificate: Option<String>,
    ) -> Result<Self, Error>
    where
        L: Listener<Addr = SocketAddr>,
    {
        // For the clients in this process.
        crate::tls::install_provider();
        let state = Arc::new(state);
        let router = router(state.clone());
        Ok(Self {
            state,
            address,
            certificate,
            servers: vec![spawn(listener, router)],
        })
    }

    /// The start of the addresses of pages for people, always without TLS.
    pub fn web_origin(&self) -> &str {
        &self.state.web_origin
    }

    /// `http://127.0.0.1:PORT`, or https.
    pub fn origin(&self) -> String {
        self.state.origin().to_owned()
    }

    /// The listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate authority as PEM, if it uses TLS.
    pub fn certificate_authority(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The token for the API, and the password for the repositories with any user name.
    pub fn token(&self) -> &str {
        &self.state.token
    }

    /// Creates a repository with one commit on `main`.
    pub async fn create_repository(
        &self,
        project: &str,
        files: &[(&str, &str)],
    ) -> Result<Repository, Error> {
        Repository::create(self.state.clone(), project, files).await
    }

    /// While unavailable, all responses are 503.
    pub fn set_available(&self, is_available: bool) {
        self.state
            .is_available
            .store(is_available, Ordering::SeqCst);
    }

    /// Whether merges are refused because a review is missing.
    pub fn set_requires_review(&self, requires_review: bool) {
        self.state
            .requires_review
            .store(requires_review, Ordering::SeqCst);
    }

    /// Whether the token may only read repositories.
    pub fn set_forbids_push(&self, forbids_push: bool) {
        self.state
            .forbids_push
            .store(forbids_push, Ordering::SeqCst);
    }

    /// Whether a branch protection forbids the token's user to merge.
    pub fn set_forbids_merge(&self, forbids_merge: bool) {
        self.state
            .forbids_merge
            .store(forbids_merge, Ordering::SeqCst);
    }

    /// Whether the token may neither comment nor set commit statuses.
    pub fn set_forbids_feedback(&self, forbids_feedback: bool) {
        self.state
            .forbids_feedback
            .store(forbids_feedback, Ordering::SeqCst);
    }

    /// Merges are refused unless the head has this commit status, and it is a success.
    pub fn set_required_status(&self, context: &str) {
        *self.state.required_status.lock() = Some(context.to_owned());
    }

    /// Serves another API, such as that of another forge, under a path prefix.
    pub fn serve_additional_api(&self, prefix: &str, router: Router) {
        self.state
            .additional_apis
            .lock()
            .insert(prefix.to_owned(), router);
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// The number of bytes of request and response bodies so far.
    pub fn bytes(&self) -> u64 {
        self.state.bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Forge {
    fn drop(&mut self) {
        for server in &self.servers {
            server.abort();
        }
    }
}

impl ForgeState {
    fn new(origin: String, web_origin: String) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("forge-").tempdir();
        let folder = folder.map_err(|error| Error::new("create a folder for the forge", error))?;
        Ok(Self {
            folder,
            token: "a-token-for-the-small-forge".to_owned(),
            is_available: AtomicBool::new(true),
            requires_review: AtomicBool::new(false),
            forbids_feedback: AtomicBool::new(false),
            required_status: Mutex::default(),
            forbids_merge: AtomicBool::new(false),
            forbids_push: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            pulls: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
            origin,
            web_origin,
            interceptors: Mutex::default(),
            additional_apis: Mutex::default(),
        })
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    /// The bare repository of `owner/name`, whether it exists or not.
    fn repository(&self, project: &str) -> PathBuf {
        self.folder.path().join(format!("{project}.git"))
    }

    /// The additional API of a path.
    fn additional_apis(&self, path: &str) -> Option<Router> {
        let additional_apis = self.additional_apis.lock();
        let found = additional_apis
            .iter()
            .find(|(prefix, _)| path.starts_with(*prefix));
        found.map(|(_, router)| router.clone())
    }

    /// The interceptor of the repository of a path.
    fn interceptor(&self, path: &str) -> Option<RequestInterceptor> {
        let path = path.strip_prefix("/api/v1/repos").unwrap_or(path);
        let mut parts = path.trim_start_matches('/').split('/');
        let (owner, name) = (parts.next()?, parts.next()?);
        let project = format!("{owner}/{}", name.trim_end_matches(".git"));
        self.interceptors.lock().get(&project).cloned()
    }
}

/// Serves until it is aborted.
fn spawn<L>(listener: L, router: Router) -> JoinHandle<()>
where
    L: Listener<Addr = SocketAddr>,
{
    tokio::spawn(async move {
        let _ = axum::serve(listener, router).await;
    })
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, Error> {
    let address = listener.local_addr();
    address.map_err(|error| Error::new("listen", error))
}

pub(crate) async fn listen() -> Result<TcpListener, Error> {
    TcpListener::bind(("127.0.0.1", 0))
        .await
        .map_err(|error| Error::new("listen", error))
}

fn router(state: Arc<ForgeState>) -> Router {
    Router::new()
        .nest("/api/v1/repos/{owner}/{name}", pulls::routes())
        // The common part of both APIs suffices for GitHub Enterprise's pull requests.
        .nest("/api/v3/repos/{owner}/{name}", pulls::routes())
        .route("/api/v1/notifications/new", get(pulls::notifications))
        .merge(pages::routes())
        .fallback(git_http::serve)
        .layer(axum::middleware::from_fn_with_state(state.clone(), count))
        .with_state(state)
}

async fn count(State(state): State<Arc<ForgeState>>, mut request: Request, next: Next) -> Response {
    state.requests.fetch_add(1, Ordering::SeqCst);
    if !state.is_available.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let content = request.body().size_hint().exact().unwrap_or_default();
    let path = request.uri().path().to_owned();
    let response = match (state.additional_apis(&path), state.interceptor(&path)) {
        (Some(router), _) => {
            // The parameters of a route here would be taken for those of the other router.
            request.extensions_mut().clear();
            let answered = router.oneshot(request).await;
            answered.unwrap_or_else(|never| match never {})
        }
        (None, Some(interceptor)) => interceptor(request, next).await,
        (None, None) => next.run(request).await,
    };
    let answer = response.body().size_hint().exact().unwrap_or_default();
    state.bytes.fetch_add(content + answer, Ordering::SeqCst);
    response
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, extract::Path};

    use super::*;

    #[tokio::test]
    async fn another_api_has_parameters_of_its_own() {
        let forge = Forge::start().await.expect("a forge");
        let show = async |Path(number): Path<u64>| number.to_string();
        let path = "/api/v3/repos/team/config/pulls/{number}";
        forge.serve_additional_api("/api/v3", Router::new().route(path, get(show)));
        let request = Request::get(path.replace("{number}", "7"));
        let request = request.body(Body::empty()).expect("a request");
        let answered = router(forge.state.clone()).oneshot(request).await;
        assert_eq!(answered.expect("an answer").status(), StatusCode::OK);
    }
}
