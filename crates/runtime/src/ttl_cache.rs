//! TTL cache that coalesces concurrent lookups.
//!
//! While one caller looks a key up, others with the same key wait for its result; different keys never
//! wait for each other. The number of entries is bounded: expired ones are dropped first, then those
//! that expire soonest.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

/// Below this size expired entries are not looked for.
const FIRST_SWEEP: usize = 64;

/// A value and when it expires; none while it is looked up for the first time.
type Slot<V> = Arc<AsyncMutex<Option<(Instant, V)>>>;

/// Values that are looked up at most once per time to live.
pub struct TtlCache<K, V> {
    ttl: Duration,
    capacity: usize,
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K, V> {
    slots: HashMap<K, Slot<V>>,
    /// From this size on expired entries are dropped.
    sweep_at: usize,
}

impl<K: Clone + Eq + Hash, V: Clone> TtlCache<K, V> {
    /// Keeps at most `capacity` values, each for `ttl` unless its lookup says otherwise.
    pub fn new(ttl: Duration, capacity: usize) -> Self {
        let entries = Entries {
            slots: HashMap::new(),
            sweep_at: FIRST_SWEEP.min(capacity),
        };
        Self {
            ttl,
            capacity,
            entries: Mutex::new(entries),
        }
    }

    /// The value of a key, looked up if there is none or it has expired.
    pub async fn get_with(&self, key: K, lookup: impl Future<Output = V>) -> V {
        let ttl = self.ttl;
        self.get_with_ttl(key, async { (lookup.await, ttl) }).await
    }

    /// The same; the lookup returns the value's time to live as well. Zero is for values that only
    /// the callers who wait for them now may use.
    pub async fn get_with_ttl(&self, key: K, lookup: impl Future<Output = (V, Duration)>) -> V {
        let asked_at = Instant::now();
        let slot = self.slot(key);
        let mut slot = slot.lock().await;
        if let Some((expires, value)) = slot.as_ref()
            && asked_at < *expires
        {
            return value.clone();
        }
        let (value, ttl) = lookup.await;
        let expires = Instant::now() + ttl;
        *slot = Some((expires, value.clone()));
        value
    }

    /// The value of a key if there is one that has not expired; does not wait for lookups.
    pub fn get(&self, key: &K) -> Option<V> {
        let slot = self.entries.lock().slots.get(key)?.clone();
        let slot = slot.try_lock().ok()?;
        let (expires, value) = slot.as_ref()?;
        (Instant::now() < *expires).then(|| value.clone())
    }

    /// Drops the value of a key; the next caller looks it up.
    pub fn remove(&self, key: &K) {
        self.entries.lock().slots.remove(key);
    }

    /// Drops the values of all keys for which this holds.
    pub fn remove_if(&self, is_dropped: impl Fn(&K) -> bool) {
        self.entries.lock().slots.retain(|key, _| !is_dropped(key));
    }

