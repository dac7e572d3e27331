#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod apply;
mod blocking;
mod body;
mod builtin;
mod clock;
mod data;
mod definition;
mod definitions;
mod discovery;
mod event;
mod fault_injection;
mod field_set;
mod garbage_collector;
mod json;
mod metadata;
mod name;
mod openapi;
mod percent;
mod protobuf;
mod query;
mod registry;
mod representation;
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

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use clock::ServerClock;
use fault_injection::FaultInjector;
use futures::FutureExt;
use parking_lot::Mutex;
use registry::Registry;
use store::{CommitError, FileStore, MemoryStore, RevisionConflict, Store, StoreKey, StoredObject};

pub use access::{MASTERS, User};
pub use admission::{Admission, AdmissionRequest, Operation};
pub use fault_injection::FaultRates;
pub use reviews::Reviewer;
pub use serve::{ADMINISTRATOR, Limits, ServeError, ServeHandle, ServeOptions};
pub use store::OpenError;

/// The default length of the history.
const DEFAULT_HISTORY: usize = 8192;

/// One API server. Cloning shares it.
#[derive(Clone)]
pub struct Server(Arc<ServerState>);

/// How a server is configured.
pub struct Options {
    /// How many events watches and paged lists can go back before they get `410 Expired`.
    pub history: usize,
    /// Makes uids and generated names the same in every run; random without it.
    pub seed: Option<u64>,
    /// The time at which its clock starts; the current time without it.
    pub start: Option<jiff::Timestamp>,
    /// Answers TokenReview and SubjectAccessReview instead of the server's own tokens and roles.
    pub reviewer: Option<Arc<dyn Reviewer>>,
    /// Reviews writes after authorization and validation.
    pub admission: Option<Arc<dyn Admission>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history: DEFAULT_HISTORY,
            seed: None,
            start: None,
            reviewer: None,
            admission: None,
        }
    }
}

struct ServerState {
    store: Box<dyn Store>,
    registry: Registry,
    registry_update: Mutex<()>,
    clock: ServerClock,
    random: Mutex<fault_injection::SeededRandom>,
    reviewer: Option<Arc<dyn Reviewer>>,
    admission: Option<Arc<dyn Admission>>,
    tokens: access::TokenRegistry,
    fault_injector: Mutex<FaultInjector>,
}

impl Server {
    /// An empty server with a store in memory. Needs a running tokio runtime.
    pub fn in_memory() -> Self {
        Self::new(Options::default())
    }

    /// An empty server with a store in memory. Needs a running tokio runtime.
    pub fn new(options: Options) -> Self {
        let server = Self::on(Box::new(MemoryStore::new(options.history)), options);
        let created = server.create_default_objects().now_or_never();
        debug_assert!(created.is_some(), "memory commits at once");
        garbage_collector::spawn(&server);
        server
    }

    /// A server in memory that starts with the objects and definitions that this one has now.
    ///
    /// Much faster than creating them again: nothing is parsed, validated or compiled.
    pub fn fork(&self, options: Options) -> Self {
        let (revision, objects) = self.store().all_objects();
        let store = MemoryStore::starting_with(revision, objects, options.history);
        let registry = self.registry().clone();
        let server = Self::with_registry(Box::new(store), registry, options);
        garbage_collector::spawn(&server);
        server
    }

    /// A server with a store in a file, which is created if it does not exist.
    ///
    /// A write is answered with success only after it is durable.
    pub async fn open(path: impl Into<PathBuf>, options: Options) -> Result<Self, OpenError> {
        let (path, history) = (path.into(), options.history);
        let opening = tokio::task::spawn_blocking(move || FileStore::open(&path, history));
        let file = opening.await.expect("opening a store does not panic")?;
        let server = Self::on(Box::new(file), options);
        server.register_stored_definitions();
        server.create_default_objects().await;
        garbage_collector::spawn(&server);
        Ok(server)
    }

    fn on(store: Box<dyn Store>, options: Options) -> Self {
        Self::with_registry(store, Registry::new(), options)
    }

    fn with_registry(store: Box<dyn Store>, registry: Registry, options: Options) -> Self {
        Self(Arc::new(ServerState {
            store,
            registry,
            registry_update: Mutex::default(),
            clock: ServerClock::start(options.start),
            random: Mutex::new(fault_injection::SeededRandom::new(options.seed)),
            reviewer: options.reviewer,
            admission: options.admission,
            tokens: access::TokenRegistry::default(),
            fault_injector: Mutex::default(),
        }))
    }

    /// Creates the namespaces, roles and bindings that every cluster has, where they are missing.
    async fn create_default_objects(&self) {
        futures::join!(
            verbs::create_default_namespaces(self),
            access::create_defaults(self)
        );
    }

    /// Registers a bearer token of a user for all sockets of this server.
    pub fn add_token(&self, token: &str, user: User) {
        self.0.tokens.add(token, user);
    }

    /// Serves the kinds whose definitions are in the store.
    fn register_stored_definitions(&self) {
        let stored = self.store().list(builtin::DEFINITIONS, "", None);
        for (_, crd) in stored.map(|it| it.objects).unwrap_or_default() {
            self.registry().define(&crd.value());
        }
    }

    /// Writes a consistent copy of the store to a new file that [`Server::open`] can open.
    ///
    /// Requests are served meanwhile. Fails if the file exists, or if the store is in memory.
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

    /// Makes requests fail from now on, as often as `rates` say.
    pub fn inject_faults(&self, rates: FaultRates) {
        *self.0.fault_injector.lock() = FaultInjector::new(rates);
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

    /// Commits one write and updates the registry. The outer error means that the store failed.
    async fn commit(
        &self,
        write: store::ObjectWrite,
    ) -> status::Result<Result<Arc<StoredObject>, RevisionConflict>> {
        let key = write.key.clone();
        let is_removal = write.object.is_none();
        match self.store().commit(write).await {
            Ok(object) => {
                self.update_registry(&key, is_removal);
                Ok(Ok(object))
            }
            Err(CommitError::Conflict) => Ok(Err(RevisionConflict)),
            Err(CommitError::TooLarge) => {
                Err(status::ApiError::too_large(store::OBJECT_SIZE_LIMIT))
            }
            Err(CommitError::Failed(why)) => Err(status::ApiError::not_stored(&why)),
        }
    }

    /// Serves what the stored definition says now. Commits of one definition may get here in another
    /// order, so each update reads the store, one at a time.
    fn update_registry(&self, key: &StoreKey, is_removal: bool) {
        if &*key.resource != builtin::DEFINITIONS {
            return;
        }
        let _one_at_a_time = self.0.registry_update.lock();
        let stored = self.store().value(key);
        if is_removal || stored.is_none() {
            self.registry().forget(&key.path);
        }
        if let Some(crd) = stored {
            self.registry().define(&crd);
        }
    }

    fn downgrade(&self) -> Weak<ServerState> {
        Arc::downgrade(&self.0)
    }
}
