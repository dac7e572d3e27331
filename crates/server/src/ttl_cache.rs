//! TTL cache that coalesces concurrent lookups.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

/// A value, and when it expires.
type Slot<V> = Arc<AsyncMutex<Option<(Instant, V)>>>;

pub(crate) struct TtlCache<K, V> {
    ttl: Duration,
    slots: Mutex<HashMap<K, Slot<V>>>,
}

impl<K: Eq + Hash + Clone, V: Clone> TtlCache<K, V> {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            slots: Mutex::default(),
        }
    }

    /// The value of a key, looked up if it is not cached.
    pub(crate) async fn get(&self, key: K, lookup: impl Future<Output = V>) -> V {
        let slot = self.slots.lock().entry(key).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some((expires, value)) = slot.as_ref()
            && Instant::now() < *expires
        {
            return value.clone();
        }
        let value = lookup.await;
        *slot = Some((Instant::now() + self.ttl, value.clone()));
        drop(slot);
        self.remove_expired();
        value
    }

    /// Removes expired values that nobody waits for.
    fn remove_expired(&self) {
        let now = Instant::now();
        self.slots.lock().retain(|_, slot| match slot.try_lock() {
            Ok(slot) => slot.as_ref().is_some_and(|(expires, _)| now < *expires),
            Err(_) => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_run_once_and_are_cached_until_they_expire() {
        let cache = TtlCache::new(Duration::from_secs(5));
        let count = AtomicUsize::new(0);
        let lookup = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            count.fetch_add(1, Ordering::Relaxed)
        };
        let both = tokio::join!(cache.get("a", lookup()), cache.get("a", lookup()));
        assert_eq!(both, (0, 0));
        assert_eq!(cache.get("b", lookup()).await, 1);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(cache.get("a", lookup()).await, 2);
        assert_eq!(cache.slots.lock().len(), 1);
    }
}
