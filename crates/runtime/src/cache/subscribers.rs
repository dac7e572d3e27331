//! Tells subscribers about changes of a cache.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;

use crate::ObjectKey;

/// A change of a cache.
#[derive(Debug)]
pub enum CacheEvent<K> {
    /// An object was created or updated.
    Applied {
        /// Its key.
        key: ObjectKey,
        /// Its new state.
        object: Arc<K>,
        /// The state before, where the cache keeps parsed objects.
        previous: Option<Arc<K>>,
    },
    /// An object was deleted.
    Deleted {
        /// Its key.
        key: ObjectKey,
        /// Its last known state.
        object: Arc<K>,
    },
}

type Callback<K> = Arc<dyn Fn(&CacheEvent<K>) + Send + Sync>;

/// Those who want to be told.
pub(super) struct Subscribers<K> {
    all: Arc<RwLock<Vec<Subscriber<K>>>>,
    next_id: AtomicU64,
}

struct Subscriber<K> {
    id: u64,
    name: &'static str,
    callback: Callback<K>,
}

impl<K> Default for Subscribers<K> {
    fn default() -> Self {
        Self {
            all: Arc::default(),
            next_id: AtomicU64::new(0),
        }
    }
}

impl<K: 'static> Subscribers<K> {
    pub(super) fn add(&self, name: &'static str, callback: Callback<K>) -> Subscription {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.all.write().push(Subscriber { id, name, callback });
        let all: Weak<RwLock<Vec<Subscriber<K>>>> = Arc::downgrade(&self.all);
        Subscription(Some(Box::new(move || {
            if let Some(all) = all.upgrade() {
                all.write().retain(|subscriber| subscriber.id != id);
            }
        })))
    }

    /// Calls everybody but `writer`, who knows already.
    pub(super) fn notify(&self, writer: Option<&'static str>, event: &CacheEvent<K>) {
        let callbacks: Vec<Callback<K>> = {
            let all = self.all.read();
            let told = all.iter().filter(|it| Some(it.name) != writer);
            told.map(|subscriber| subscriber.callback.clone()).collect()
        };
        for callback in callbacks {
            callback(event);
        }
    }
}

/// Ends when it is dropped.
#[must_use]
pub struct Subscription(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(unsubscribe) = self.0.take() {
            unsubscribe();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Subscription")
    }
}
