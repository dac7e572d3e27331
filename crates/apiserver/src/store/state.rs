//! The in-memory state of every store: the objects, the last events in order, and the revision.
//!
//! It moves from one revision to the next. Durability is up to the caller, which applies an event
//! only after it is durable.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{
    CommitError, OBJECT_SIZE_LIMIT, ObjectWrite, RevisionConflict, RevisionExpired, Snapshot,
    StoreEvent, StoreKey, StoreRevision, StoredObject,
};

/// How many of the newest objects stay parsed, for the watches that all read the same ones.
const PARSED_OBJECTS: usize = 256;

/// The objects, and the last `history` events.
pub(super) struct StoreState {
    objects: BTreeMap<StoreKey, Arc<StoredObject>>,
    /// Consecutive revisions, the newest last.
    events: VecDeque<Arc<StoreEvent>>,
    revision: StoreRevision,
    history: usize,
    /// The objects that stay parsed, the newest last.
    parsed: VecDeque<Arc<StoredObject>>,
}

/// The objects at the oldest revision in the history, and all events since.
pub(super) struct Checkpoint {
    pub(super) base_revision: StoreRevision,
    pub(super) objects: BTreeMap<StoreKey, Arc<StoredObject>>,
    pub(super) events: Vec<Arc<StoreEvent>>,
}

impl StoreState {
    /// An empty store before the first revision.
    pub(super) fn new(history: usize) -> Self {
        Self::at_revision(0, BTreeMap::new(), history)
    }

    /// Objects at a revision, without history.
    pub(super) fn at_revision(
        revision: StoreRevision,
        objects: BTreeMap<StoreKey, Arc<StoredObject>>,
        history: usize,
    ) -> Self {
        Self {
            objects,
            events: VecDeque::new(),
            revision,
            history: history.max(1),
            parsed: VecDeque::new(),
        }
    }

    pub(super) fn revision(&self) -> StoreRevision {
        self.revision
    }

    pub(super) fn objects(&self) -> &BTreeMap<StoreKey, Arc<StoredObject>> {
        &self.objects
    }

    pub(super) fn get(&self, key: &StoreKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(key)
    }

    /// The objects of `resource` whose path starts with `prefix`, now or at an earlier revision.
    pub(super) fn list(
        &self,
        resource: &str,
        prefix: &str,
        at: Option<StoreRevision>,
    ) -> Result<Snapshot, RevisionExpired> {
        let from = StoreKey {
            resource: resource.into(),
            path: prefix.to_owned(),
        };
        let is_requested =
            |key: &StoreKey| &*key.resource == resource && key.path.starts_with(prefix);
        let now = self
            .objects
            .range(from..)
            .take_while(|(key, _)| is_requested(key));
        let now = now.map(|(key, object)| (key.clone(), object.clone()));
        let revision = at.unwrap_or(self.revision).min(self.revision);
        let objects = if revision == self.revision {
            now.collect()
        } else {
            let undone = self.undo(now.collect(), revision, is_requested)?;
            undone.into_iter().collect()
        };
        Ok(Snapshot { revision, objects })
    }

    /// The state and its whole history.
    pub(super) fn checkpoint(&self) -> Checkpoint {
        let base_revision = self.oldest();
        let objects = self
            .undo(self.objects.clone(), base_revision, |_| true)
            .expect("the oldest revision is in the history");
        Checkpoint {
            base_revision,
            objects,
            events: self.events.iter().cloned().collect(),
        }
    }

    fn undo(
        &self,
        mut objects: BTreeMap<StoreKey, Arc<StoredObject>>,
        revision: StoreRevision,
        is_requested: impl Fn(&StoreKey) -> bool,
    ) -> Result<BTreeMap<StoreKey, Arc<StoredObject>>, RevisionExpired> {
        for event in self.events_after(revision)?.rev() {
            if is_requested(&event.key) {
                match &event.previous {
                    Some(previous) => objects.insert(event.key.clone(), previous.clone()),
                    None => objects.remove(&event.key),
                };
            }
        }
        Ok(objects)
    }

    /// The oldest revision after which every event is in the history.
    fn oldest(&self) -> StoreRevision {
        let first = self.events.front();
        first.map_or(self.revision, |first| first.revision - 1)
    }

    pub(super) fn events_after(
        &self,
        after: StoreRevision,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<StoreEvent>>, RevisionExpired> {
        let oldest = self.oldest();
        if after < oldest {
            return Err(RevisionExpired { oldest });
        }
        // Revisions are consecutive, so the position follows from the number.
        let skip = usize::try_from(after - oldest).unwrap_or(usize::MAX);
        Ok(self.events.range(skip.min(self.events.len())..))
    }

    /// The event of a write if it were committed as `revision`; nothing is applied yet.
    pub(super) fn plan(
        &self,
        write: ObjectWrite,
        revision: StoreRevision,
    ) -> Result<StoreEvent, CommitError> {
        let present = self.objects.get(&write.key);
        if present.map(|present| present.revision()) != write.expected_revision {
            return Err(CommitError::Conflict);
        }
        let object = write.object.map(|draft| StoredObject::new(draft, revision));
        // An object that is already larger may shrink.
        let largest = present.map_or(0, |present| present.wire().len());
        if let Some(object) = &object
            && object.wire().len() > OBJECT_SIZE_LIMIT.max(largest)
        {
            return Err(CommitError::TooLarge);
        }
        Ok(self.event(write.key, object, revision)?)
    }

    /// The event that stores or removes an object; an object that is removed must exist.
    pub(super) fn event(
        &self,
        key: StoreKey,
        object: Option<StoredObject>,
        revision: StoreRevision,
    ) -> Result<StoreEvent, RevisionConflict> {
        let previous = self.objects.get(&key).cloned();
        let deleted_object = match (&object, &previous) {
            (None, Some(previous)) => Some(Arc::new(previous.at(revision))),
            (None, None) => return Err(RevisionConflict),
            (Some(_), _) => None,
        };
        Ok(StoreEvent {
            revision,
            key,
            object: object.map(Arc::new),
            previous,
            deleted_object,
        })
    }

    /// Applies the event with the next revision.
    pub(super) fn apply(&mut self, event: Arc<StoreEvent>) {
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
        self.parsed.extend(event.deleted_object.clone());
        self.events.push_back(event);
        while self.parsed.len() > PARSED_OBJECTS
            && let Some(old) = self.parsed.pop_front()
        {
            old.drop_parsed();
        }
        while self.events.len() > self.history {
            self.events.pop_front();
        }
    }
}