    /// How many entries there are, expired ones included.
    pub fn len(&self) -> usize {
        self.entries.lock().slots.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, key: K) -> Slot<V> {
        let mut entries = self.entries.lock();
        if let Some(slot) = entries.slots.get(&key) {
            return slot.clone();
        }
        if entries.slots.len() >= entries.sweep_at {
            entries.make_room(self.capacity);
        }
        entries.slots.entry(key).or_default().clone()
    }
}

impl<K: Clone + Eq + Hash, V> Entries<K, V> {
    /// Drops expired entries, and if that is not enough half of the others, the soonest to expire
    /// first. Entries that are being looked up stay.
    fn make_room(&mut self, capacity: usize) {
        let now = Instant::now();
        self.slots
            .retain(|_, slot| expiry(slot, now).is_none_or(|at| now < at));
        if self.slots.len() >= capacity {
            let expiries = self.slots.values().filter_map(|slot| expiry(slot, now));
            let mut expiries: Vec<_> = expiries.collect();
            expiries.sort_unstable();
            if let Some(middle) = expiries.get(expiries.len() / 2).copied() {
                self.slots
                    .retain(|_, slot| expiry(slot, now).is_none_or(|at| middle < at));
            }
        }
        self.sweep_at = (self.slots.len() * 2).max(FIRST_SWEEP).min(capacity.max(1));
    }
}

/// When the value expires; nothing while it is being looked up.
fn expiry<V>(slot: &Slot<V>, now: Instant) -> Option<Instant> {
    let expires = match slot.try_lock() {
        Ok(value) => value.as_ref().map(|(expires, _)| *expires),
        Err(_) => return None,
    };
    // A lookup that was cancelled left nothing: as good as expired, unless somebody waits for it.
    expires.or((Arc::strong_count(slot) == 1).then_some(now))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_value_is_looked_up_once_and_kept_for_its_time_to_live() {
        let cache = TtlCache::new(5 * SECOND, 100);
        let count = AtomicUsize::new(0);
        let lookup = async || {
            tokio::time::sleep(SECOND).await;
            count.fetch_add(1, Ordering::Relaxed)
        };
        let both = tokio::join!(cache.get_with("a", lookup()), cache.get_with("a", lookup()));
        assert_eq!(both, (0, 0));
        assert_eq!(cache.get_with("b", lookup()).await, 1);
        assert_eq!(cache.get(&"a"), Some(0));
        tokio::time::advance(5 * SECOND).await;
        assert_eq!(cache.get(&"a"), None);
        assert_eq!(cache.get_with("a", lookup()).await, 2);
        cache.remove(&"a");
        assert_eq!(cache.get_with("a", lookup()).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn different_keys_do_not_wait_for_each_other_and_a_cancelled_lookup_is_repeated() {
        let cache = TtlCache::new(SECOND, 100);
        let stuck = cache.get_with("stuck", std::future::pending());
        let stuck = tokio::time::timeout(SECOND, stuck);
        let other = cache.get_with("other", async { 1 });
        let (stuck, other) = tokio::join!(stuck, other);
        assert!(stuck.is_err());
        assert_eq!(other, 1);
        assert_eq!(cache.get_with("stuck", async { 2 }).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_may_bring_its_own_time_to_live() {
        let cache = TtlCache::new(SECOND, 100);
        let looked_up = cache.get_with_ttl("a", async { (1, Duration::ZERO) }).await;
        assert_eq!((looked_up, cache.get(&"a")), (1, None));
        let looked_up = cache.get_with_ttl("a", async { (2, 60 * SECOND) }).await;
        tokio::time::advance(59 * SECOND).await;
        assert_eq!((looked_up, cache.get(&"a")), (2, Some(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_entries_is_bounded() {
        let cache = TtlCache::new(SECOND, 100);
        for key in 0..10_000 {
            cache.get_with(key, async { key }).await;
            assert!(cache.len() <= 100, "{}", cache.len());
        }
        assert_eq!(cache.get(&9_999), Some(9_999));
    }

    /// The clock goes on, also while room is made.
    #[tokio::test]
    async fn cancelled_lookups_leave_nothing() {
        let cache = TtlCache::new(SECOND, 100);
        for key in 0..1000 {
            let lookup = cache.get_with(key, std::future::pending::<()>());
            assert_eq!(lookup.now_or_never(), None);
            assert!(cache.len() <= 100, "{}", cache.len());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn expired_values_are_dropped_first_and_then_those_that_expire_next() {
        let cache = TtlCache::new(SECOND, 200);
        for key in 0..100 {
            cache.get_with(key, async { key }).await;
        }
        tokio::time::advance(SECOND).await;
        for key in 100..300 {
            let ttl = SECOND * (key - 98);
            cache.get_with_ttl(key, async { (key, ttl) }).await;
        }
        assert_eq!(cache.len(), 200, "what had expired made room");
        assert!((100..300).all(|key| cache.get(&key) == Some(key)));
        cache.get_with(300, async { 300 }).await;
        assert_eq!(cache.len(), 100);
        assert!((100..=200).all(|key| cache.get(&key).is_none()));
        assert!((201..=300).all(|key| cache.get(&key) == Some(key)));
    }

    #[tokio::test(start_paused = true)]
    async fn values_are_dropped_by_their_keys() {
        let cache = TtlCache::new(SECOND, 100);
        assert!(cache.is_empty());
        for key in 0..10 {
            cache.get_with(key, async { key }).await;
        }
        cache.remove_if(|key| key % 2 == 0);
        assert_eq!((cache.len(), cache.is_empty()), (5, false));
        assert_eq!((cache.get(&2), cache.get(&3)), (None, Some(3)));
    }
}
