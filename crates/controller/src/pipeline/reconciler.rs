//! The state of the pipeline reconciler: caches, the index of what pipelines need, and its work queue.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Deref,
    sync::Arc,
    time::Duration,
};

use kube::Client;
use parking_lot::{Mutex, RwLock};
use runtime::{CacheEvent, LeaderGuard, ObjectCache, ObjectKey, Random, Subscription, Workers};

use crate::{
    Context,
    apps::{AppCache, sources::SourceCache},
    caches::{PipelineShard, pipeline_of},
    clusters::{
        self, Connector, cluster_connection::ClusterConnection, kubeconfig::network_connector,
    },
    index::{Index, RequiredApp},
    keys::{AppKind, ClusterKey},
    namespaces::Namespaces,
    reconciler_base::ReconcilerBase,
    settings::Settings,
};

/// Under this name the pipeline reconciler writes to the caches and reads its metrics.
pub(super) const NAME: &str = "pipeline";

/// Keeps the status of each pipeline up to date with its targets, and starts and ends promotions.
pub struct PipelineReconciler {
    base: ReconcilerBase,
    pub(crate) connector: Connector,
    random: Random,
    pub(crate) pipelines: PipelineShard,
    pub(crate) clusters: Arc<ObjectCache<api::GitopsCluster>>,
    /// The namespaces of the hub.
    pub(crate) namespaces: Namespaces,
    pub(crate) apps: AppCache,
    pub(crate) sources: SourceCache,
    /// A client for single requests to each cluster that is connected.
    pub(crate) clients: RwLock<HashMap<ClusterKey, Client>>,
    pub(crate) workers: Arc<Workers<ObjectKey>>,
    index: Mutex<Index>,
    /// Nothing once the reconciler has stopped.
    connections: Mutex<Option<HashMap<ClusterKey, ClusterConnection>>>,
}

/// Closes the connections to clusters when the reconciler stops.
pub(crate) struct CloseConnections(Arc<PipelineReconciler>);

impl Drop for CloseConnections {
    fn drop(&mut self) {
        self.0.connections.lock().take();
    }
}

impl Deref for PipelineReconciler {
    type Target = ReconcilerBase;

    fn deref(&self) -> &ReconcilerBase {
        &self.base
    }
}

impl PipelineReconciler {
    /// A reconciler on its own, with caches, metrics and health of its own.
    pub fn new(hub: Client, connector: Connector, settings: Settings) -> Arc<Self> {
        let leader = LeaderGuard::without_election();
        Self::with(ReconcilerBase::alone(hub, settings, leader), connector)
    }

    /// The reconciler of the process.
    pub(crate) fn of(context: &Context) -> Arc<Self> {
        let settings = &context.settings;
        let connector = settings.replacements.leaf_connector.clone();
        let connector = connector.unwrap_or_else(|| network_connector(settings.kubeconfigs));
        Self::with(ReconcilerBase::of(context), connector)
    }

    pub(super) fn with(base: ReconcilerBase, connector: Connector) -> Arc<Self> {
        let (caches, settings) = (&base.caches, &base.settings);
        Arc::new(Self {
            workers: base.telemetry.workers(NAME, settings.concurrent),
            pipelines: PipelineShard::new(caches, settings.label_selector.as_deref()),
            clusters: caches.clusters.clone(),
            connector,
            random: settings
                .replacements
                .seed
                .map_or_else(Random::from_entropy, Random::seeded),
            namespaces: Namespaces::default(),
            apps: AppCache::default(),
            sources: SourceCache::default(),
            clients: RwLock::default(),
            index: Mutex::default(),
            connections: Mutex::new(Some(HashMap::new())),
            base,
        })
    }

    /// Closes the connections when it is dropped.
    pub(crate) fn close_connections(self: &Arc<Self>) -> CloseConnections {
        CloseConnections(self.clone())
    }

    /// Enqueues pipelines as the caches change, until the subscriptions are dropped.
    pub(super) fn subscribe(self: &Arc<Self>) -> [Subscription; 3] {
        let this = self.clone();
        let pipelines = self.caches.pipelines.subscribe(NAME, move |event| {
            let (CacheEvent::Applied { key, .. } | CacheEvent::Deleted { key, .. }) = event;
            let is_deleted = matches!(event, CacheEvent::Deleted { .. });
            // Events of two threads may be told in either order: what is in the cache counts.
            let is_ours = this.pipelines.contains(key);
            if is_deleted || !is_ours {
                this.forget_pipeline(key);
            }
            if is_ours {
                this.enqueue(key.clone());
            }
        });
        let this = self.clone();
        let promotions = self.caches.promotions.subscribe(NAME, move |event| {
            let (CacheEvent::Applied { object, .. } | CacheEvent::Deleted { object, .. }) = event;
            let pipeline = pipeline_of(object);
            if this.pipelines.contains(&pipeline) {
                this.enqueue(pipeline);
            }
        });
        let this = self.clone();
        let clusters = self.clusters.subscribe(NAME, move |event| match event {
            CacheEvent::Applied {
                object,
                previous: Some(previous),
                ..
            } if clusters::is_same(previous, object) => {}
            CacheEvent::Applied { key, .. } | CacheEvent::Deleted { key, .. } => {
                this.cluster_changed(key);
            }
        });
        [pipelines, promotions, clusters]
    }

