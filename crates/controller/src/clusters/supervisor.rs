//! Keeps one connection to one cluster for as long as somebody needs it.
//!
//! It connects, follows the kinds that are needed, notices rotated credentials and clusters that
//! go away or come back, and starts over by itself whenever something ends.

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
    kubeconfig, told,
};
use crate::{
    Shared,
    apps::feed::Feed,
    index::{Demand, Namespaces},
    keys::{AppKind, ClusterKey},
};

/// How often a connection is looked after.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long a cluster is kept after the last pipeline stopped needing it.
const LINGER: Duration = Duration::from_secs(30);
/// How long until another attempt to connect, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// A probe is short: a cluster that does not answer within this is as good as gone.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// So many probes in a row must fail before an established connection counts as lost.
const STRIKES: u32 = 2;

/// What is to be kept up on one cluster.
pub(crate) struct Handle {
    demand: watch::Sender<Demand>,
    /// Rises when the GitopsCluster changed.
    changes: watch::Sender<u64>,
    task: AbortHandle,
    since: Instant,
}

impl Handle {
    /// Starts a supervisor.
    pub(crate) fn spawn(shared: &Arc<Shared>, key: ClusterKey, demand: Demand) -> Self {
        let (demand_sender, demand) = watch::channel(demand);
        let (changes_sender, changes) = watch::channel(0);
        let supervisor = Supervisor {
            shared: shared.clone(),
            key,
            demand,
            changes,
        };
        let task = tokio::spawn(supervisor.run());
        Self {
            demand: demand_sender,
            changes: changes_sender,
            task: task.abort_handle(),
            since: Instant::now(),
        }
    }

    /// Since when the cluster is supervised.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Says what is needed now. `false` if the supervisor has ended: start another.
    pub(crate) fn set_demand(&self, demand: Demand) -> bool {
        self.demand.send_replace(demand);
        !self.task.is_finished() && self.demand.receiver_count() > 0
    }

    /// Says that the GitopsCluster changed.
    pub(crate) fn cluster_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Supervisor {
    shared: Arc<Shared>,
    key: ClusterKey,
    demand: watch::Receiver<Demand>,
    changes: watch::Receiver<u64>,
}

/// A connection that answered.
struct Connection {
    /// Speaks HTTP/1.1, where a watch has a connection to itself.
    client: Client,
    /// The version of the Secret it was made from.
    secret: String,
}

impl Supervisor {
    async fn run(mut self) {
        let mut delay = RETRY.0;
        while self.is_needed().await {
            self.changes.mark_unchanged();
            match self.connect().await {
                Ok(connection) => {
                    delay = RETRY.0;
                    self.reached(&connection).await;
                    self.keep(&connection).await;
                }
                Err(because) => {
                    self.lost(&because).await;
                    self.wait(delay).await;
                    delay = (delay * 2).min(RETRY.1);
                }
            }
        }
        self.tell(Connectivity::NotProbed).await;
        self.shared.forget_cluster(&self.key);
    }

    /// Whether anybody needs the cluster, after some patience.
    async fn is_needed(&mut self) -> bool {
        if !self.demand.borrow_and_update().is_empty() {
            return true;
        }
        let wanted = self
            .demand
            .wait_for(|demand| !demand.is_empty())
            .map(|it| it.is_ok());
        tokio::time::timeout(LINGER, wanted).await == Ok(true)
    }

    /// Waits before another attempt; a changed GitopsCluster ends the wait.
    async fn wait(&mut self, delay: Duration) {
        let _ = tokio::time::timeout(self.shared.jittered(delay), self.changes.changed()).await;
    }

    fn object(&self) -> Option<Arc<GitopsCluster>> {
        match &self.key {
            ClusterKey::Hub => None,
            ClusterKey::Leaf(key) => self.shared.clusters.get(key),
        }
    }

    async fn connect(&self) -> Result<Connection, String> {
        if self.key == ClusterKey::Hub {
            return Ok(Connection {
                client: self.shared.hub.clone(),
                secret: String::new(),
            });
        }
        let cluster = self
            .object()
            .ok_or_else(|| "there is no such GitopsCluster".to_owned())?;
        let found = kubeconfig::read(&self.shared.hub, &cluster).await?;
        let connector = &self.shared.connector;
        let connection = Connection {
            client: connector(found.kubeconfig).await?,
            secret: found.version,
        };
        probe(&connection.client).await?;
        Ok(connection)
    }

