//! Work queue of object keys with deduplication and delayed adds.
//!
//! Each key is queued at most once and never handed to two workers at the same time. A key that is
//! added while a worker has it is queued again when the worker is done, so that a burst of changes
//! becomes one more reconcile and no change is lost.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// A work queue. Delayed keys become ready by themselves while a worker waits in [`WorkQueue::next`].
pub struct WorkQueue<K> {
    state: Mutex<QueueState<K>>,
    changed: Notify,
}

struct QueueState<K> {
    ready: VecDeque<K>,
    /// When each key in `ready`, and each that was added while a worker has it, was added.
    waiting: HashMap<K, Instant>,
    running: HashSet<K>,
    delayed: BTreeSet<(Instant, K)>,
    /// When each key in `delayed` is due: only its earliest time counts.
    due: HashMap<K, Instant>,
}

impl<K: Clone + Eq + Hash + Ord> WorkQueue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(QueueState {
                ready: VecDeque::new(),
                waiting: HashMap::new(),
                running: HashSet::new(),
                delayed: BTreeSet::new(),
                due: HashMap::new(),
            }),
            changed: Notify::new(),
        }
    }

    /// Queues a key.
    pub fn add(&self, key: K) {
        self.state.lock().add(key);
        self.changed.notify_one();
    }

    /// Queues a key after a delay. An earlier time that is set already stays.
    pub fn add_after(&self, key: K, delay: Duration) {
        let at = Instant::now() + delay;
        let mut state = self.state.lock();
        match state.due.get(&key) {
            Some(set) if *set <= at => return,
            Some(set) => {
                let earlier = (*set, key.clone());
                state.delayed.remove(&earlier);
            }
            None => {}
        }
        state.due.insert(key.clone(), at);
        state.delayed.insert((at, key));
        drop(state);
        self.changed.notify_one();
    }

    /// Drops the delayed add of a key.
    pub fn forget(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some(at) = state.due.remove(key) {
            state.delayed.remove(&(at, key.clone()));
        }
    }

    /// The next key and how long it was queued; it counts as running until [`WorkQueue::done`].
    pub async fn next(&self) -> (K, Duration) {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut state = self.state.lock();
                state.move_due_to_ready(Instant::now());
                if let Some(next) = state.take() {
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return next;
                }
                state.delayed.first().map(|(at, _)| *at)
            };
            match due {
                Some(at) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Ends the work on a key; it is queued again if it was added meanwhile.
    pub fn done(&self, key: &K) {
        self.state.lock().finish(key);
        self.changed.notify_one();
    }

    /// How many keys are ready for a worker.
    pub fn depth(&self) -> usize {
        self.state.lock().ready.len()
    }
}

impl<K: Clone + Eq + Hash + Ord> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash + Ord> QueueState<K> {
    fn add(&mut self, key: K) {
        if self.waiting.contains_key(&key) {
            return;
        }
        self.waiting.insert(key.clone(), Instant::now());
        if !self.running.contains(&key) {
            self.ready.push_back(key);
        }
    }

    fn move_due_to_ready(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.delayed.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
    }

    fn take(&mut self) -> Option<(K, Duration)> {
        let key = self.ready.pop_front()?;
        let since = self.waiting.remove(&key);
        self.running.insert(key.clone());
        Some((key, since.map(|since| since.elapsed()).unwrap_or_default()))
    }

    fn finish(&mut self, key: &K) {
        self.running.remove(key);
        if self.waiting.contains_key(key) {
            self.ready.push_back(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_key_waits_once_and_runs_once() {
        let queue = WorkQueue::new();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await.0, "a");
        assert!(queue.next().now_or_never().is_none());
        queue.add("a");
        assert!(
            queue.next().now_or_never().is_none(),
            "it is being worked on"
        );
        queue.done(&"a");
        assert_eq!(queue.next().await.0, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_counts() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(60));
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(30));
        assert_eq!(queue.next().await.0, "a");
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        queue.done(&"a");
        queue.add_after("b", Duration::from_secs(5));
        queue.forget(&"b");
        queue.add_after("c", Duration::from_secs(7));
        assert_eq!(queue.next().await.0, "c");
    }
}
