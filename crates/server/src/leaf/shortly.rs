//! Answers that are told again for a while. Who asks while one is being found waits for it.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

/// An answer, and until when it holds.
type Slot<V> = Arc<AsyncMutex<Option<(Instant, V)>>>;

pub(super) struct Shortly<K, V> {
    holds: Duration,
    slots: Mutex<HashMap<K, Slot<V>>>,
}

impl<K: Eq + Hash + Clone, V: Clone> Shortly<K, V> {
    pub(super) fn new(holds: Duration) -> Self {
        Self {
            holds,
            slots: Mutex::default(),
        }
    }

    /// The answer, found anew where the last one is old.
    pub(super) async fn get(&self, key: K, find: impl Future<Output = V>) -> V {
        let slot = self.slots.lock().entry(key).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some((until, answer)) = slot.as_ref()
            && Instant::now() < *until
        {
            return answer.clone();
        }
        let answer = find.await;
        *slot = Some((Instant::now() + self.holds, answer.clone()));
        drop(slot);
        self.forget();
        answer
    }

    /// Drops what holds no longer and nobody waits for.
    fn forget(&self) {
        let now = Instant::now();
        self.slots.lock().retain(|_, slot| match slot.try_lock() {
            Ok(slot) => slot.as_ref().is_some_and(|(until, _)| now < *until),
            Err(_) => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_found_once_and_told_for_a_while() {
        let answers = Shortly::new(Duration::from_secs(5));
        let count = AtomicUsize::new(0);
        let find = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            count.fetch_add(1, Ordering::Relaxed)
        };
        let both = tokio::join!(answers.get("a", find()), answers.get("a", find()));
        assert_eq!(both, (0, 0));
        assert_eq!(answers.get("b", find()).await, 1);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(answers.get("a", find()).await, 2);
        assert_eq!(answers.slots.lock().len(), 1);
    }
}