    /// How many clusters are supervised.
    pub fn supervised(&self) -> usize {
        let connections = self.connections.lock();
        connections
            .iter()
            .flat_map(HashMap::values)
            .filter(|handle| handle.is_running())
            .count()
    }

    /// How many pipelines are queued.
    pub fn waiting(&self) -> usize {
        self.workers.depth()
    }

    /// Sets which apps a pipeline depends on, and starts or stops watching them.
    pub(crate) fn set_required_apps(
        self: &Arc<Self>,
        pipeline: &ObjectKey,
        required: BTreeSet<RequiredApp>,
        selects: bool,
    ) {
        let changed = self.index.lock().set(pipeline, required, selects);
        self.update_connections(&changed);
    }

    /// Drops everything about a pipeline that was deleted.
    pub(crate) fn forget_pipeline(self: &Arc<Self>, pipeline: &ObjectKey) {
        self.workers.forget(pipeline);
        let changed = self.index.lock().forget(pipeline);
        self.update_connections(&changed);
    }

    fn update_connections(self: &Arc<Self>, clusters: &BTreeSet<ClusterKey>) {
        for cluster in clusters {
            let required_kinds = self.index.lock().required_kinds(cluster);
            let mut connections = self.connections.lock();
            let Some(connections) = connections.as_mut() else {
                return;
            };
            let is_running = connections
                .get(cluster)
                .is_some_and(|handle| handle.set_required_kinds(required_kinds.clone()));
            if !is_running && !required_kinds.is_empty() {
                let handle = ClusterConnection::open(self, cluster.clone(), required_kinds);
                connections.insert(cluster.clone(), handle);
            }
        }
    }

    /// Whether a pipeline depends on anything on a cluster.
    pub(crate) fn is_used(&self, cluster: &ClusterKey) -> bool {
        !self.index.lock().required_kinds(cluster).is_empty()
    }

    /// Called by the supervisor of a cluster that no pipeline depends on any more.
    pub(crate) fn forget_cluster(&self, cluster: &ClusterKey) {
        self.apps.forget_cluster(cluster);
        self.sources.forget_cluster(cluster);
        self.clients.write().remove(cluster);
        self.telemetry.forget(cluster);
        tracing::info!(%cluster, "no pipeline depends on the cluster any more: disconnected");
    }

    /// Enqueues a pipeline.
    pub(crate) fn enqueue(&self, pipeline: ObjectKey) {
        self.workers.enqueue(pipeline);
    }

    /// Enqueues the pipelines that depend on an app.
    pub(crate) fn enqueue_app(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        name: &str,
    ) {
        let concerned = self.index.lock().concerned(cluster, kind, namespace, name);
        for pipeline in concerned {
            self.telemetry.app_changed(&pipeline);
            self.enqueue(pipeline);
        }
    }

    /// Enqueues the pipelines that have, or might get, a target on a cluster.
    pub(crate) fn enqueue_cluster(&self, cluster: &ClusterKey) {
        let concerned = self.index.lock().on_cluster(cluster);
        for pipeline in concerned {
            self.enqueue(pipeline);
        }
    }

    /// A GitopsCluster was created, changed or deleted.
    pub(crate) fn cluster_changed(&self, key: &ObjectKey) {
        let cluster = ClusterKey::Leaf(key.clone());
        let connections = self.connections.lock();
        if let Some(handle) = connections.as_ref().and_then(|all| all.get(&cluster)) {
            handle.cluster_changed();
        }
        drop(connections);
        self.enqueue_cluster(&cluster);
    }

    /// Enqueues every pipeline.
    pub(crate) fn enqueue_all(&self) {
        for pipeline in self.pipelines.keys() {
            self.enqueue(pipeline);
        }
    }

    /// Whether the supervisor of a cluster was started only recently.
    pub(crate) fn is_young(&self, cluster: &ClusterKey, age: Duration) -> bool {
        let connections = self.connections.lock();
        connections
            .as_ref()
            .and_then(|all| all.get(cluster))
            .is_none_or(|handle| handle.since().elapsed() < age)
    }

    /// A delay with jitter, so that many retries do not happen at once.
    pub(crate) fn jittered(&self, delay: Duration) -> Duration {
        self.random.jittered(delay)
    }
}
