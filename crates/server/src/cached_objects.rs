//! What handlers read from the caches of the hub.
//!
//! A handler never sees a state older than what this process wrote. Whoever follows a pipeline is
//! woken by every change of it, of its promotions and of triggers in its namespace. What concerns all
//! pipelines at once is computed per pipeline when it changes, not per request.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use api::{Change, CheckRun, Freeze, GitopsCluster, Pipeline, PipelineTrigger, Promotion};
use kube::Client;
use parking_lot::Mutex;
use planner::PromotedApp;
use runtime::{
    ObjectCache, ObjectKey,
    cache::{CacheEvent, CacheIndex, CachedKind, Subscription},
};
use tokio::sync::watch;

use crate::{
    caches::{Caches, pipeline_of},
    get_object::get_object,
    hooks::InputsAccess,
    target_objects::cluster_key_of,
    view::is_awaiting_approval,
};

/// The name under which this server writes to caches.
const WRITER: &str = "server";

/// By cluster: how many targets it has, and how many of them are ready.
pub(crate) type TargetCounts = HashMap<ObjectKey, (usize, usize)>;

pub(crate) struct CachedObjects {
    client: Client,
    namespace: Option<String>,
    caches: Caches,
    notifier: Arc<Notifier>,
    awaiting_approval: CacheIndex<Arc<Promotion>>,
    inputs_access: CacheIndex<Arc<InputsAccess>>,
    /// Created when it is first asked for: without a dashboard nobody does.
    target_counts: OnceLock<CacheIndex<TargetCounts>>,
    promoted_apps: OnceLock<CacheIndex<Vec<PromotedApp>>>,
    _subscriptions: [Subscription; 7],
}

impl CachedObjects {
    /// Only objects in `namespace` are returned, if it is given.
    pub(crate) fn new(client: Client, caches: Caches, namespace: Option<String>) -> Self {
        let notifier = Arc::new(Notifier::default());
        let awaiting_approval = CacheIndex::new(&caches.promotions, |promotion| {
            is_awaiting_approval(promotion).then(|| Arc::new(promotion.clone()))
        });
        let inputs_access = CacheIndex::new(&caches.pipelines, |pipeline| {
            InputsAccess::of(pipeline).map(Arc::new)
        });
        Self {
            _subscriptions: [
                notify(&caches.pipelines, &notifier, |_, key| key.clone()),
                notify(&caches.promotions, &notifier, |it, _| pipeline_of(it)),
                notify(&caches.changes, &notifier, |_, key| key.clone()),
                notify(&caches.freezes, &notifier, |_, key| key.clone()),
                notify(&caches.check_runs, &notifier, |_, key| key.clone()),
                notify(&caches.clusters, &notifier, |_, key| key.clone()),
                // A trigger may feed any pipeline of its namespace.
                notify(&caches.triggers, &notifier, |_, key| {
                    ObjectKey::new(&key.namespace, "")
                }),
            ],
            client,
            namespace,
            caches,
            notifier,
            awaiting_approval,
            inputs_access,
            target_counts: OnceLock::new(),
            promoted_apps: OnceLock::new(),
        }
    }

