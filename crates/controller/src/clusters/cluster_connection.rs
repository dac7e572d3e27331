//! Keeps a connection to one cluster for as long as a pipeline uses it.
//!
//! It connects, watches the kinds that are needed, notices rotated credentials and clusters that become
//! unreachable or reachable again, and reconnects with backoff.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::GitopsCluster;
use futures::FutureExt;
use kube::Client;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use super::{
    CALL_TIMEOUT,
    conditions::{self, Connectivity},
    describe, kubeconfig,
};
use crate::{
    PipelineReconciler,
    apps::app_watch::AppWatch,
    index::{RequiredKinds, RequiredNamespaces},
    keys::{AppKind, ClusterKey},
};

/// How often the cluster is probed and its Secret checked.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// How long the connection is kept after the last pipeline stopped using the cluster.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// The first and the longest delay before another attempt to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// After so many failed probes in a row the cluster counts as unreachable.
const FAILED_PROBES: u32 = 2;

/// The connection to one cluster. It is closed when this is dropped.
pub(crate) struct ClusterConnection {
    required_kinds: watch::Sender<RequiredKinds>,
    /// Incremented when the GitopsCluster changed.
    changes: watch::Sender<u64>,
    task: AbortHandle,
    since: Instant,
}

impl ClusterConnection {
    /// Connects in a task of its own.
    pub(crate) fn open(
        shared: &Arc<PipelineReconciler>,
        key: ClusterKey,
        required_kinds: RequiredKinds,
    ) -> Self {
        let (required_sender, required_kinds) = watch::channel(required_kinds);
        let (changes_sender, changes) = watch::channel(0);
        let task = ConnectionTask {
            shared: shared.clone(),
            key,
            required_kinds,
            changes,
        };
        let task = runtime::spawn(task.run());
        Self {
            required_kinds: required_sender,
            changes: changes_sender,
            task: task.abort_handle(),
            since: Instant::now(),
        }
    }

    /// Since when the connection is kept.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Sets what is needed now. `false` if the connection has ended: open another.
    pub(crate) fn set_required_kinds(&self, required_kinds: RequiredKinds) -> bool {
        self.required_kinds.send_replace(required_kinds);
        !self.task.is_finished() && self.required_kinds.receiver_count() > 0
    }

    /// Tells that the GitopsCluster changed.
    pub(crate) fn cluster_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Whether the connection is still kept.
    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for ClusterConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct ConnectionTask {
    shared: Arc<PipelineReconciler>,
    key: ClusterKey,
    required_kinds: watch::Receiver<RequiredKinds>,
    changes: watch::Receiver<u64>,
}

/// A client for a cluster that answered.
struct ReachedCluster {
    /// Uses HTTP/1.1, where each watch has a TCP connection of its own.
    client: Client,
    /// The resourceVersion of the Secret it was created from.
    secret: String,
}

impl ConnectionTask {
    async fn run(mut self) {
        let mut delay = BACKOFF.0;
        while self.is_needed().await {
            self.changes.mark_unchanged();
            match self.connect().await {
                Ok(reached) => {
                    delay = BACKOFF.0;
                    self.set_reachable(&reached).await;
                    self.watch(&reached).await;
                }
                Err(because) => {
                    self.set_unreachable(&because).await;
                    self.wait(delay).await;
                    delay = (delay * 2).min(BACKOFF.1);
                }
            }
        }
        self.write_conditions(Connectivity::NotProbed).await;
        self.shared.forget_cluster(&self.key);
    }

    /// Whether a pipeline uses the cluster; waits a moment for one.
    async fn is_needed(&mut self) -> bool {
        if !self.required_kinds.borrow_and_update().is_empty() {
            return true;
        }
        let wanted = self
            .required_kinds
            .wait_for(|required_kinds| !required_kinds.is_empty())
            .map(|it| it.is_ok());
        tokio::time::timeout(IDLE_TIME, wanted).await == Ok(true)
    }

    /// Waits before another attempt; a change of the GitopsCluster ends the wait.
    async fn wait(&mut self, delay: Duration) {
        let _ = tokio::time::timeout(self.shared.jittered(delay), self.changes.changed()).await;
    }

    fn object(&self) -> Option<Arc<GitopsCluster>> {
        match &self.key {
            ClusterKey::Hub => None,
            ClusterKey::Leaf(key) => self.shared.clusters.get(key),
        }
    }

    async fn connect(&self) -> Result<ReachedCluster, String> {
        if self.key == ClusterKey::Hub {
            return Ok(ReachedCluster {
                client: self.shared.hub.clone(),
                secret: String::new(),
            });
        }
        let cluster = self
            .object()
            .ok_or_else(|| "there is no such GitopsCluster".to_owned())?;
        let loaded = kubeconfig::read(&self.shared.hub, &cluster).await?;
        let connector = &self.shared.connector;
        let reached = ReachedCluster {
            client: connector(loaded.kubeconfig).await?,
            secret: loaded.version,
        };
        probe(&reached.client).await?;
        Ok(reached)
    }

