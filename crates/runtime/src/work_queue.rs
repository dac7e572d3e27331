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

/// A work queue. Delayed keys become ready while [`WorkQueue::deliver_delayed`] runs.
pub struct WorkQueue<K> {
    state: Mutex<QueueState<K>>,
    /// A key is ready.
    ready: Notify,
    /// Another delayed key is the next that is due.
    next_due: Notify,
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
            ready: Notify::new(),
            next_due: Notify::new(),
        }
    }

    /// Queues a key.
    pub fn add(&self, key: K) {
        if self.state.lock().add(key) {
            self.wake_worker();
        }
    }

    /// The worker that began to wait last is the most likely to run at once.
    fn wake_worker(&self) {
        self.ready.notify_last();
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
        let is_next = state.delayed.first().is_none_or(|(next, _)| at < *next);
        state.due.insert(key.clone(), at);
        state.delayed.insert((at, key));
        drop(state);
        if is_next {
            self.next_due.notify_one();
        }
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
            let ready = self.ready.notified();
            {
                let mut state = self.state.lock();
                if let Some(next) = state.take() {
                    if !state.ready.is_empty() {
                        self.wake_worker();
                    }
                    return next;
                }
            }
            ready.await;
        }
    }

    /// Makes delayed keys ready when they are due, until dropped. One timer serves all workers: each would
    /// wake up for every key otherwise.
    pub async fn deliver_delayed(&self) {
        loop {
            let earlier = self.next_due.notified();
            let due = {
                let mut state = self.state.lock();
                state.move_due_to_ready(Instant::now());
                if !state.ready.is_empty() {
                    self.wake_worker();
                }
                state.delayed.first().map(|(at, _)| *at)
            };
            match due {
                Some(at) => tokio::select! {
                    biased;
                    () = earlier => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => earlier.await,
            }
        }
    }

    /// Ends the work on a key; it is queued again if it was added meanwhile.
    pub fn done(&self, key: &K) {
        if self.state.lock().finish(key) {
            self.wake_worker();
        }
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
    /// Whether the key became ready by this.
    fn add(&mut self, key: K) -> bool {
        if self.waiting.contains_key(&key) {
            return false;
        }
        self.waiting.insert(key.clone(), Instant::now());
        let is_ready = !self.running.contains(&key);
        if is_ready {
            self.ready.push_back(key);
        }
        is_ready
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

    /// Whether the key is ready again.
    fn finish(&mut self, key: &K) -> bool {
        self.running.remove(key);
        let was_added = self.waiting.contains_key(key);
        if was_added {
            self.ready.push_back(key.clone());
        }
        was_added
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

    /// The next key, with delayed ones.
    async fn next_due(queue: &WorkQueue<&'static str>) -> &'static str {
        tokio::select! {
            (key, _) = queue.next() => key,
            () = queue.deliver_delayed() => unreachable!("it runs until dropped"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_counts() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(60));
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(30));
        assert_eq!(next_due(&queue).await, "a");
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        queue.done(&"a");
        queue.add_after("b", Duration::from_secs(5));
        queue.forget(&"b");
        queue.add_after("c", Duration::from_secs(7));
        assert_eq!(next_due(&queue).await, "c");
        assert_eq!(start.elapsed(), Duration::from_secs(17));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_added_while_the_timer_waits_may_be_due_earlier() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        queue.add_after("late", Duration::from_secs(60));
        let add = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            queue.add_after("early", Duration::from_secs(4));
            std::future::pending::<&str>().await
        };
        let first = tokio::select! {
            key = next_due(&queue) => key,
            never = add => never,
        };
        assert_eq!((first, start.elapsed().as_secs()), ("early", 5));
        assert_eq!(next_due(&queue).await, "late");
        assert_eq!(start.elapsed(), Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_gets_one_of_several_keys() {
        let queue = std::sync::Arc::new(WorkQueue::new());
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let queue = queue.clone();
            workers.spawn(async move { queue.next().await.0 });
        }
        tokio::task::yield_now().await;
        for (key, delay) in [("a", 1), ("b", 1), ("c", 1)] {
            queue.add_after(key, Duration::from_secs(delay));
        }
        let mut all = tokio::select! {
            all = workers.join_all() => all,
            () = queue.deliver_delayed() => unreachable!("it runs until dropped"),
        };
        all.sort_unstable();
        assert_eq!(all, ["a", "b", "c"]);
    }
}
