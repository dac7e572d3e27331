//! What the parts of the pipeline loop share: caches, the index, and the queue they feed.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use parking_lot::{Mutex, RwLock};

use crate::{
    Context, FIELD_MANAGER,
    apps::{AppCache, sources::SourceCache},
    clusters::{
        Clusters, Connector, cluster_connection::ClusterConnection, kubeconfig::network_connector,
    },
    index::{Index, Want},
    keys::{AppKind, ClusterKey},
    namespaces::Namespaces,
    pipelines::Pipelines,
    promotions::Promotions,
    settings::Settings,
    telemetry::Telemetry,
};
use runtime::{Clock, ObjectKey, StatusWriter, WorkQueue};

/// Everything the pipeline loop knows.
pub struct Shared {
    pub(crate) hub: Client,
    pub(crate) status: StatusWriter,
    pub(crate) connector: Connector,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    pub(crate) pipelines: Pipelines,
    pub(crate) promotions: Promotions,
    pub(crate) clusters: Clusters,
    /// The namespaces of the hub.
    pub(crate) namespaces: Namespaces,
    pub(crate) apps: AppCache,
    pub(crate) sources: SourceCache,
    /// A client for single requests to each cluster that is connected.
    pub(crate) clients: RwLock<HashMap<ClusterKey, Client>>,
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) telemetry: Telemetry,
    index: Mutex<Index>,
    /// Nothing once the loop has ended.
    supervisors: Mutex<Option<HashMap<ClusterKey, ClusterConnection>>>,
}

/// Ends what was spawned for a loop when the loop ends.
pub(crate) struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.supervisors.lock().take();
    }
}

impl Shared {
    /// A loop that knows nothing yet, and that nobody listens to.
    pub fn new(hub: Client, connector: Connector, settings: Settings) -> Arc<Self> {
        let telemetry = Telemetry::alone("pipeline", settings.concurrent);
        Self::with(hub, connector, Arc::new(settings), telemetry)
    }

    /// A loop of the process that knows nothing yet.
    pub(crate) fn of(context: &Context) -> Arc<Self> {
        let settings = context.settings.clone();
        let telemetry = Telemetry::of(context, "pipeline");
        Self::with(
            context.client.clone(),
            network_connector(settings.kubeconfigs),
            settings,
            telemetry,
        )
    }

    pub(crate) fn with(
        hub: Client,
        connector: Connector,
        settings: Arc<Settings>,
        telemetry: Telemetry,
    ) -> Arc<Self> {
        let leader = telemetry.leadership.clone();
        let status = StatusWriter::new(hub.clone(), leader, FIELD_MANAGER);
        Arc::new(Self {
            hub,
            status,
            connector,
            settings,
            telemetry,
            clock: Clock::start(),
            pipelines: Pipelines::default(),
            promotions: Promotions::default(),
            clusters: Clusters::default(),
            namespaces: Namespaces::default(),
            apps: AppCache::default(),
            sources: SourceCache::default(),
            clients: RwLock::default(),
            queue: WorkQueue::new(),
            index: Mutex::default(),
            supervisors: Mutex::new(Some(HashMap::new())),
        })
    }

    /// What ends everything that runs for this loop when it is dropped.
    pub(crate) fn end(self: &Arc<Self>) -> End {
        End(self.clone())
    }

    /// How many clusters are supervised.
    pub fn supervised(&self) -> usize {
        let supervisors = self.supervisors.lock();
        supervisors
            .iter()
            .flat_map(HashMap::values)
            .filter(|handle| handle.is_running())
            .count()
    }

    /// How many pipelines wait.
    pub fn waiting(&self) -> usize {
        self.queue.depth()
    }

    /// Sets what a pipeline looks at, and sees to it that it is watched.
    pub(crate) fn need(
        self: &Arc<Self>,
        pipeline: &ObjectKey,
        wants: BTreeSet<Want>,
        selects: bool,
    ) {
        let changed = self.index.lock().set(pipeline, wants, selects);
        self.match_demand(&changed);
    }

    /// Forgets a pipeline.
    pub(crate) fn forget_pipeline(self: &Arc<Self>, pipeline: &ObjectKey) {
        self.pipelines.remove(pipeline);
        self.queue.forget(pipeline);
        let changed = self.index.lock().forget(pipeline);
        self.match_demand(&changed);
    }

    fn match_demand(self: &Arc<Self>, clusters: &BTreeSet<ClusterKey>) {
        for cluster in clusters {
            let demand = self.index.lock().demand(cluster);
            let mut supervisors = self.supervisors.lock();
            let Some(supervisors) = supervisors.as_mut() else {
                return;
            };
            let is_told = supervisors
                .get(cluster)
                .is_some_and(|handle| handle.set_demand(demand.clone()));
            if !is_told && !demand.is_empty() {
                let handle = ClusterConnection::open(self, cluster.clone(), demand);
                supervisors.insert(cluster.clone(), handle);
            }
        }
    }

    /// Whether a pipeline looks at anything on a cluster.
    pub(crate) fn is_used(&self, cluster: &ClusterKey) -> bool {
        !self.index.lock().demand(cluster).is_empty()
    }

    /// Called by a supervisor that nobody needs any more.
    pub(crate) fn forget_cluster(&self, cluster: &ClusterKey) {
        self.apps.forget_cluster(cluster);
        self.sources.forget_cluster(cluster);
        self.clients.write().remove(cluster);
        self.telemetry.forget(cluster);
        tracing::info!(%cluster, "no longer needed");
    }

    /// Has a pipeline looked at.
    pub(crate) fn wake(&self, pipeline: ObjectKey) {
        self.queue.add(pipeline);
        self.telemetry.queued(self.queue.depth());
    }

    /// Wakes the pipelines that look at an app.
    pub(crate) fn wake_app(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        name: &str,
    ) {
        let concerned = self.index.lock().concerned(cluster, kind, namespace, name);
        for pipeline in concerned {
            self.telemetry.app_changed(&pipeline);
            self.wake(pipeline);
        }
    }

    /// Wakes the pipelines that have, or might get, a target on a cluster.
    pub(crate) fn wake_cluster(&self, cluster: &ClusterKey) {
        let concerned = self.index.lock().on_cluster(cluster);
        for pipeline in concerned {
            self.wake(pipeline);
        }
    }

    /// A GitopsCluster came, changed or went.
    pub(crate) fn cluster_changed(&self, key: &ObjectKey) {
        let cluster = ClusterKey::Leaf(key.clone());
        let supervisors = self.supervisors.lock();
        if let Some(handle) = supervisors.as_ref().and_then(|all| all.get(&cluster)) {
            handle.cluster_changed();
        }
        drop(supervisors);
        self.wake_cluster(&cluster);
    }

    /// Wakes every pipeline.
    pub(crate) fn wake_all(&self) {
        for pipeline in self.pipelines.keys() {
            self.wake(pipeline);
        }
    }

    /// Whether a cluster has only just come to be supervised.
    pub(crate) fn is_young(&self, cluster: &ClusterKey, age: Duration) -> bool {
        let supervisors = self.supervisors.lock();
        supervisors
            .as_ref()
            .and_then(|all| all.get(cluster))
            .is_none_or(|handle| handle.since().elapsed() < age)
    }

    /// A delay, a little different each time, so that many do not come at once.
    pub(crate) fn jittered(&self, delay: Duration) -> Duration {
        let random = RandomState::new().build_hasher().finish() % 1000;
        delay.mul_f64(0.75 + random as f64 / 2000.0)
    }
}
