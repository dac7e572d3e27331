//! Work that waits: each key at most once, never two workers on the same key.
//!
//! A key added while it is being worked on comes again afterwards, so that bursts become one more
//! pass and no change is lost.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// A queue of keys.
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    /// Everything in `ready`, and what came again while it was worked on.
    waiting: HashSet<K>,
    running: HashSet<K>,
    later: BTreeSet<(Instant, K)>,
    /// When each key in `later` is due: only its earliest time counts.
    due: HashMap<K, Instant>,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                waiting: HashSet::new(),
                running: HashSet::new(),
                later: BTreeSet::new(),
                due: HashMap::new(),
            }),
            changed: Notify::new(),
        }
    }

    /// Adds work.
    pub fn add(&self, key: K) {
        self.state.lock().add(key);
        self.changed.notify_one();
    }

    /// Adds work for later. An earlier time that is set already stays.
    pub fn add_after(&self, key: K, delay: Duration) {
        let at = Instant::now() + delay;
        let mut state = self.state.lock();
        match state.due.get(&key) {
            Some(set) if *set <= at => return,
            Some(set) => {
                let earlier = (*set, key.clone());
                state.later.remove(&earlier);
            }
            None => {}
        }
        state.due.insert(key.clone(), at);
        state.later.insert((at, key));
        drop(state);
        self.changed.notify_one();
    }

    /// Forgets what was to be done later.
    pub fn forget(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some(at) = state.due.remove(key) {
            state.later.remove(&(at, key.clone()));
        }
    }

    /// The next work; it counts as running until [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut state = self.state.lock();
                state.promote(Instant::now());
                if let Some(key) = state.take() {
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.later.first().map(|(at, _)| *at)
            };
            match due {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Ends work on a key; it comes again if it was added meanwhile.
    pub fn done(&self, key: &K) {
        self.state.lock().finish(key);
        self.changed.notify_one();
    }

    /// How many keys wait to be worked on now.
    pub fn depth(&self) -> usize {
        self.state.lock().ready.len()
    }
}

impl<K: Clone + Eq + Hash + Ord> Default for Queue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    fn add(&mut self, key: K) {
        if self.waiting.insert(key.clone()) && !self.running.contains(&key) {
            self.ready.push_back(key);
        }
    }

    fn promote(&mut self, now: Instant) {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.later.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    fn finish(&mut self, key: &K) {
        self.running.remove(key);
        if self.waiting.contains(key) {
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
        let queue = Queue::new();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        assert!(queue.next().now_or_never().is_none());
        queue.add("a");
        assert!(
            queue.next().now_or_never().is_none(),
            "it is being worked on"
        );
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_counts() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(60));
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(30));
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        queue.done(&"a");
        queue.add_after("b", Duration::from_secs(5));
        queue.forget(&"b");
        queue.add_after("c", Duration::from_secs(7));
        assert_eq!(queue.next().await, "c");
    }
}
