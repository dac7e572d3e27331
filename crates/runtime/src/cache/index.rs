//! A small value per object of a cache, kept current as the cache changes.
//!
//! For what is asked about all objects at once (counts, lists), so that they need not be parsed for it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;

use super::{CacheEvent, CachedKind, ObjectCache, Subscription};
use crate::{ObjectKey, ResourceVersion};

/// The values of one function over the objects of a cache.
pub struct CacheIndex<V> {
    values: Arc<RwLock<HashMap<ObjectKey, IndexedValue<V>>>>,
    _subscription: Subscription,
}

struct IndexedValue<V> {
    uid: Option<String>,
    version: ResourceVersion,
    /// None for objects without a value, so that an older state does not bring one back.
    value: Option<V>,
}

impl<V: Send + Sync + 'static> CacheIndex<V> {
    /// Computes `value` of each object, now and whenever it changes. Objects without a value are left
    /// out.
    pub fn new<K: CachedKind>(
        cache: &Arc<ObjectCache<K>>,
        value: impl Fn(&K) -> Option<V> + Send + Sync + 'static,
    ) -> Self {
        let values = Arc::new(RwLock::new(HashMap::new()));
        let (indexed, value) = (values.clone(), Arc::new(value));
        let compute = value.clone();
        let weak_cache = Arc::downgrade(cache);
        // Own writes of every writer count, so the name is nobody's.
        let subscription = cache.subscribe("index", move |event| match event {
            CacheEvent::Applied { key, object, .. } => {
                let computed = compute(object);
                put(&mut indexed.write(), key, &**object, computed);
                // Events of two threads may be told in either order: it may be deleted by now.
                if weak_cache
                    .upgrade()
                    .is_some_and(|cache| !cache.contains(key))
                {
                    indexed.write().remove(key);
                }
            }
            CacheEvent::Deleted { key, object } => {
                let mut values = indexed.write();
                let known = values.get(key);
                if known.is_some_and(|known| known.uid == object.meta().uid) {
                    values.remove(key);
                }
            }
        });
        for object in cache.all() {
            let key = ObjectKey::of(object.meta());
            let computed = value(&object);
            put(&mut values.write(), &key, &*object, computed);
            // Deleted since: then the event came before the value.
            if !cache.contains(&key) {
                values.write().remove(&key);
            }
        }
        Self {
            values,
            _subscription: subscription,
        }
    }

    /// Calls `visit` for each object that has a value, in no particular order.
    pub fn for_each(&self, mut visit: impl FnMut(&ObjectKey, &V)) {
        for (key, indexed) in self.values.read().iter() {
            if let Some(value) = &indexed.value {
                visit(key, value);
            }
        }
    }

    /// The value of one object.
    pub fn get(&self, key: &ObjectKey) -> Option<V>
    where
        V: Clone,
    {
        let values = self.values.read();
        values.get(key)?.value.clone()
    }
}

fn put<K: CachedKind, V>(
    values: &mut HashMap<ObjectKey, IndexedValue<V>>,
    key: &ObjectKey,
    object: &K,
    value: Option<V>,
) {
    let (uid, version) = (
        object.meta().uid.clone(),
        ResourceVersion::of(object.meta()),
    );
    // Two changes at the same time may be told in either order.
    let is_outdated = |known: &IndexedValue<V>| known.version.is_newer_than(&version);
    if values.get(key).is_some_and(is_outdated) {
        return;
    }
    let indexed = IndexedValue {
        uid,
        version,
        value,
    };
    values.insert(key.clone(), indexed);
}
