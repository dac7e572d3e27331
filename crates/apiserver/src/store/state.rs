//! What every store keeps in memory: the objects, the last changes in order, and the revision.
//!
//! It only ever moves from one revision to the next. It does not know whether a change is durable:
//! who applies one has seen to that.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{Event, Expired, Kept, Key, LARGEST, Refusal, Revision, Snapshot, Stale, Write};

/// How many of the newest states are kept parsed as well: watchers all ask for the same ones.
const PARSED: usize = 256;

/// Objects in a map, the last `history` changes in a queue.
pub(super) struct State {
    objects: BTreeMap<Key, Arc<Kept>>,
    /// Consecutive revisions, the newest last.
    changes: VecDeque<Arc<Event>>,
    revision: Revision,
    history: usize,
    /// Those whose parsed form is kept, the newest last.
    parsed: VecDeque<Arc<Kept>>,
}

/// Everything as it was at the oldest revision that is still known, and the changes since.
pub(super) struct Unwound {
    pub(super) base: Revision,
    pub(super) objects: BTreeMap<Key, Arc<Kept>>,
    pub(super) changes: Vec<Arc<Event>>,
}

impl State {
    /// Nothing, before the first revision.
    pub(super) fn new(history: usize) -> Self {
        Self::starting_at(0, BTreeMap::new(), history)
    }

    /// Objects as they were at a revision, with no memory of what came before.
    pub(super) fn starting_at(
        revision: Revision,
        objects: BTreeMap<Key, Arc<Kept>>,
        history: usize,
    ) -> Self {
        Self {
            objects,
            changes: VecDeque::new(),
            revision,
            history: history.max(1),
            parsed: VecDeque::new(),
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Kept>> {
        self.objects.get(key)
    }

    /// The objects of `resource` whose path starts with `prefix`, now or at an earlier revision.
    pub(super) fn list(
        &self,
        resource: &str,
        prefix: &str,
        at: Option<Revision>,
    ) -> Result<Snapshot, Expired> {
        let from = Key {
            resource: resource.into(),
            path: prefix.to_owned(),
        };
        let is_asked = |key: &Key| &*key.resource == resource && key.path.starts_with(prefix);
        let now = self
            .objects
            .range(from..)
            .take_while(|(key, _)| is_asked(key));
        let now = now.map(|(key, object)| (key.clone(), object.clone()));
        let revision = at.unwrap_or(self.revision).min(self.revision);
        let objects = if revision == self.revision {
            now.collect()
        } else {
            let undone = self.undo(now.collect(), revision, is_asked)?;
            undone.into_iter().collect()
        };
        Ok(Snapshot { revision, objects })
    }

    /// Everything that is known.
    pub(super) fn unwound(&self) -> Unwound {
        let base = self.oldest();
        let objects = self
            .undo(self.objects.clone(), base, |_| true)
            .expect("the oldest known revision is known");
        Unwound {
            base,
            objects,
            changes: self.changes.iter().cloned().collect(),
        }
    }

    fn undo(
        &self,
        mut objects: BTreeMap<Key, Arc<Kept>>,
        revision: Revision,
        is_asked: impl Fn(&Key) -> bool,
    ) -> Result<BTreeMap<Key, Arc<Kept>>, Expired> {
        for change in self.changes_after(revision)?.rev() {
            if is_asked(&change.key) {
                match &change.previous {
                    Some(previous) => objects.insert(change.key.clone(), previous.clone()),
                    None => objects.remove(&change.key),
                };
            }
        }
        Ok(objects)
    }

    /// The oldest revision after which every change is known.
    fn oldest(&self) -> Revision {
        let first = self.changes.front();
        first.map_or(self.revision, |first| first.revision - 1)
    }

    pub(super) fn changes_after(
        &self,
        after: Revision,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Expired> {
        let oldest = self.oldest();
        if after < oldest {
            return Err(Expired { oldest });
        }
        // Revisions are consecutive, so the position follows from the number.
        let skip = usize::try_from(after - oldest).unwrap_or(usize::MAX);
        Ok(self.changes.range(skip.min(self.changes.len())..))
    }

    /// What a write would change if it were made as `revision`; nothing changes yet.
    pub(super) fn plan(&self, write: Write, revision: Revision) -> Result<Event, Refusal> {
        let present = self.objects.get(&write.key);
        if present.map(|present| present.revision()) != write.replaces {
            return Err(Refusal::Stale);
        }
        let object = write.object.map(|draft| Kept::new(draft, revision));
        // What is larger already may become smaller.
        let most = present.map_or(0, |present| present.wire().len());
        if let Some(object) = &object
            && object.wire().len() > LARGEST.max(most)
        {
            return Err(Refusal::TooLarge);
        }
        Ok(self.event(write.key, object, revision)?)
    }

    /// The change that leaves this of an object; it must be there to go away.
    pub(super) fn event(
        &self,
        key: Key,
        object: Option<Kept>,
        revision: Revision,
    ) -> Result<Event, Stale> {
        let previous = self.objects.get(&key).cloned();
        let tombstone = match (&object, &previous) {
            (None, Some(previous)) => Some(Arc::new(previous.at(revision))),
            (None, None) => return Err(Stale),
            (Some(_), _) => None,
        };
        Ok(Event {
            revision,
            key,
            object: object.map(Arc::new),
            previous,
            tombstone,
        })
    }

    /// Makes the next change.
    pub(super) fn apply(&mut self, event: Arc<Event>) {
        debug_assert_eq!(
            event.revision,
            self.revision + 1,
            "revisions follow each other"
        );
        match &event.object {
            Some(object) => self.objects.insert(event.key.clone(), object.clone()),
            None => self.objects.remove(&event.key),
        };
        self.revision = event.revision;
        self.parsed.extend(event.object.clone());
        self.parsed.extend(event.tombstone.clone());
        self.changes.push_back(event);
        while self.parsed.len() > PARSED
            && let Some(old) = self.parsed.pop_front()
        {
            old.forget_parsed();
        }
        while self.changes.len() > self.history {
            self.changes.pop_front();
        }
    }
}
