//! The caches of our kinds on the hub: one watch per kind and process, shared by all reconcilers and by
//! the server, on every replica whether it leads or not.

use std::sync::Arc;

use api::{Change, CheckRun, Freeze, GitopsCluster, Pipeline, Promotion, change::ChangePhase};
use kube::{Client, runtime::watcher};
use runtime::{CacheConfig, LabelFilter, ObjectCache, ObjectKey, cache::CachedKind};
use tokio_util::task::AbortOnDropHandle;

use crate::Settings;

/// One cache per kind. Cloning shares them.
#[derive(Clone)]
pub struct Caches {
    /// All Pipelines.
    pub pipelines: Arc<ObjectCache<Pipeline>>,
    /// All Promotions, with their pipelines as parents.
    pub promotions: Arc<ObjectCache<Promotion>>,
    /// All Changes. Those that have ended are kept without the content of their file.
    pub changes: Arc<ObjectCache<Change>>,
    /// All Freezes.
    pub freezes: Arc<ObjectCache<Freeze>>,
    /// All CheckRuns, with their pipelines as parents.
    pub check_runs: Arc<ObjectCache<CheckRun>>,
    /// All GitopsClusters, of all namespaces.
    pub clusters: Arc<ObjectCache<GitopsCluster>>,
}

impl Caches {
    /// Empty caches that nothing feeds yet.
    #[expect(
        clippy::new_without_default,
        reason = "empty caches are no useful default"
    )]
    pub fn new() -> Self {
        Self {
            pipelines: ObjectCache::new(CacheConfig::default()),
            promotions: ObjectCache::new(CacheConfig {
                parent: |promotion| Some(pipeline_of(promotion)),
                ..CacheConfig::default()
            }),
            changes: ObjectCache::new(CacheConfig {
                trim: trim_change,
                keep_parsed: true,
                ..CacheConfig::default()
            }),
            freezes: ObjectCache::new(CacheConfig {
                keep_parsed: true,
                ..CacheConfig::default()
            }),
            check_runs: ObjectCache::new(CacheConfig {
                parent: |run| Some(pipeline_of_run(run)),
                ..CacheConfig::default()
            }),
            clusters: ObjectCache::new(CacheConfig {
                // Their managed fields tell who else writes their status.
                trim: |_| {},
                keep_parsed: true,
                ..CacheConfig::default()
            }),
        }
    }

    /// Caches that are fed in the background until the handle is dropped.
    pub fn watched(hub: &Client, settings: &Settings) -> (Self, AbortOnDropHandle<()>) {
        let caches = Self::new();
        let watching = caches.clone().watch(hub.clone(), settings);
        (caches, AbortOnDropHandle::new(runtime::spawn(watching)))
    }

    /// Feeds all caches until dropped; those of namespaced kinds from one namespace, if the settings
    /// name one.
    pub fn watch(self, hub: Client, settings: &Settings) -> impl Future<Output = ()> + use<> {
        let namespace = settings.namespace.clone();
        let of_freezes = settings.freeze_watch_namespace();
        async move {
            let namespace = namespace.as_deref();
            futures::join!(
                feed(&self.pipelines, &hub, namespace),
                feed(&self.promotions, &hub, namespace),
                feed(&self.changes, &hub, namespace),
                feed(&self.freezes, &hub, of_freezes.as_deref()),
                feed(&self.check_runs, &hub, namespace),
                feed(&self.clusters, &hub, None),
            );
        }
    }
}

/// Feeds a cache until dropped, from one namespace or all.
async fn feed<K: CachedKind>(cache: &ObjectCache<K>, hub: &Client, namespace: Option<&str>) {
    let config = watcher::Config::default();
    cache.watch(hub.clone(), namespace, config).await;
}

/// The content of the file is kept only while it may still be proposed.
fn trim_change(change: &mut Change) {
    change.metadata.managed_fields = None;
    let phase = change.status.as_ref().and_then(|status| status.phase);
    if matches!(phase, Some(ChangePhase::Merged | ChangePhase::Abandoned)) {
        change.spec.content = String::new();
    }
}

/// The pipeline a promotion belongs to.
pub(crate) fn pipeline_of(promotion: &Promotion) -> ObjectKey {
    let namespace = promotion.metadata.namespace.as_deref();
    ObjectKey::new(namespace.unwrap_or_default(), &promotion.spec.pipeline)
}

/// The pipeline a check run belongs to.
pub(crate) fn pipeline_of_run(run: &CheckRun) -> ObjectKey {
    let namespace = run.metadata.namespace.as_deref();
    ObjectKey::new(namespace.unwrap_or_default(), &run.spec.pipeline)
}

/// The pipelines that this process reconciles: all, or those with certain labels.
#[derive(Clone)]
pub(crate) struct PipelineShard {
    cache: Arc<ObjectCache<Pipeline>>,
    /// None where all are; an error where the selector cannot be parsed, so that none are.
    filter: Option<Result<LabelFilter, ()>>,
}

impl PipelineShard {
    pub(crate) fn new(caches: &Caches, label_selector: Option<&str>) -> Self {
        let filter = label_selector.map(|text| {
            LabelFilter::parse(text).map_err(|error| {
                tracing::error!(selector = text, %error, "no pipeline is reconciled: cannot parse the label selector");
            })
        });
        Self {
            cache: caches.pipelines.clone(),
            filter,
        }
    }

    /// Whether this process reconciles a pipeline.
    pub(crate) fn includes(&self, pipeline: &Pipeline) -> bool {
        match &self.filter {
            None => true,
            Some(Ok(filter)) => filter.matches(pipeline.metadata.labels.as_ref()),
            Some(Err(())) => false,
        }
    }

    /// One pipeline.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Pipeline>> {
        self.cache
            .get(key)
            .filter(|pipeline| self.includes(pipeline))
    }

    /// Whether there is such a pipeline.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        match self.filter {
            None => self.cache.contains(key),
            Some(_) => self.get(key).is_some(),
        }
    }

    /// The keys of all pipelines of this process.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        let mut keys = self.cache.keys();
        if self.filter.is_some() {
            keys.retain(|key| self.contains(key));
        }
        keys
    }
}

/// The promotions of a pipeline, by name.
pub(crate) fn promotions_of(caches: &Caches, pipeline: &ObjectKey) -> Vec<Promotion> {
    let promotions = caches.promotions.children(pipeline);
    promotions.into_iter().map(Arc::unwrap_or_clone).collect()
}
