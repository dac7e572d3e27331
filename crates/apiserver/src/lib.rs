#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod apply;
mod blocking;
mod body;
mod builtin;
mod clock;
mod collector;
mod data;
mod definition;
mod definitions;
mod discovery;
mod event;
mod faults;
mod fields;
mod json;
mod metadata;
mod name;
mod openapi;
mod percent;
mod protobuf;
mod query;
mod registry;
mod resource;
mod reviews;
mod route;
mod schema;
mod selector;
mod serve;
mod status;
mod store;
mod strategic;
mod table;
mod types;
mod verbs;
mod view;

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use clock::Clock;
use faults::Fate;
use futures::FutureExt;
use parking_lot::Mutex;
use registry::Registry;
use store::{File, Kept, Key, Memory, Refusal, Stale, Store};

pub use access::{MASTERS, User};
pub use admission::{Admission, Operation, Request as AdmissionRequest};
pub use faults::Faults;
pub use reviews::Reviewer;
pub use serve::{Limits, ServeError, ServeOptions, Served};
pub use store::OpenError;

/// How many changes a server remembers unless told otherwise.
const HISTORY: usize = 8192;

/// One API server. Cloning shares it.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

/// How a server is set up.
pub struct Options {
    /// How many changes watches and paged lists can go back before they get `410 Expired`.
    pub history: usize,
    /// Makes uids and generated names the same in every run; random without it.
    pub seed: Option<u64>,
    /// Who answers TokenReview and SubjectAccessReview; without one the server's own tokens and
    /// roles do.
    pub reviewer: Option<Arc<dyn Reviewer>>,
    /// Who has a say in what is written, after access control and all checks.
    pub admission: Option<Arc<dyn Admission>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history: HISTORY,
            seed: None,
            reviewer: None,
            admission: None,
        }
    }
}

struct Inner {
    store: Box<dyn Store>,
    registry: Registry,
    clock: Clock,
    random: Mutex<faults::Random>,
    reviewer: Option<Arc<dyn Reviewer>>,
    admission: Option<Arc<dyn Admission>>,
    tokens: access::TokenRegistry,
    fate: Mutex<Fate>,
}

impl Server {
    /// An empty server that keeps everything in memory. Needs a running tokio runtime.
    pub fn in_memory() -> Self {
        Self::new(Options::default())
    }

    /// An empty server in memory, set up as `options` say. Needs a running tokio runtime.
    pub fn new(options: Options) -> Self {
        let server = Self::on(Box::new(Memory::new(options.history)), options);
        let first = server.create_first_objects().now_or_never();
        debug_assert!(first.is_some(), "memory commits at once");
        collector::spawn(&server);
        server
    }

    /// The server that keeps everything in one file, which is created if it is not there.
    ///
    /// What was answered with success is in the file by then, whatever happens afterwards.
    pub async fn open(path: impl Into<PathBuf>, options: Options) -> Result<Self, OpenError> {
        let (path, history) = (path.into(), options.history);
        let opening = tokio::task::spawn_blocking(move || File::open(&path, history));
        let file = opening.await.expect("opening a store does not panic")?;
        let server = Self::on(Box::new(file), options);
        server.define_stored();
        server.create_first_objects().await;
        collector::spawn(&server);
        Ok(server)
    }

    fn on(store: Box<dyn Store>, options: Options) -> Self {
        Self(Arc::new(Inner {
            store,
            registry: Registry::new(),
            clock: Clock::start(),
            random: Mutex::new(faults::Random::new(options.seed)),
            reviewer: options.reviewer,
            admission: options.admission,
            tokens: access::TokenRegistry::default(),
            fate: Mutex::default(),
        }))
    }

    /// Makes what every cluster has; what is there already is left as it is.
    async fn create_first_objects(&self) {
        futures::join!(
            verbs::create_first_namespaces(self),
            access::create_defaults(self)
        );
    }

    /// From now on a bearer token stands for a user, on every socket of this server.
    pub fn add_token(&self, token: &str, user: User) {
        self.0.tokens.add(token, user);
    }

    /// Serves the kinds whose definitions were stored in an earlier life.
    fn define_stored(&self) {
        let stored = self.store().list(builtin::DEFINITIONS, "", None);
        for (_, crd) in stored.map(|it| it.objects).unwrap_or_default() {
            self.registry().define(&crd.value());
        }
    }

    /// Copies everything, as it is at one moment, into a new file that [`Server::open`] can open.
    ///
    /// Requests go on meanwhile. Fails if the file exists, or if there is nothing but memory.
    pub async fn backup(&self, to: impl Into<PathBuf>) -> std::io::Result<()> {
        let (server, to) = (self.clone(), to.into());
        let copying = tokio::task::spawn_blocking(move || server.store().backup(&to));
        copying.await.expect("a backup does not panic")
    }

    /// The HTTP service. Every request has the rights of `user`, whatever token it carries.
    pub fn router(&self, user: User) -> axum::Router {
        let server = self.clone();
        axum::Router::new()
            .fallback(move |request| verbs::answer(server.clone(), user.clone(), request))
    }

    /// A client with all rights: [`Server::client_as`] the embedding process.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::in_process())
    }

    /// A client with the rights of a user. Its transport is [`Server::router`]: it needs no socket
    /// and works under a paused clock.
    pub fn client_as(&self, user: User) -> kube::Client {
        use tower::ServiceExt;
        let service =
            self.router(user)
                .map_request(|request: http::Request<kube::client::Body>| {
                    request.map(axum::body::Body::new)
                });
        kube::Client::new(service, "default")
    }

    /// From now on requests fail as `faults` say, in an order that its seed decides.
    pub fn inject(&self, faults: Faults) {
        *self.0.fate.lock() = Fate::new(faults);
    }

    fn registry(&self) -> &Registry {
        &self.0.registry
    }

    fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    fn now(&self) -> String {
        self.0.clock.now()
    }

    fn timestamp(&self) -> jiff::Timestamp {
        self.0.clock.timestamp()
    }

    fn tokens(&self) -> &access::TokenRegistry {
        &self.0.tokens
    }

    fn random(&self) -> u64 {
        self.0.random.lock().next()
    }

    /// Commits one change and lets the registry follow it. The outer error is that of a store which
    /// cannot keep anything.
    async fn commit(&self, write: store::Write) -> status::Result<Result<Arc<Kept>, Stale>> {
        let key = write.key.clone();
        let is_removal = write.object.is_none();
        match self.store().commit(write).await {
            Ok(object) => {
                self.follow(&key, (!is_removal).then_some(&*object));
                Ok(Ok(object))
            }
            Err(Refusal::Stale) => Ok(Err(Stale)),
            Err(Refusal::TooLarge) => Err(status::ApiError::too_large(store::LARGEST)),
            Err(Refusal::Failed(why)) => Err(status::ApiError::not_stored(&why)),
        }
    }

    fn follow(&self, key: &Key, object: Option<&Kept>) {
        if &*key.resource != builtin::DEFINITIONS {
            return;
        }
        match object {
            Some(crd) => self.registry().define(&crd.value()),
            None => self.registry().forget(&key.path),
        }
    }

    fn downgrade(&self) -> Weak<Inner> {
        Arc::downgrade(&self.0)
    }
}
