//! The store that keeps everything in memory.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::{Event, Expired, Kept, Key, Refusal, Revision, Snapshot, Store, Write, state::State};

/// Nothing but the state: a commit is visible at once.
pub(crate) struct Memory {
    state: RwLock<State>,
    risen: watch::Sender<Revision>,
}

impl Memory {
    /// An empty store that remembers the last `history` changes.
    pub(crate) fn new(history: usize) -> Self {
        Self {
            state: RwLock::new(State::new(history)),
            risen: watch::Sender::new(0),
        }
    }

    fn make(&self, write: Write) -> Result<Arc<Kept>, Refusal> {
        let mut state = self.state.write();
        let revision = state.revision() + 1;
        let event = Arc::new(state.plan(write, revision)?);
        state.apply(event.clone());
        self.risen.send_replace(revision);
        Ok(event.outcome())
    }
}

impl Store for Memory {
    fn revision(&self) -> Revision {
        self.state.read().revision()
    }

    fn kept(&self, key: &Key) -> Option<Arc<Kept>> {
        self.state.read().get(key).cloned()
    }

    fn list(
        &self,
        resource: &str,
        prefix: &str,
        at: Option<Revision>,
    ) -> Result<Snapshot, Expired> {
        self.state.read().list(resource, prefix, at)
    }

    fn commit(&self, write: Write) -> BoxFuture<'_, Result<Arc<Kept>, Refusal>> {
        std::future::ready(self.make(write)).boxed()
    }

    fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Arc<Event>>, Expired> {
        let state = self.state.read();
        Ok(state.changes_after(after)?.take(limit).cloned().collect())
    }

    fn risen(&self) -> watch::Receiver<Revision> {
        self.risen.subscribe()
    }

    fn backup(&self, _to: &std::path::Path) -> std::io::Result<()> {
        let why = "what is kept in memory only cannot be backed up";
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(path: &str) -> Key {
        Key {
            resource: "g/things".into(),
            path: path.into(),
        }
    }

    fn put(store: &Memory, path: &str, replaces: Option<u64>) -> Result<Arc<Kept>, Refusal> {
        let object = Some(json!({"metadata": {"name": path}}).into());
        let write = Write {
            key: key(path),
            replaces,
            object,
        };
        store
            .commit(write)
            .now_or_never()
            .expect("memory commits at once")
    }

    fn names(store: &Memory, at: Option<u64>) -> Vec<String> {
        let snapshot = store.list("g/things", "", at).expect("in history");
        snapshot
            .objects
            .into_iter()
            .map(|(key, _)| key.path)
            .collect()
    }

    #[test]
    fn a_commit_is_compared_with_what_the_writer_saw() {
        let store = Memory::new(10);
        assert!(put(&store, "a", None).is_ok());
        assert_eq!(put(&store, "a", None), Err(Refusal::Stale));
        assert_eq!(put(&store, "a", Some(7)), Err(Refusal::Stale));
        assert!(put(&store, "a", Some(1)).is_ok());
        assert_eq!(store.revision(), 2);
    }

    #[test]
    fn earlier_states_can_be_listed_until_they_expire() {
        let store = Memory::new(2);
        for name in ["a", "b", "c"] {
            put(&store, name, None).expect("new");
        }
        assert_eq!(names(&store, None), ["a", "b", "c"]);
        assert_eq!(names(&store, Some(2)), ["a", "b"]);
        assert_eq!(names(&store, Some(1)), ["a"]);
        assert_eq!(
            store.list("g/things", "", Some(0)).err(),
            Some(Expired { oldest: 1 })
        );
        assert_eq!(store.changes(0, 9).err(), Some(Expired { oldest: 1 }));
        assert_eq!(store.changes(1, 9).expect("in history").len(), 2);
        assert_eq!(store.changes(3, 9).expect("in history").len(), 0);
    }
}
