//! What every reconciler has: the hub, its caches, the settings, a clock, and where it writes and reports.
//!
//! A reconciler dereferences to it, so that its steps read `reconciler.clock` and `reconciler.caches`.

use std::sync::Arc;

use kube::{
    Api, Client, Resource,
    api::DeleteParams,
    core::{NamespaceResourceScope, object::HasStatus},
};
use runtime::{
    CacheEvent, Clock, LeaderGuard, ObjectCache, ObjectKey, StatusWriter, Subscription, Workers,
    cache::CachedKind,
    status::{StatusError, StatusPatch},
};
use serde::Serialize;

use crate::{
    Caches, Context, FIELD_MANAGER, Metrics, Settings,
    strategy::{self, Strategies},
    telemetry::Telemetry,
};

/// What came of writing the status of an object.
pub(crate) enum StatusWrite {
    /// Nothing differs, so nothing was written.
    Unchanged,
    /// It was written, and the cache has it.
    Written,
    /// Somebody else changed or deleted the object before, and the cache has that: try again.
    Outdated,
}

/// Enqueues every object of a cache, and again whenever it changes, until the subscription is dropped.
/// `forget` drops what is kept in memory about an object that was deleted.
pub(crate) fn enqueue_all<K: CachedKind>(
    cache: &Arc<ObjectCache<K>>,
    name: &'static str,
    workers: &Arc<Workers<ObjectKey>>,
    forget: impl Fn(&K) + Send + Sync + 'static,
) -> Subscription {
    let (objects, queue) = (cache.clone(), workers.clone());
    let subscription = cache.subscribe(name, move |event| match event {
        CacheEvent::Applied { key, .. } => queue.enqueue(key.clone()),
        CacheEvent::Deleted { key, object } => {
            forget(object);
            queue.forget(key);
            // Created again meanwhile, by another thread.
            if objects.contains(key) {
                queue.enqueue(key.clone());
            }
        }
    });
    for key in cache.keys() {
        workers.enqueue(key);
    }
    subscription
}

/// The part that all reconcilers share.
pub struct ReconcilerBase {
    pub(crate) hub: Client,
    pub(crate) status: StatusWriter,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    pub(crate) caches: Caches,
    pub(crate) telemetry: Telemetry,
    /// Whether the reconciler itself feeds the caches it uses.
    feeds_caches: bool,
}

impl ReconcilerBase {
    /// Of a reconciler on its own, with caches and metrics of its own. It writes only while `leader`
    /// leads.
    pub(crate) fn alone(hub: Client, settings: Settings, leader: LeaderGuard) -> Self {
        let telemetry = Telemetry::alone().led_by(leader);
        Self {
            feeds_caches: true,
            ..Self::with(hub, Arc::new(settings), Caches::new(), telemetry)
        }
    }

    /// Of a reconciler of the process.
    pub(crate) fn of(context: &Context) -> Self {
        let (hub, settings) = (context.client.clone(), context.settings.clone());
        let caches = context.caches.clone();
        Self::with(hub, settings, caches, Telemetry::of(context))
    }

    fn with(hub: Client, settings: Arc<Settings>, caches: Caches, telemetry: Telemetry) -> Self {
        let leader = telemetry.leader.clone();
        Self {
            status: StatusWriter::new(hub.clone(), leader, FIELD_MANAGER),
            hub,
            settings,
            clock: Clock::start(),
            caches,
            telemetry,
            feeds_caches: false,
        }
    }

    /// Repositories and forges of the reconciler's own.
    pub(crate) fn strategies(&self) -> Result<Arc<Strategies>, strategy::Error> {
        let (hub, leader) = (self.hub.clone(), self.telemetry.leader.clone());
        Strategies::new(hub, &self.settings, leader, &self.telemetry.metrics).map(Arc::new)
    }

    /// Writes the status of an object if it differs from the one that was read. Subscribers of the cache
    /// other than `writer` are told; all are if somebody else wrote before.
    pub(crate) async fn write_status<K>(
        &self,
        cache: &ObjectCache<K>,
        writer: &'static str,
        object: &K,
        status: &K::Status,
    ) -> Result<StatusWrite, StatusError>
    where
        K: CachedKind + Resource<Scope = NamespaceResourceScope> + HasStatus,
        K::Status: Default + PartialEq + Serialize,
    {
        let written = self.status.patch(object, object.status(), status);
        match written.await? {
            StatusPatch::Unchanged => return Ok(StatusWrite::Unchanged),
            StatusPatch::Patched(written) => {
                cache.wrote(writer, written);
                return Ok(StatusWrite::Written);
            }
            StatusPatch::Conflict(newest) => cache.read(newest),
            StatusPatch::NotFound => {
                let (key, uid) = (ObjectKey::of(object.meta()), object.meta().uid.as_deref());
                cache.found_missing(&key, uid);
            }
        }
        Ok(StatusWrite::Outdated)
    }

    /// Deletes an object, never another of its name, and removes it from the cache. All subscribers are
    /// told. If a precondition does not hold any more, it stays, and the watch delivers its new state.
    pub(crate) async fn delete<K>(
        &self,
        cache: &ObjectCache<K>,
        object: &K,
        mut parameters: DeleteParams,
    ) -> Result<(), kube::Error>
    where
        K: CachedKind + Resource<Scope = NamespaceResourceScope>,
    {
        let (key, uid) = (ObjectKey::of(object.meta()), object.meta().uid.as_deref());
        let preconditions = parameters.preconditions.get_or_insert_default();
        preconditions.uid = uid.map(str::to_owned);
        let api: Api<K> = Api::namespaced(self.hub.clone(), &key.namespace);
        match api.delete(&key.name, &parameters).await {
            Ok(deleted) => match deleted.left() {
                // A finalizer may keep it for a while.
                Some(terminating) => cache.read(terminating),
                None => cache.found_missing(&key, uid),
            },
            Err(kube::Error::Api(refusal)) if refusal.code == 404 => cache.found_missing(&key, uid),
            Err(kube::Error::Api(refusal)) if refusal.code == 409 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Its metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.telemetry.metrics
    }

    /// Feeds the caches if nothing else does, until dropped.
    pub(crate) fn feed_caches(&self) -> impl Future<Output = ()> + Send + 'static {
        let watch = self
            .feeds_caches
            .then(|| self.caches.clone().watch(self.hub.clone(), &self.settings));
        async move {
            if let Some(watch) = watch {
                watch.await;
            }
        }
    }
}
