//! The caches of the hub that the server reads, shared with the reconcilers of the process.

use std::sync::Arc;

use api::{Change, CheckRun, Freeze, GitopsCluster, Pipeline, PipelineTrigger, Promotion};
use kube::{Client, runtime::watcher};
use runtime::{CacheConfig, ObjectCache, ObjectKey, cache::CachedKind};
use tokio_util::sync::CancellationToken;

/// One cache per kind. Clones share them.
#[derive(Clone)]
pub struct Caches {
    /// All Pipelines.
    pub pipelines: Arc<ObjectCache<Pipeline>>,
    /// All Promotions, with their pipelines as parents.
    pub promotions: Arc<ObjectCache<Promotion>>,
    /// All Changes. The content of their files is not needed.
    pub changes: Arc<ObjectCache<Change>>,
    /// All Freezes.
    pub freezes: Arc<ObjectCache<Freeze>>,
    /// All CheckRuns.
    pub check_runs: Arc<ObjectCache<CheckRun>>,
    /// All GitopsClusters.
    pub clusters: Arc<ObjectCache<GitopsCluster>>,
    /// All PipelineTriggers.
    pub triggers: Arc<ObjectCache<PipelineTrigger>>,
}

impl Caches {
    /// Caches for a process without reconcilers, fed in the background until `stop`.
    pub fn watched(client: &Client, namespace: Option<&str>, stop: &CancellationToken) -> Self {
        let caches = Self {
            pipelines: ObjectCache::new(CacheConfig::default()),
            promotions: ObjectCache::new(CacheConfig {
                parent: |promotion| Some(pipeline_of(promotion)),
                ..CacheConfig::default()
            }),
            changes: ObjectCache::new(CacheConfig {
                trim: |change| {
                    change.metadata.managed_fields = None;
                    change.spec.content = String::new();
                },
                ..CacheConfig::default()
            }),
            freezes: ObjectCache::new(CacheConfig::default()),
            check_runs: ObjectCache::new(CacheConfig::default()),
            clusters: ObjectCache::new(CacheConfig::default()),
            triggers: watched_triggers(client, namespace, stop),
        };
        feed(&caches.pipelines, client, namespace, stop);
        feed(&caches.promotions, client, namespace, stop);
        feed(&caches.changes, client, namespace, stop);
        feed(&caches.freezes, client, namespace, stop);
        feed(&caches.check_runs, client, namespace, stop);
        feed(&caches.clusters, client, namespace, stop);
        caches
    }
}

/// A cache of PipelineTriggers that only the server reads, fed in the background until `stop`.
pub fn watched_triggers(
    client: &Client,
    namespace: Option<&str>,
    stop: &CancellationToken,
) -> Arc<ObjectCache<PipelineTrigger>> {
    let triggers = ObjectCache::new(CacheConfig::default());
    feed(&triggers, client, namespace, stop);
    triggers
}

fn feed<K>(
    cache: &Arc<ObjectCache<K>>,
    client: &Client,
    namespace: Option<&str>,
    stop: &CancellationToken,
) where
    K: CachedKind,
{
    let (cache, client) = (cache.clone(), client.clone());
    let namespace = namespace.map(str::to_owned);
    let watching = async move {
        let config = watcher::Config::default();
        cache.watch(client, namespace.as_deref(), config).await;
    };
    runtime::spawn(stop.clone().run_until_cancelled_owned(watching));
}

/// The pipeline that a promotion belongs to.
pub(crate) fn pipeline_of(promotion: &Promotion) -> ObjectKey {
    let namespace = promotion.metadata.namespace.as_deref();
    ObjectKey::new(namespace.unwrap_or_default(), &promotion.spec.pipeline)
}