    /// A pipeline from the cache, else from the API server.
    pub(crate) async fn pipeline(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Pipeline>>, kube::Error> {
        match self.cached_pipeline(key) {
            Some(cached) => Ok(Some(cached)),
            None => self.newest_pipeline(key).await,
        }
    }

    pub(crate) fn cached_pipeline(&self, key: &ObjectKey) -> Option<Arc<Pipeline>> {
        self.caches.pipelines.get(key)
    }

    pub(crate) fn has_pipeline(&self, key: &ObjectKey) -> bool {
        self.caches.pipelines.contains(key)
    }

    /// A pipeline from the API server.
    pub(crate) async fn newest_pipeline(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Pipeline>>, kube::Error> {
        if !self.is_included(&key.namespace) {
            return Ok(None);
        }
        let found: Option<Pipeline> = get_object(&self.client, key).await?;
        let Some(pipeline) = found else {
            return Ok(None);
        };
        let pipelines = &self.caches.pipelines;
        let newer = match pipelines.wrote(WRITER, pipeline.clone()) {
            true => None,
            false => pipelines.get(key),
        };
        Ok(Some(newer.unwrap_or_else(|| Arc::new(pipeline))))
    }

    /// The keys of all pipelines.
    pub(crate) fn pipeline_keys(&self) -> Vec<ObjectKey> {
        self.caches.pipelines.keys()
    }

    pub(crate) fn pipelines(&self) -> &Arc<ObjectCache<Pipeline>> {
        &self.caches.pipelines
    }

    pub(crate) fn promotion(&self, namespace: &str, name: &str) -> Option<Arc<Promotion>> {
        self.caches.promotions.get(&ObjectKey::new(namespace, name))
    }

    /// The promotions of a pipeline, by name.
    pub(crate) fn promotions_of(&self, pipeline: &ObjectKey) -> Vec<Arc<Promotion>> {
        self.caches.promotions.children(pipeline)
    }

    /// Who may ask for the inputs of a pipeline, if it publishes some.
    pub(crate) fn inputs_access(&self, key: &ObjectKey) -> Option<Arc<InputsAccess>> {
        self.inputs_access.get(key)
    }

    /// The promotions that await approval.
    pub(crate) fn awaiting_approval(&self) -> Vec<Arc<Promotion>> {
        let mut promotions = Vec::new();
        self.awaiting_approval
            .for_each(|_, promotion| promotions.push(promotion.clone()));
        promotions
    }

    pub(crate) fn clusters(&self) -> Vec<Arc<GitopsCluster>> {
        let mut clusters = self.caches.clusters.all();
        clusters.retain(|it| self.is_included(&ObjectKey::of(&it.metadata).namespace));
        clusters
    }

    pub(crate) fn cluster(&self, key: &ObjectKey) -> Option<Arc<GitopsCluster>> {
        let is_included = self.is_included(&key.namespace);
        self.caches.clusters.get(key).filter(|_| is_included)
    }

    /// How many targets are on each cluster.
    pub(crate) fn target_counts(&self) -> TargetCounts {
        let index = self.target_counts.get_or_init(|| {
            CacheIndex::new(&self.caches.pipelines, |pipeline| {
                Some(targets_by_cluster(pipeline))
            })
        });
        let mut total = TargetCounts::new();
        index.for_each(|_, of_pipeline| {
            for (cluster, (count, ready)) in of_pipeline {
                let total = total.entry(cluster.clone()).or_default();
                total.0 += count;
                total.1 += ready;
            }
        });
        total
    }

    /// The other pipelines that promote an app of these, by name, with what they promote.
    pub(crate) fn promoters_of(
        &self,
        key: &ObjectKey,
        own: &[PromotedApp],
    ) -> BTreeMap<ObjectKey, Vec<PromotedApp>> {
        let index = self.promoted_apps.get_or_init(|| {
            CacheIndex::new(&self.caches.pipelines, |pipeline| {
                Some(planner::promoted_apps(pipeline)).filter(|it| !it.is_empty())
            })
        });
        let own: HashSet<&str> = own.iter().map(PromotedApp::address).collect();
        let mut found = BTreeMap::new();
        index.for_each(|other, apps| {
            let is_shared = apps.iter().any(|app| own.contains(app.address()));
            if is_shared && other != key {
                found.insert(other.clone(), apps.clone());
            }
        });
        found
    }

    pub(crate) fn freezes(&self) -> Vec<Arc<Freeze>> {
        let mut freezes = self.caches.freezes.all();
        freezes.retain(|it| self.is_included(&ObjectKey::of(&it.metadata).namespace));
        freezes
    }

    pub(crate) fn check_runs(&self) -> Vec<Arc<CheckRun>> {
        let mut runs = self.caches.check_runs.all();
        runs.retain(|it| self.is_included(&ObjectKey::of(&it.metadata).namespace));
        runs
    }

    pub(crate) fn all_triggers(&self) -> Vec<Arc<PipelineTrigger>> {
        let mut triggers = self.caches.triggers.all();
        triggers.retain(|it| self.is_included(&ObjectKey::of(&it.metadata).namespace));
        triggers
    }

    /// The triggers in a namespace, by name.
    pub(crate) fn triggers(&self, namespace: &str) -> Vec<Arc<PipelineTrigger>> {
        let keys = self.caches.triggers.keys().into_iter();
        let keys: BTreeSet<_> = keys.filter(|key| key.namespace == namespace).collect();
        keys.iter()
            .filter_map(|key| self.caches.triggers.get(key))
            .collect()
    }

    pub(crate) fn changes(&self) -> Vec<Arc<Change>> {
        self.caches.changes.all()
    }

    /// Stores what this process wrote, before the watch delivers it.
    pub(crate) fn wrote_pipeline(&self, pipeline: Pipeline) {
        self.caches.pipelines.wrote(WRITER, pipeline);
    }

    /// Stores what this process wrote, before the watch delivers it.
    pub(crate) fn wrote_promotion(&self, promotion: Promotion) {
        self.caches.promotions.wrote(WRITER, promotion);
    }

    /// Stores what this process wrote, before the watch delivers it.
    pub(crate) fn wrote_change(&self, change: Change) {
        self.caches.changes.wrote(WRITER, change);
    }

    /// Stores what this process wrote, before the watch delivers it.
    pub(crate) fn wrote_freeze(&self, freeze: Freeze) {
        self.caches.freezes.wrote(WRITER, freeze);
    }

    /// Drops what this process deleted, before the watch delivers that.
    pub(crate) fn deleted_freeze(&self, key: &ObjectKey) {
        let uid = self
            .caches
            .freezes
            .get(key)
            .and_then(|it| it.metadata.uid.clone());
        self.caches.freezes.deleted(WRITER, key, uid.as_deref());
    }

    /// Is changed whenever an object changes.
    pub(crate) fn follow_all(&self) -> watch::Receiver<()> {
        self.notifier.any.subscribe()
    }

    /// Is changed whenever a pipeline, its promotions or triggers in its namespace change.
    pub(crate) fn follow(&self, key: &ObjectKey) -> watch::Receiver<()> {
        let mut followers = self.notifier.followers.lock();
        let sender = followers.entry(key.clone());
        sender.or_insert_with(|| watch::channel(()).0).subscribe()
    }

    fn is_included(&self, namespace: &str) -> bool {
        let only = self.namespace.as_deref();
        only.is_none_or(|only| only == namespace)
    }
}

fn targets_by_cluster(pipeline: &Pipeline) -> TargetCounts {
    let key = ObjectKey::of(&pipeline.metadata);
    let status = pipeline.status.iter();
    let environments = status.flat_map(|it| it.environments.values());
    let mut counts = TargetCounts::new();
    for target in environments.flat_map(|environment| &environment.targets) {
        if let Some(cluster) = cluster_key_of(target, &key.namespace) {
            let count = counts.entry(cluster).or_default();
            count.0 += 1;
            count.1 += usize::from(target.ready);
        }
    }
    counts
}

/// Wakes those who follow pipelines.
#[derive(Default)]
struct Notifier {
    any: watch::Sender<()>,
    followers: Mutex<HashMap<ObjectKey, watch::Sender<()>>>,
}

impl Notifier {
    /// Wakes the followers of a pipeline; if its name is empty, those of its namespace.
    fn wake(&self, key: &ObjectKey) {
        self.any.send_replace(());
        let mut followers = self.followers.lock();
        if key.name.is_empty() {
            let is_gone = |followed: &ObjectKey, follower: &watch::Sender<()>| {
                followed.namespace == key.namespace && follower.send(()).is_err()
            };
            followers.retain(|followed, follower| !is_gone(followed, follower));
            return;
        }
        let follower = followers.get(key);
        if follower.is_some_and(|follower| follower.send(()).is_err()) {
            followers.remove(key);
        }
    }
}

fn notify<K: CachedKind>(
    cache: &Arc<ObjectCache<K>>,
    notifier: &Arc<Notifier>,
    followed: fn(&K, &ObjectKey) -> ObjectKey,
) -> Subscription {
    let notifier = notifier.clone();
    cache.subscribe("server notifications", move |event| {
        let (CacheEvent::Applied { key, object, .. } | CacheEvent::Deleted { key, object }) = event;
        notifier.wake(&followed(object, key));
    })
}
