//! The adoption reconciler: keeps a Pipeline equal to each Pipeline of the API group
//! `pipelines.wego.weave.works`, and copies its status back.
//!
//! `planner::adopt` decides what is to be written. Where that group is not installed, the reconciler
//! waits for it; nothing else depends on it.

mod write;

use std::{ops::Deref, sync::Arc, time::Duration};

use api::{Pipeline, WegoPipeline};
use kube::{Api, Client, Resource, api::ListParams, runtime::watcher};
use runtime::{
    CacheConfig, CacheEvent, LeaderGuard, ObjectCache, ObjectKey, RequeueAction, Subscription,
    Workers, status::StatusError,
};
use tokio::task::JoinSet;

use crate::{
    Context, Settings,
    controllers::ControllerError,
    reconciler_base::{ReconcilerBase, enqueue_all},
};

/// Under this name the adoption reconciler reads the caches and its metrics.
const NAME: &str = "adoption";
/// How long an object waits after a failed write.
const RETRY: Duration = Duration::from_secs(5);
/// How often a name that is taken is checked again.
const NAME_AGAIN: Duration = Duration::from_secs(10);
/// How often it is checked whether the group is installed.
const GROUP_AGAIN: Duration = Duration::from_secs(30);

/// Runs the reconciler as part of the process, until it is told to stop.
pub(crate) async fn serve(context: Context) -> Result<(), ControllerError> {
    let reconciler = AdoptionReconciler::with(ReconcilerBase::of(&context));
    tokio::select! {
        biased;
        () = run(reconciler) => Ok(()),
        () = context.stop.cancelled() => Ok(()),
    }
}

/// Runs the reconciler until dropped.
pub async fn run(reconciler: Arc<AdoptionReconciler>) {
    reconciler.until_served().await;
    let mut tasks = JoinSet::new();
    tasks.spawn(reconciler.feed_caches());
    tasks.spawn(watch_originals(reconciler.clone()));
    tasks.spawn(reconcile_all(reconciler));
    tasks.join_all().await;
}

async fn watch_originals(reconciler: Arc<AdoptionReconciler>) {
    let mut config = watcher::Config::default();
    if let Some(labels) = &reconciler.settings.label_selector {
        config = config.labels(labels);
    }
    let (hub, namespace) = (
        reconciler.hub.clone(),
        reconciler.settings.namespace.as_deref(),
    );
    reconciler.originals.watch(hub, namespace, config).await;
}

/// Reconciles every original, and again whenever it or its copy changes.
async fn reconcile_all(reconciler: Arc<AdoptionReconciler>) {
    reconciler.originals.synced().await;
    let _subscriptions = reconciler.subscribe();
    let workers = reconciler.workers.clone();
    let reconcile = move |key: ObjectKey| {
        let reconciler = reconciler.clone();
        async move { reconcile_key(&reconciler, &key).await }
    };
    workers.run(reconcile).await;
}

/// Keeps Pipelines equal to those of the other group.
pub struct AdoptionReconciler {
    base: ReconcilerBase,
    originals: Arc<ObjectCache<WegoPipeline>>,
    workers: Arc<Workers<ObjectKey>>,
}

impl Deref for AdoptionReconciler {
    type Target = ReconcilerBase;

    fn deref(&self) -> &ReconcilerBase {
        &self.base
    }
}

impl AdoptionReconciler {
    /// A reconciler on its own, with caches and metrics of its own.
    pub fn new(hub: Client, settings: Settings) -> Arc<Self> {
        let leader = LeaderGuard::without_election();
        Self::with(ReconcilerBase::alone(hub, settings, leader))
    }

    fn with(base: ReconcilerBase) -> Arc<Self> {
        Arc::new(Self {
            workers: base.telemetry.workers(NAME, 1),
            originals: ObjectCache::new(CacheConfig {
                keep_parsed: true,
                ..CacheConfig::default()
            }),
            base,
        })
    }

    /// Every object of a kind that this process reconciles.
    fn api<K: Resource<Scope = kube::core::NamespaceResourceScope>>(&self) -> Api<K>
    where
        K::DynamicType: Default,
    {
        match &self.settings.namespace {
            Some(namespace) => Api::namespaced(self.hub.clone(), namespace),
            None => Api::all(self.hub.clone()),
        }
    }

    /// Returns once the group is installed and may be read.
    async fn until_served(&self) {
        let originals: Api<WegoPipeline> = self.api();
        let mut is_logged = false;
        loop {
            let parameters = ListParams::default().limit(1);
            let Err(error) = originals.list_metadata(&parameters).await else {
                return;
            };
            if !is_logged {
                let group = WegoPipeline::group(&());
                tracing::info!(%group, %error, "Pipelines of the group are not adopted: not installed, or forbidden");
                is_logged = true;
            }
            tokio::time::sleep(GROUP_AGAIN).await;
        }
    }

    /// Enqueues originals as they or their copies change, until the subscriptions are dropped.
    fn subscribe(self: &Arc<Self>) -> [Subscription; 2] {
        let originals = enqueue_all(&self.originals, NAME, &self.workers, |_| {});
        let this = self.clone();
        let copies = self.caches.pipelines.subscribe(NAME, move |event| {
            let (CacheEvent::Applied { key, .. } | CacheEvent::Deleted { key, .. }) = event;
            if this.originals.contains(key) {
                this.workers.enqueue(key.clone());
            }
        });
        [originals, copies]
    }
}

async fn reconcile_key(reconciler: &AdoptionReconciler, key: &ObjectKey) -> RequeueAction {
    match reconcile_copy(reconciler, key).await {
        Ok(None) => RequeueAction::AwaitChange,
        Ok(Some(delay)) => RequeueAction::After(delay),
        Err(error) => {
            tracing::warn!(pipeline = %key, %error, "could not adopt the Pipeline");
            RequeueAction::RetryError(RETRY)
        }
    }
}

/// Makes one original and its copy equal; returns when to reconcile them again.
async fn reconcile_copy(
    reconciler: &AdoptionReconciler,
    key: &ObjectKey,
) -> Result<Option<Duration>, StatusError> {
    let original = reconciler.originals.get(key);
    let Some(original) = original.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return Ok(None);
    };
    let copies: Api<Pipeline> = Api::namespaced(reconciler.hub.clone(), &key.namespace);
    let found = copies.get_opt(&key.name).await?;
    if found
        .as_ref()
        .is_some_and(|it| it.metadata.deletion_timestamp.is_some())
    {
        return Ok(Some(RETRY));
    }
    let adoption = planner::adopt(&original, found.as_ref(), reconciler.clock.now());
    if let Some(wishes) = &adoption.edits {
        // Its new state is enqueued.
        return write::wishes(reconciler, &original, wishes)
            .await
            .map(|()| None);
    }
    if let Some(copy) = &adoption.copy {
        write::copy(reconciler, found.as_ref(), copy).await?;
    }
    write::status(reconciler, &original, &adoption).await?;
    Ok(adoption.is_name_taken().then_some(NAME_AGAIN))
}
