//! Reads apps and their objects from clusters on request.
//!
//! Nothing is ever written to a cluster, and of Secrets and ConfigMaps only the names are read. Each
//! read is bounded in time and size, few run at once, and results are cached for some seconds. What
//! could not be read is reported in the result.

pub mod apps;
mod kinds;
pub mod tree;
use std::{fmt, sync::Arc, time::Duration};

use api::{GitopsCluster, conditions};
use futures::future::BoxFuture;
use kube::Client;
use runtime::{ObjectKey, TtlCache};
use tokio::{sync::Semaphore, time::timeout};

use apps::DeployedApps;
use tree::{AppOnCluster, Node};

/// How long reading a cluster may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How many clusters are read at once: for single apps, and for all apps.
const CONCURRENT_READS: usize = 16;
/// How long the objects of an app are cached.
const TREE_TTL: Duration = Duration::from_secs(5);
/// How many trees, and how many clusters, are cached.
const MAX_CACHED: usize = 1_000;
/// How long the apps of a cluster are cached.
const APPS_TTL: Duration = Duration::from_secs(15);

/// Connects to leaf clusters: gives a client, or why there is none.
#[derive(Clone)]
pub struct LeafConnector(Arc<ConnectFunction>);

type ConnectFunction =
    dyn Fn(Arc<GitopsCluster>) -> BoxFuture<'static, Result<Client, String>> + Send + Sync;

impl LeafConnector {
    /// Connects with a function.
    pub fn new<F>(connect: F) -> Self
    where
        F: Fn(Arc<GitopsCluster>) -> BoxFuture<'static, Result<Client, String>>
            + Send
            + Sync
            + 'static,
    {
        Self(Arc::new(connect))
    }
}

/// Connects to nothing but the hub.
impl Default for LeafConnector {
    fn default() -> Self {
        Self::new(|_| {
            let because = "this process cannot connect to other clusters";
            Box::pin(async move { Err(because.to_owned()) })
        })
    }
}

impl fmt::Debug for LeafConnector {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("LeafConnector")
    }
}

/// A cluster: that of a GitopsCluster, or the hub if nothing.
pub(crate) type ClusterOrHub = Option<Arc<GitopsCluster>>;
/// The key of a GitopsCluster; nothing for the hub.
type ClusterKey = Option<ObjectKey>;
/// What was read, or why nothing was.
pub(crate) type LeafResult<T> = Result<Arc<T>, String>;

/// Reads and caches what is on the clusters.
pub(crate) struct LeafReader {
    hub: Client,
    connector: LeafConnector,
    trees: TtlCache<(ClusterKey, AppOnCluster), LeafResult<Node>>,
    apps: TtlCache<ClusterKey, LeafResult<DeployedApps>>,
    /// Separate from `apps_permits`, so that reading whole clusters does not delay single apps.
    tree_permits: Semaphore,
    apps_permits: Semaphore,
}

impl LeafReader {
    pub(crate) fn new(hub: Client, connector: LeafConnector) -> Self {
        Self {
            hub,
            connector,
            trees: TtlCache::new(TREE_TTL, MAX_CACHED),
            apps: TtlCache::new(APPS_TTL, MAX_CACHED),
            tree_permits: Semaphore::new(CONCURRENT_READS),
            apps_permits: Semaphore::new(CONCURRENT_READS),
        }
    }

    /// The tree of an app: its source, its inventory, workloads and pods.
    pub(crate) async fn tree(&self, cluster: &ClusterOrHub, app: AppOnCluster) -> LeafResult<Node> {
        let key = (key(cluster), app.clone());
        let read = async |client: Client| tree::read(&client, &app).await;
        let lookup = self.read_cluster(cluster, &self.tree_permits, read);
        self.trees.get_with(key, lookup).await
    }

    /// All apps on a cluster.
    pub(crate) async fn apps(&self, cluster: &ClusterOrHub) -> LeafResult<DeployedApps> {
        let read = async |client: Client| apps::read(&client).await;
        let lookup = self.read_cluster(cluster, &self.apps_permits, read);
        self.apps.get_with(key(cluster), lookup).await
    }

    async fn read_cluster<T>(
        &self,
        cluster: &ClusterOrHub,
        permits: &Semaphore,
        read: impl AsyncFnOnce(Client) -> T,
    ) -> LeafResult<T> {
        let _permit = permits.acquire().await.map_err(|it| it.to_string())?;
        let reading = async {
            let client = self.client(cluster).await?;
            Ok(Arc::new(read(client).await))
        };
        let read = timeout(READ_TIMEOUT, reading).await;
        read.unwrap_or_else(|_| {
            let seconds = READ_TIMEOUT.as_secs();
            Err(format!("the cluster did not answer within {seconds} s"))
        })
    }

    async fn client(&self, cluster: &ClusterOrHub) -> Result<Client, String> {
        let Some(cluster) = cluster else {
            return Ok(self.hub.clone());
        };
        if let Some(because) = not_ready_message(cluster) {
            return Err(because);
        }
        (self.connector.0)(cluster.clone()).await
    }
}

fn key(cluster: &ClusterOrHub) -> ClusterKey {
    cluster
        .as_ref()
        .map(|cluster| ObjectKey::of(&cluster.metadata))
}

/// The message of a cluster whose status says that it is not ready.
fn not_ready_message(cluster: &GitopsCluster) -> Option<String> {
    let status = cluster.status.as_ref()?;
    let ready = conditions::find(&status.conditions, conditions::READY)?;
    (ready.status == "False").then(|| format!("the cluster is not ready: {}", ready.message))
}

/// Why something could not be read, for people.
pub(crate) fn read_error_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => "reading is not allowed".to_owned(),
        kube::Error::Api(status) if status.code == 401 => {
            "the cluster does not accept our credentials".to_owned()
        }
        kube::Error::Api(status) => shortened(&status.message),
        // The parser's error may quote the answer, whoever sent it.
        kube::Error::SerdeError(_) => {
            "the answer is not that of a Kubernetes API server".to_owned()
        }
        error => shortened(&format!("the cluster does not answer: {error}")),
    }
}

/// The text, cut to a length that fits into a page.
pub(crate) fn shortened(text: &str) -> String {
    const MAX_CHARACTERS: usize = 300;
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
