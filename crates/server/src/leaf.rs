//! What is on the clusters, read when somebody asks.
//!
//! Nothing is ever written, and of Secrets and ConfigMaps nothing but their names is known. A look is
//! bounded in time and in how much it reads, few go on at once, and what was seen is told again for a
//! few seconds. What cannot be read is said where it is missing.

pub mod apps;
mod kinds;
mod shortly;
pub mod tree;

use std::{fmt, sync::Arc, time::Duration};

use api::{GitopsCluster, conditions};
use futures::future::BoxFuture;
use kube::Client;
use tokio::{sync::Semaphore, time::timeout};

use crate::watched::ObjectKey;
use apps::Apps;
use shortly::Shortly;
use tree::{App, Node};

/// How long a look at a cluster may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How many clusters are looked at at once, for one app and as a whole.
const AT_ONCE: usize = 16;
/// How long what was seen of an app is told again.
const TREE_HOLDS: Duration = Duration::from_secs(5);
/// The same of a whole cluster.
const APPS_HOLD: Duration = Duration::from_secs(15);

/// How a client for a cluster other than the hub is got; or why there is none.
#[derive(Clone)]
pub struct Reach(Arc<Connect>);

type Connect =
    dyn Fn(Arc<GitopsCluster>) -> BoxFuture<'static, Result<Client, String>> + Send + Sync;

impl Reach {
    /// Gets clients by a function.
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

/// No cluster but the hub.
impl Default for Reach {
    fn default() -> Self {
        Self::new(|_| {
            let because = "this process was not told how to reach other clusters";
            Box::pin(async move { Err(because.to_owned()) })
        })
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("Reach")
    }
}

/// A cluster: that of a GitopsCluster, or the hub.
pub(crate) type Place = Option<Arc<GitopsCluster>>;
/// How clusters are told apart.
type Key = Option<ObjectKey>;
/// What was seen, or why nothing.
pub(crate) type Seen<T> = Result<Arc<T>, String>;

/// All clusters.
pub(crate) struct Leaves {
    hub: Client,
    reach: Reach,
    trees: Shortly<(Key, App), Seen<Node>>,
    apps: Shortly<Key, Seen<Apps>>,
    /// Whoever waits for whole clusters keeps nobody from a look at one app.
    seats: [Semaphore; 2],
}

impl Leaves {
    pub(crate) fn new(hub: Client, reach: Reach) -> Self {
        Self {
            hub,
            reach,
            trees: Shortly::new(TREE_HOLDS),
            apps: Shortly::new(APPS_HOLD),
            seats: [AT_ONCE; 2].map(Semaphore::new),
        }
    }

    /// An app with what it comes from and what it is made of.
    pub(crate) async fn tree(&self, cluster: &Place, app: App) -> Seen<Node> {
        let key = (key(cluster), app.clone());
        let read = async |client: Client| tree::read(&client, &app).await;
        let look = self.look(cluster, &self.seats[0], read);
        self.trees.get(key, look).await
    }

    /// Every app on a cluster.
    pub(crate) async fn apps(&self, cluster: &Place) -> Seen<Apps> {
        let read = async |client: Client| apps::read(&client).await;
        let look = self.look(cluster, &self.seats[1], read);
        self.apps.get(key(cluster), look).await
    }

    async fn look<T>(
        &self,
        cluster: &Place,
        seats: &Semaphore,
        read: impl AsyncFnOnce(Client) -> T,
    ) -> Seen<T> {
        let _seat = seats.acquire().await.map_err(|it| it.to_string())?;
        let looking = async {
            let client = self.client(cluster).await?;
            Ok(Arc::new(read(client).await))
        };
        let seen = timeout(WITHIN, looking).await;
        seen.unwrap_or_else(|_| Err(format!("it does not answer within {} s", WITHIN.as_secs())))
    }

    async fn client(&self, cluster: &Place) -> Result<Client, String> {
        let Some(cluster) = cluster else {
            return Ok(self.hub.clone());
        };
        if let Some(because) = not_ready(cluster) {
            return Err(because);
        }
        (self.reach.0)(cluster.clone()).await
    }
}

fn key(cluster: &Place) -> Key {
    cluster.as_ref().map(|cluster| ObjectKey::of(&**cluster))
}

/// What is said about a cluster that is known not to be ready.
fn not_ready(cluster: &GitopsCluster) -> Option<String> {
    let status = cluster.status.as_ref()?;
    let ready = conditions::find(&status.conditions, conditions::READY)?;
    (ready.status == "False").then(|| format!("the cluster is not ready: {}", ready.message))
}

/// Why something could not be read, in a clause.
fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => "reading is not allowed".to_owned(),
        kube::Error::Api(status) if status.code == 401 => {
            "the cluster does not accept our credentials".to_owned()
        }
        kube::Error::Api(status) => short(&status.message),
        // What the parser says may repeat what was answered, by whatever is there.
        kube::Error::SerdeError(_) => "the answer is not one of a Kubernetes API server".to_owned(),
        error => short(&format!("it does not answer: {error}")),
    }
}

/// A text that fits into a page.
fn short(text: &str) -> String {
    const LONGEST: usize = 300;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
