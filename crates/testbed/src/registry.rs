//! A small OCI registry: manifests and tags of the distribution API, with token or password.
//!
//! It refuses what a real registry refuses: wrong credentials and scopes, manifests whose blobs it does
//! not have, and media types that a request does not accept. It listens on loopback, keeps everything in
//! memory, and stops on drop. Blobs are stored by tests, not uploaded.

mod access;
mod store;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::forge::{Error, RequestInterceptor, listen, tls};

pub use access::{Authentication, IDENTITY_TOKEN, PASSWORD, USER};
use store::Store;
pub use store::StoredManifest;
pub(crate) use store::digest;

/// The largest manifest that is accepted.
const LARGEST_MANIFEST: usize = 4 << 20;

/// A running registry.
pub struct Registry {
    state: Arc<RegistryState>,
    address: SocketAddr,
    certificate: Option<String>,
    server: JoinHandle<()>,
}

struct RegistryState {
    origin: String,
    authentication: Authentication,
    is_available: AtomicBool,
    requests: AtomicU64,
    store: Mutex<Store>,
    tokens: Mutex<access::Tokens>,
    interceptor: Mutex<Option<RequestInterceptor>>,
}

impl Registry {
    /// Starts a registry on a free port, without TLS.
    pub async fn start(authentication: Authentication) -> Result<Self, Error> {
        let listener = listen().await?;
        Self::serve(listener, "http", None, authentication)
    }

    /// Starts a registry with TLS, with its own certificate authority.
    pub async fn start_with_tls(authentication: Authentication) -> Result<Self, Error> {
        let (listener, certificate) = tls::wrap(listen().await?)?;
        Self::serve(listener, "https", Some(certificate), authentication)
    }

    fn serve<L>(
        listener: L,
        scheme: &str,
        certificate: Option<String>,
        authentication: Authentication,
    ) -> Result<Self, Error>
    where
        L: Listener<Addr = SocketAddr>,
    {
        let address = listener.local_addr();
        let address = address.map_err(|error| Error::new("listen", error))?;
        // For the clients in this process.
        crate::tls::install_provider();
        let state = Arc::new(RegistryState {
            origin: format!("{scheme}://{address}"),
            authentication,
            is_available: AtomicBool::new(true),
            requests: AtomicU64::new(0),
            store: Mutex::default(),
            tokens: Mutex::default(),
            interceptor: Mutex::default(),
        });
        let layer = axum::middleware::from_fn_with_state(state.clone(), intercept);
        let router = Router::new().fallback(answer).layer(layer);
        let router = router.with_state(state.clone());
        let server = tokio::spawn(async move {
            // Aborted on drop.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            state,
            address,
            certificate,
            server,
        })
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The certificate authority as PEM, if it uses TLS.
    pub fn certificate_authority(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// Stores a Flux artifact of that version and returns its digest. The same version has the same
    /// digest.
    pub fn push_artifact(&self, repository: &str, version: &str) -> String {
        self.state.store.lock().push_artifact(repository, version)
    }

    /// Stores a manifest of any type with the blobs it names, and returns its digest.
    pub fn push(&self, repository: &str, media_type: &str, bytes: &[u8]) -> String {
        self.state.store.lock().push(repository, media_type, bytes)
    }

    /// Points a tag at a digest, as somebody else would.
    pub fn tag(&self, repository: &str, tag: &str, digest: &str) {
        self.state.store.lock().tag(repository, tag, digest);
    }

    /// Removes a manifest, as a retention policy would. Its tags stay and lead nowhere.
    pub fn delete_manifest(&self, repository: &str, digest: &str) {
        self.state.store.lock().delete(repository, digest);
    }

    /// The digest that a tag points to.
    pub fn digest_of(&self, repository: &str, tag: &str) -> Option<String> {
        self.state.store.lock().digest_of(repository, tag)
    }

    /// A manifest by its tag or digest.
    pub fn manifest(&self, repository: &str, reference: &str) -> Option<StoredManifest> {
        self.state.store.lock().manifest(repository, reference)
    }

    /// Every tag that a client has put, with its digest, in order.
    pub fn puts(&self) -> Vec<(String, String)> {
        self.state.store.lock().puts.clone()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// While unavailable, all responses are 503.
    pub fn set_available(&self, is_available: bool) {
        self.state
            .is_available
            .store(is_available, Ordering::SeqCst);
    }

    /// Handles every request from now on, or none.
    pub fn intercept(&self, interceptor: Option<RequestInterceptor>) {
        *self.state.interceptor.lock() = interceptor;
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn intercept(
    State(state): State<Arc<RegistryState>>,
    request: Request,
    next: Next,
) -> Response {
    state.requests.fetch_add(1, Ordering::SeqCst);
    if !state.is_available.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let interceptor = state.interceptor.lock().clone();
    match interceptor {
        Some(interceptor) => interceptor(request, next).await,
        None => next.run(request).await,
    }
}

async fn answer(State(state): State<Arc<RegistryState>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if path == access::TOKEN_PATH {
        return access::token(&state, request).await;
    }
    let rest = path.strip_prefix("/v2/");
    let Some((repository, reference)) = rest.and_then(|rest| rest.rsplit_once("/manifests/"))
    else {
        return refusal(StatusCode::NOT_FOUND, "UNSUPPORTED");
    };
    let is_write = request.method() == Method::PUT;
    if let Err(response) = access::check(&state, request.headers(), repository, is_write) {
        return *response;
    }
    match request.method().as_str() {
        "GET" | "HEAD" => read(&state, request.headers(), repository, reference),
        "PUT" => put(&state, request, repository, reference).await,
        _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED"),
    }
}

fn read(state: &RegistryState, headers: &HeaderMap, repository: &str, reference: &str) -> Response {
    let Some(manifest) = state.store.lock().manifest(repository, reference) else {
        return refusal(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN");
    };
    let accepted = headers.get_all(http::header::ACCEPT).iter();
    let accepted: Vec<_> = accepted.filter_map(|value| value.to_str().ok()).collect();
    if !accepted.join(",").contains(&manifest.media_type) {
        return refusal(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN");
    }
    let headers = [
        ("content-type", manifest.media_type.as_str()),
        ("docker-content-digest", &manifest.digest),
    ];
    (headers, manifest.bytes).into_response()
}

async fn put(
    state: &RegistryState,
    request: Request,
    repository: &str,
    reference: &str,
) -> Response {
    let content_type = request.headers().get(http::header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or_default().to_owned();
    let Ok(bytes) = axum::body::to_bytes(request.into_body(), LARGEST_MANIFEST).await else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID");
    };
    let stored = state
        .store
        .lock()
        .put(repository, reference, &media_type, &bytes);
    match stored {
        Ok(digest) => {
            let location = format!("/v2/{repository}/manifests/{digest}");
            let headers = [("location", location), ("docker-content-digest", digest)];
            (StatusCode::CREATED, headers).into_response()
        }
        Err(code) => refusal(StatusCode::BAD_REQUEST, code),
    }
}

/// A refusal in the form of the distribution API.
fn refusal(status: StatusCode, code: &str) -> Response {
    let body = json!({"errors": [{"code": code, "message": "refused", "detail": null}]});
    (status, axum::Json(body)).into_response()
}
