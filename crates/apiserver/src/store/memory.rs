//! The store that keeps everything in memory.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Event, Expired, Key, Revision, Snapshot, Stale, Store, Write};

/// Objects in a map, the last `history` changes in a queue.
pub(crate) struct Memory {
    state: RwLock<State>,
    risen: watch::Sender<Revision>,
    history: usize,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Consecutive revisions, the newest last.
    changes: VecDeque<Arc<Event>>,
    revision: Revision,
}

impl Memory {
    /// An empty store that remembers the last `history` changes.
    pub(crate) fn new(history: usize) -> Self {
        Self {
            state: RwLock::default(),
            risen: watch::Sender::new(0),
            history: history.max(1),
        }
    }
}

impl Store for Memory {
    fn revision(&self) -> Revision {
        self.state.read().revision
    }

    fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.state.read().objects.get(key).cloned()
    }

    fn list(
        &self,
        resource: &str,
        prefix: &str,
        at: Option<Revision>,
    ) -> Result<Snapshot, Expired> {
        let state = self.state.read();
        let revision = at.unwrap_or(state.revision).min(state.revision);
        let mut objects = state.matching(resource, prefix);
        for change in state.changes_after(revision)?.rev() {
            if &*change.key.resource == resource && change.key.path.starts_with(prefix) {
                match &change.previous {
                    Some(previous) => objects.insert(change.key.clone(), previous.clone()),
                    None => objects.remove(&change.key),
                };
            }
        }
        Ok(Snapshot {
            revision,
            objects: objects.into_iter().collect(),
        })
    }

    fn commit(&self, write: Write) -> BoxFuture<'_, Result<Arc<Value>, Stale>> {
        let mut state = self.state.write();
        let outcome = state.apply(write, self.history);
        if outcome.is_ok() {
            self.risen.send_replace(state.revision);
        }
        std::future::ready(outcome).boxed()
    }

    fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Arc<Event>>, Expired> {
        let state = self.state.read();
        Ok(state.changes_after(after)?.take(limit).cloned().collect())
    }

    fn risen(&self) -> watch::Receiver<Revision> {
        self.risen.subscribe()
    }
}

impl State {
    fn matching(&self, resource: &str, prefix: &str) -> BTreeMap<Key, Arc<Value>> {
        let from = Key {
            resource: resource.into(),
            path: prefix.to_owned(),
        };
        self.objects
            .range(from..)
            .take_while(|(key, _)| &*key.resource == resource && key.path.starts_with(prefix))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    fn changes_after(
        &self,
        after: Revision,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Expired> {
        let oldest = self
            .changes
            .front()
            .map_or(self.revision, |first| first.revision - 1);
        if after < oldest {
            return Err(Expired { oldest });
        }
        // Revisions are consecutive, so the position follows from the number.
        let skip = usize::try_from(after - oldest).unwrap_or(usize::MAX);
        Ok(self.changes.range(skip.min(self.changes.len())..))
    }

    fn apply(&mut self, write: Write, history: usize) -> Result<Arc<Value>, Stale> {
        let previous = self.objects.get(&write.key).cloned();
        if previous.as_deref().and_then(revision_of) != write.replaces {
            return Err(Stale);
        }
        let revision = self.revision + 1;
        let object = write
            .object
            .map(|object| Arc::new(at_revision(object, revision)));
        let tombstone = match (&object, &previous) {
            (None, Some(previous)) => Some(Arc::new(at_revision(Value::clone(previous), revision))),
            _ => None,
        };
        let Some(answer) = object.clone().or_else(|| tombstone.clone()) else {
            return Err(Stale); // removing what is not there
        };
        match &object {
            Some(object) => self.objects.insert(write.key.clone(), object.clone()),
            None => self.objects.remove(&write.key),
        };
        self.revision = revision;
        self.changes.push_back(Arc::new(Event {
            revision,
            key: write.key,
            object,
            previous,
            tombstone,
        }));
        while self.changes.len() > history {
            self.changes.pop_front();
        }
        Ok(answer)
    }
}

fn revision_of(object: &Value) -> Option<Revision> {
    object
        .pointer("/metadata/resourceVersion")?
        .as_str()?
        .parse()
        .ok()
}

fn at_revision(mut object: Value, revision: Revision) -> Value {
    object["metadata"]["resourceVersion"] = json!(revision.to_string());
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Key {
        Key {
            resource: "g/things".into(),
            path: path.into(),
        }
    }

    fn put(store: &Memory, path: &str, replaces: Option<u64>) -> Result<Arc<Value>, Stale> {
        let object = Some(json!({"metadata": {"name": path}}));
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
        assert_eq!(put(&store, "a", None), Err(Stale));
        assert_eq!(put(&store, "a", Some(7)), Err(Stale));
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