    async fn reached(&self, connection: &Connection) {
        self.shared
            .clients
            .write()
            .insert(self.key.clone(), connection.client.clone());
        if self.shared.apps.set_reachable(&self.key, None) {
            tracing::info!(cluster = %self.key, "connected");
            self.shared.wake_cluster(&self.key);
        }
        self.shared.telemetry.answered(&self.key);
        self.tell(Connectivity::Reachable).await;
    }

    async fn lost(&self, because: &str) {
        self.shared.clients.write().remove(&self.key);
        if self
            .shared
            .apps
            .set_reachable(&self.key, Some(because.to_owned()))
        {
            tracing::warn!(cluster = %self.key, because, "cannot be reached");
            self.shared.wake_cluster(&self.key);
        }
        self.tell(Connectivity::Unreachable(because)).await;
    }

    /// Tells the GitopsCluster about it.
    async fn tell(&self, connectivity: Connectivity<'_>) {
        if let (true, Some(cluster)) = (self.shared.settings.probe_clusters, self.object()) {
            conditions::write(&self.shared, &cluster, connectivity).await;
        }
    }

    /// Follows what is needed until the connection has to be made anew.
    async fn keep(&mut self, connection: &Connection) {
        let mut feeds = Feeds::default();
        let mut strikes = 0;
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.tick().await;
        loop {
            let demand = self.demand.borrow_and_update().clone();
            feeds.match_demand(self, connection, demand);
            tokio::select! {
                _ = look.tick() => {
                    if !self.is_current(connection).await {
                        return;
                    }
                    strikes = match probe(&connection.client).await {
                        Ok(()) => {
                            self.shared.telemetry.answered(&self.key);
                            0
                        }
                        Err(because) => {
                            tracing::debug!(cluster = %self.key, because, "probe failed");
                            strikes + 1
                        }
                    };
                    if strikes >= STRIKES && self.key != ClusterKey::Hub {
                        return;
                    }
                }
                changed = self.demand.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                _ = self.changes.changed() => {
                    if !self.is_current(connection).await {
                        return;
                    }
                }
            }
            if self.demand.borrow().is_empty() && !self.is_needed().await {
                return;
            }
        }
    }

    /// Whether the connection was made from the credentials that are valid now.
    async fn is_current(&self, connection: &Connection) -> bool {
        if self.key == ClusterKey::Hub {
            return true;
        }
        let Some(cluster) = self.object() else {
            return false;
        };
        match kubeconfig::version(&self.shared.hub, &cluster).await {
            Ok(version) => version == connection.secret,
            // A hub that does not answer says nothing about the leaf.
            Err(because) => !because.contains("does not exist"),
        }
    }
}

/// The feeds of one connection; they end with it.
#[derive(Default)]
struct Feeds {
    tasks: JoinSet<()>,
    kinds: HashMap<AppKind, (watch::Sender<Namespaces>, AbortHandle)>,
}

impl Feeds {
    fn match_demand(&mut self, of: &Supervisor, connection: &Connection, demand: Demand) {
        let gone: Vec<AppKind> = self
            .kinds
            .keys()
            .filter(|kind| !demand.contains_key(*kind))
            .cloned()
            .collect();
        for kind in gone {
            if let Some((_, task)) = self.kinds.remove(&kind) {
                task.abort();
            }
            of.shared.apps.forget_kind(&of.key, &kind);
        }
        for (kind, namespaces) in demand {
            if let Some((sender, _)) = self.kinds.get(&kind) {
                sender.send_if_modified(|known| {
                    let is_news = *known != namespaces;
                    *known = namespaces.clone();
                    is_news
                });
                continue;
            }
            let (sender, receiver) = watch::channel(namespaces);
            let feed = Feed {
                shared: of.shared.clone(),
                cluster: of.key.clone(),
                kind: kind.clone(),
                client: connection.client.clone(),
            };
            let task = self.tasks.spawn(feed.run(receiver));
            self.kinds.insert(kind, (sender, task));
        }
    }
}

/// Asks for the version: the smallest thing every API server answers.
async fn probe(client: &Client) -> Result<(), String> {
    match tokio::time::timeout(PROBE_TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err(format!("no answer within {} s", PROBE_TIMEOUT.as_secs())),
    }
}

/// Whether a namespace exists; `None` if that cannot be told.
pub(crate) async fn has_namespace(client: &Client, namespace: &str) -> Option<bool> {
    use k8s_openapi::api::core::v1::Namespace;
    let namespaces: kube::Api<Namespace> = kube::Api::all(client.clone());
    let found = tokio::time::timeout(CALL_TIMEOUT, namespaces.get_metadata_opt(namespace)).await;
    found.ok()?.ok().map(|found| found.is_some())
}
