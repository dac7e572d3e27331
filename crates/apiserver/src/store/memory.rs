//! A store in memory only.

use std::{collections::BTreeMap, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::RwLock;

use super::{
    CommitError, ObjectWrite, RevisionExpired, RevisionReceiver, Snapshot, Store, StoreEvent,
    StoreKey, StoreRevision, StoredObject, revision_watch::RevisionSender, state::StoreState,
};

/// The state without a file: a commit is visible at once.
pub(crate) struct MemoryStore {
    state: RwLock<StoreState>,
    revision_watch: RevisionSender,
}

impl MemoryStore {
    /// An empty store with a history of the last `history` events.
    pub(crate) fn new(history: usize) -> Self {
        Self::starting_with(0, BTreeMap::new(), history)
    }

    /// A store with these objects at a revision, and without any history before it.
    pub(crate) fn starting_with(
        revision: StoreRevision,
        objects: BTreeMap<StoreKey, Arc<StoredObject>>,
        history: usize,
    ) -> Self {
        Self {
            state: RwLock::new(StoreState::at_revision(revision, objects, history)),
            revision_watch: RevisionSender::new(revision),
        }
    }

    fn apply(&self, write: ObjectWrite) -> Result<Arc<StoredObject>, CommitError> {
        let mut state = self.state.write();
        let revision = state.revision() + 1;
        let event = Arc::new(state.plan(write, revision)?);
        state.apply(event.clone());
        self.revision_watch.send(revision);
        Ok(event.resulting_object())
    }
}

impl Store for MemoryStore {
    fn revision(&self) -> StoreRevision {
        self.state.read().revision()
    }

    fn object(&self, key: &StoreKey) -> Option<Arc<StoredObject>> {
        self.state.read().get(key).cloned()
    }

    fn list(
        &self,
        resource: &str,
        prefix: &str,
        at: Option<StoreRevision>,
    ) -> Result<Snapshot, RevisionExpired> {
        self.state.read().list(resource, prefix, at)
    }

    fn commit(&self, write: ObjectWrite) -> BoxFuture<'_, Result<Arc<StoredObject>, CommitError>> {
        std::future::ready(self.apply(write)).boxed()
    }

    fn events(
        &self,
        after: StoreRevision,
        limit: usize,
    ) -> Result<Vec<Arc<StoreEvent>>, RevisionExpired> {
        let state = self.state.read();
        Ok(state.events_after(after)?.take(limit).cloned().collect())
    }

    fn revision_watch(&self) -> RevisionReceiver {
        self.revision_watch.subscribe()
    }

    fn all_objects(&self) -> (StoreRevision, BTreeMap<StoreKey, Arc<StoredObject>>) {
        let state = self.state.read();
        (state.revision(), state.objects().clone())
    }

    fn backup(&self, _to: &std::path::Path) -> std::io::Result<()> {
        let why = "a store in memory cannot be backed up";
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(path: &str) -> StoreKey {
        StoreKey {
            resource: "g/things".into(),
            path: path.into(),
        }
    }

    fn put(
        store: &MemoryStore,
        path: &str,
        expected_revision: Option<u64>,
    ) -> Result<Arc<StoredObject>, CommitError> {
        let object = Some(json!({"metadata": {"name": path}}).into());
        let write = ObjectWrite {
            key: key(path),
            expected_revision,
            object,
        };
        store
            .commit(write)
            .now_or_never()
            .expect("memory commits at once")
    }

    fn names(store: &MemoryStore, at: Option<u64>) -> Vec<String> {
        let snapshot = store.list("g/things", "", at).expect("in history");
        snapshot
            .objects
            .into_iter()
            .map(|(key, _)| key.path)
            .collect()
    }

    #[test]
    fn a_commit_is_compared_with_what_the_writer_read() {
        let store = MemoryStore::new(10);
        assert!(put(&store, "a", None).is_ok());
        assert_eq!(put(&store, "a", None), Err(CommitError::Conflict));
        assert_eq!(put(&store, "a", Some(7)), Err(CommitError::Conflict));
        assert!(put(&store, "a", Some(1)).is_ok());
        assert_eq!(store.revision(), 2);
    }

    #[test]
    fn earlier_states_can_be_listed_until_they_expire() {
        let store = MemoryStore::new(2);
        for name in ["a", "b", "c"] {
            put(&store, name, None).expect("new");
        }
        assert_eq!(names(&store, None), ["a", "b", "c"]);
        assert_eq!(names(&store, Some(2)), ["a", "b"]);
        assert_eq!(names(&store, Some(1)), ["a"]);
        assert_eq!(
            store.list("g/things", "", Some(0)).err(),
            Some(RevisionExpired { oldest: 1 })
        );
        assert_eq!(
            store.events(0, 9).err(),
            Some(RevisionExpired { oldest: 1 })
        );
        assert_eq!(store.events(1, 9).expect("in history").len(), 2);
        assert_eq!(store.events(3, 9).expect("in history").len(), 0);
    }
}
