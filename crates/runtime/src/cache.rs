//! Cache of all objects of one kind on the hub, fed by one watch and shared by every reconciler and by
//! the server of the process.
//!
//! Guarantees:
//!
//! - the newest state by resourceVersion wins, whether it came by the watch or is what this process
//!   itself wrote ([`ObjectCache::wrote`]), so that a reader never sees a state older than its own write;
//! - an object that is missing after the watch had to list again is deleted like any other, and
//!   subscribers are told so; what this process wrote during the listing survives it;
//! - a late response does not bring back an object that was deleted;
//! - an object that cannot be deserialized keeps its last readable state and is logged.
//!
//! Subscribers are called outside of all locks.

mod index;
mod store;
mod subscribers;
#[cfg(test)]
mod tests;
mod watched_object;

use std::{fmt::Debug, sync::Arc};

use futures::StreamExt;
use kube::{
    Client, Resource,
    api::ApiResource,
    runtime::watcher::{self, Event},
};
use parking_lot::RwLock;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use crate::ObjectKey;
use store::{ObjectStore, StateSource};
use subscribers::Subscribers;
use watched_object::WatchedObject;

pub use index::CacheIndex;
pub use subscribers::{CacheEvent, Subscription};

/// The annotation in which `kubectl apply` keeps what it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A kind that can be cached.
pub trait CachedKind:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> CachedKind for K where
    K: Resource<DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// What is kept of each object.
pub struct CacheConfig<K> {
    /// Removes fields that no reader needs, before the object is stored.
    pub trim: fn(&mut K),
    /// The object it belongs to, for [`ObjectCache::children`].
    pub parent: fn(&K) -> Option<ObjectKey>,
    /// Whether objects are kept parsed. As JSON text they take about a fifth of the memory, and are
    /// parsed each time they are read.
    pub keep_parsed: bool,
}

impl<K: Resource> Default for CacheConfig<K> {
    /// JSON text without managed fields and what `kubectl apply` keeps, and no parents.
    fn default() -> Self {
        Self {
            trim: |object| {
                object.meta_mut().managed_fields = None;
                // A second copy of the object.
                if let Some(annotations) = &mut object.meta_mut().annotations {
                    annotations.remove(LAST_APPLIED);
                }
            },
            parent: |_| None,
            keep_parsed: false,
        }
    }
}

/// All objects of one kind.
pub struct ObjectCache<K> {
    store: RwLock<ObjectStore<K>>,
    subscribers: Subscribers<K>,
    /// Cancelled once all objects have been listed. Unlike those of a `watch`, its waiters are woken in order.
    synced: CancellationToken,
}

impl<K: CachedKind> ObjectCache<K> {
    /// An empty cache.
    pub fn new(config: CacheConfig<K>) -> Arc<Self> {
        Arc::new(Self {
            store: RwLock::new(ObjectStore::new(config)),
            subscribers: Subscribers::default(),
            synced: CancellationToken::new(),
        })
    }

    /// Feeds the cache from a watch on one namespace or all, until dropped. At most one watch may feed a
    /// cache at a time.
    pub async fn watch(&self, client: Client, namespace: Option<&str>, config: watcher::Config) {
        let resource = ApiResource::erase::<K>(&());
        let mut events = watched_object::watch(client, &resource, namespace, config);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.handle_watch_event(event),
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "the watch on the hub was interrupted");
                }
            }
        }
    }

    fn handle_watch_event(&self, event: Event<WatchedObject>) {
        match event {
            Event::Init => self.store.write().begin_listing(),
            Event::InitApply(object) => {
                self.store
                    .write()
                    .mark_listed(&ObjectKey::of(object.meta()));
                self.apply_watched(object);
            }
            Event::Apply(object) => self.apply_watched(object),
            Event::Delete(object) => {
                let key = ObjectKey::of(object.meta());
                let uid = object.meta().uid.clone();
                self.remove(None, &key, uid.as_deref());
            }
            Event::InitDone => {
                // Not in the head of the loop, which would hold the lock while objects are removed.
                let missing = self.store.write().end_listing();
                for (key, uid) in missing {
                    self.remove(None, &key, uid.as_deref());
                }
                self.synced.cancel();
            }
        }
    }

    fn apply_watched(&self, object: WatchedObject) {
        match object.parse() {
            Ok(object) => drop(self.apply(StateSource::Watch, None, object)),
            Err(error) => {
                let (kind, key) = (K::kind(&()), ObjectKey::of(object.meta()));
                tracing::warn!(%kind, object = %key, %error, "could not read the object; its last readable state stays");
            }
        }
    }

    /// Stores what this process wrote or read with a request, unless a newer state is known. Returns
    /// whether it was newer. All subscribers but `writer` are told.
    pub fn wrote(&self, writer: &'static str, object: K) -> bool {
        self.apply(StateSource::Response, Some(writer), object)
    }

    /// Stores what this process read with a request, unless a newer state is known. All subscribers are
    /// told.
    pub fn read(&self, object: K) {
        self.apply(StateSource::Response, None, object);
    }

    /// Removes an object that this process deleted or found missing, if it is the one with that uid. All
    /// subscribers are told.
    pub fn found_missing(&self, key: &ObjectKey, uid: Option<&str>) {
        self.remove(None, key, uid);
    }

    /// Removes an object that this process deleted or found missing, if it is the one with that uid.
    /// All subscribers but `writer` are told.
    pub fn deleted(&self, writer: &'static str, key: &ObjectKey, uid: Option<&str>) {
        self.remove(Some(writer), key, uid);
    }

    fn apply(&self, source: StateSource, writer: Option<&'static str>, object: K) -> bool {
        let Some(applied) = self.store.write().apply(source, object) else {
            return false;
        };
        let key = ObjectKey::of(applied.object.meta());
        if let Some(deleted) = applied.recreated {
            self.subscribers.notify(
                writer,
                &CacheEvent::Deleted {
                    key: key.clone(),
                    object: deleted,
                },
            );
        }
        let event = CacheEvent::Applied {
            key,
            object: applied.object,
            previous: applied.previous,
        };
        self.subscribers.notify(writer, &event);
        true
    }

    fn remove(&self, writer: Option<&'static str>, key: &ObjectKey, uid: Option<&str>) {
        let removed = self.store.write().remove(key, uid);
        if let Some(object) = removed {
            let key = key.clone();
            self.subscribers
                .notify(writer, &CacheEvent::Deleted { key, object });
        }
    }

    /// Calls `callback` for every change from now on, until the subscription is dropped. Changes that
    /// this process wrote under the same `name` are left out.
    pub fn subscribe(
        self: &Arc<Self>,
        name: &'static str,
        callback: impl Fn(&CacheEvent<K>) + Send + Sync + 'static,
    ) -> Subscription {
        self.subscribers.add(name, Arc::new(callback))
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.store.read().get(key)
    }

    /// Whether there is such an object.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.store.read().contains(key)
    }

    /// The keys of all objects, sorted.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.store.read().keys()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.store.read().len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects, in no particular order. Those kept as text are parsed for it.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.store.read().all()
    }

    /// The objects that belong to a parent, by name.
    pub fn children(&self, parent: &ObjectKey) -> Vec<Arc<K>> {
        self.store.read().children(parent)
    }

    /// Whether all objects have been listed once.
    pub fn is_synced(&self) -> bool {
        self.synced.is_cancelled()
    }

    /// Waits until all objects have been listed once.
    pub async fn synced(&self) {
        self.synced.cancelled().await;
    }
}