    async fn set_reachable(&self, reached: &ReachedCluster) {
        self.shared
            .clients
            .write()
            .insert(self.key.clone(), reached.client.clone());
        if self.shared.apps.set_reachable(&self.key, None) {
            tracing::info!(cluster = %self.key, "connected to a cluster");
            self.shared.enqueue_cluster(&self.key);
        }
        self.shared.telemetry.answered(&self.key);
        self.write_conditions(Connectivity::Reachable).await;
    }

    async fn set_unreachable(&self, because: &str) {
        self.shared.clients.write().remove(&self.key);
        if self
            .shared
            .apps
            .set_reachable(&self.key, Some(because.to_owned()))
        {
            tracing::warn!(cluster = %self.key, because, "could not reach a cluster");
            self.shared.enqueue_cluster(&self.key);
        }
        self.write_conditions(Connectivity::Unreachable(because))
            .await;
    }

    /// Writes the conditions of the GitopsCluster.
    async fn write_conditions(&self, connectivity: Connectivity<'_>) {
        if let (true, Some(cluster)) = (self.shared.settings.probe_clusters, self.object()) {
            conditions::write(&self.shared, &cluster, connectivity).await;
        }
    }

    /// Watches what is needed until a new connection is necessary.
    async fn watch(&mut self, reached: &ReachedCluster) {
        let mut watches = AppWatches::default();
        let mut failed_probes = 0;
        let replaced = self.shared.settings.replacements.probe_interval;
        let mut probe_interval = tokio::time::interval(replaced.unwrap_or(PROBE_INTERVAL));
        probe_interval.tick().await;
        loop {
            let required_kinds = self.required_kinds.borrow_and_update().clone();
            watches.update_watches(self, &reached.client, required_kinds);
            tokio::select! {
                biased;
                _ = probe_interval.tick() => {
                    if !self.is_current(reached).await {
                        return;
                    }
                    failed_probes = self.probe_again(&reached.client, failed_probes).await;
                    if failed_probes >= FAILED_PROBES && self.key != ClusterKey::Hub {
                        return;
                    }
                }
                changed = self.required_kinds.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                _ = self.changes.changed() => {
                    if !self.is_current(reached).await {
                        return;
                    }
                }
            }
            if self.required_kinds.borrow().is_empty() && !self.is_needed().await {
                return;
            }
        }
    }

    /// Probes the cluster; returns how many probes in a row have failed now.
    async fn probe_again(&self, client: &Client, failed_probes: u32) -> u32 {
        match probe(client).await {
            Ok(()) => {
                self.shared.telemetry.answered(&self.key);
                0
            }
            Err(because) => {
                tracing::debug!(cluster = %self.key, because, "a probe failed");
                failed_probes + 1
            }
        }
    }

    /// Whether the client was created from the current credentials.
    async fn is_current(&self, reached: &ReachedCluster) -> bool {
        if self.key == ClusterKey::Hub {
            return true;
        }
        let Some(cluster) = self.object() else {
            return false;
        };
        match kubeconfig::version(&self.shared.hub, &cluster).await {
            Ok(version) => version == reached.secret,
            // The hub did not answer, which does not concern the leaf.
            Err(because) => !because.contains("does not exist"),
        }
    }
}

/// The watches of one connection; they end with it.
#[derive(Default)]
struct AppWatches {
    tasks: JoinSet<()>,
    kinds: HashMap<AppKind, (watch::Sender<RequiredNamespaces>, AbortHandle)>,
}

impl AppWatches {
    /// Starts and stops watches so that they are those that are required.
    fn update_watches(
        &mut self,
        of: &ConnectionTask,
        client: &Client,
        required_kinds: RequiredKinds,
    ) {
        let gone: Vec<AppKind> = self
            .kinds
            .keys()
            .filter(|kind| !required_kinds.contains_key(*kind))
            .cloned()
            .collect();
        for kind in gone {
            if let Some((_, task)) = self.kinds.remove(&kind) {
                task.abort();
            }
            of.shared.apps.forget_kind(&of.key, &kind);
        }
        for (kind, namespaces) in required_kinds {
            if let Some((sender, _)) = self.kinds.get(&kind) {
                sender.send_if_modified(|known| {
                    let has_changed = *known != namespaces;
                    *known = namespaces.clone();
                    has_changed
                });
                continue;
            }
            let (sender, receiver) = watch::channel(namespaces);
            let app_watch = AppWatch {
                shared: of.shared.clone(),
                cluster: of.key.clone(),
                kind: kind.clone(),
                client: client.clone(),
            };
            let task = self.tasks.spawn(app_watch.run(receiver));
            self.kinds.insert(kind, (sender, task));
        }
    }
}

/// Asks for the version, the smallest request that every API server answers.
async fn probe(client: &Client) -> Result<(), String> {
    match tokio::time::timeout(PROBE_TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(describe(&error)),
        Err(_) => Err(format!("no answer within {} s", PROBE_TIMEOUT.as_secs())),
    }
}

/// Whether a namespace exists; `None` if that is not known.
pub(crate) async fn has_namespace(client: &Client, namespace: &str) -> Option<bool> {
    use k8s_openapi::api::core::v1::Namespace;
    let namespaces: kube::Api<Namespace> = kube::Api::all(client.clone());
    let found = tokio::time::timeout(CALL_TIMEOUT, namespaces.get_metadata_opt(namespace)).await;
    found.ok()?.ok().map(|found| found.is_some())
}
