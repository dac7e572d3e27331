//! The store of objects: a trait with a memory and a file implementation.
//!
//! A store is a map from key to object plus the recent events in order. It guarantees that a commit
//! is atomic and compares the revision that the writer read, that revisions only increase, and that
//! the state at any revision in the history can be listed. It does not interpret objects except for
//! setting `metadata.resourceVersion`.

mod file;
mod memory;
mod object;
mod revision_watch;
mod state;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use futures::future::BoxFuture;
use serde_json::Value;

pub(crate) use file::FileStore;
pub use file::OpenError;
pub(crate) use memory::MemoryStore;
pub(crate) use object::{ObjectToStore, StoredObject};
pub(crate) use revision_watch::RevisionReceiver;

/// Counts commits; an object's `resourceVersion` is the revision of its last commit.
pub(crate) type StoreRevision = u64;

/// Identifies one object in the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreKey {
    /// `group/plural`: the same for every version of a kind.
    pub(crate) resource: Arc<str>,
    /// `namespace/name`, or `name`. Lists are in the byte order of this, as in kube-apiserver.
    pub(crate) path: String,
}

impl StoreKey {
    /// The key of an object; `namespace` is `None` for cluster-scoped kinds.
    pub(crate) fn new(resource: Arc<str>, namespace: Option<&str>, name: &str) -> Self {
        let path = match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        Self { resource, path }
    }
}

/// The maximum size of an object as JSON, `managedFields` included. Bodies have the same limit; this
/// one also limits what many small requests make of one object.
pub(crate) const OBJECT_SIZE_LIMIT: usize = crate::body::LIMIT;

/// A write of one object by compare and swap.
#[derive(Debug)]
pub(crate) struct ObjectWrite {
    pub(crate) key: StoreKey,
    /// The revision of the object that the writer read; `None` if there was no object.
    pub(crate) expected_revision: Option<StoreRevision>,
    /// The object to store; `None` removes it.
    pub(crate) object: Option<ObjectToStore>,
}

impl ObjectWrite {
    /// Removes an object if it is still the one that the writer read.
    pub(crate) fn removal(key: &StoreKey, read: &StoredObject) -> Self {
        Self {
            key: key.clone(),
            expected_revision: Some(read.revision()),
            object: None,
        }
    }
}

/// One committed write.
#[derive(Debug)]
pub(crate) struct StoreEvent {
    pub(crate) revision: StoreRevision,
    pub(crate) key: StoreKey,
    pub(crate) object: Option<Arc<StoredObject>>,
    pub(crate) previous: Option<Arc<StoredObject>>,
    /// For a removal: the last state of the object, at this revision, as watches send it.
    pub(crate) deleted_object: Option<Arc<StoredObject>>,
}

impl StoreEvent {
    /// The new state of the object, or the last one if it was removed.
    pub(crate) fn resulting_object(&self) -> Arc<StoredObject> {
        let object = self.object.as_ref().or(self.deleted_object.as_ref());
        object.expect("a removal has the deleted object").clone()
    }
}

/// The objects of one resource at one revision, in key order.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) revision: StoreRevision,
    pub(crate) objects: Vec<(StoreKey, Arc<StoredObject>)>,
}

/// The object is not at the revision that the writer read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RevisionConflict;

/// Why a write was not committed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommitError {
    /// The object is not at the expected revision.
    Conflict,
    /// The object would have more than [`OBJECT_SIZE_LIMIT`] bytes.
    TooLarge,
    /// It could not be stored, for this reason; nothing has changed.
    Failed(Arc<str>),
}

impl From<RevisionConflict> for CommitError {
    fn from(RevisionConflict: RevisionConflict) -> Self {
        Self::Conflict
    }
}

/// The requested revision is older than the history.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RevisionExpired {
    /// The oldest revision in the history.
    pub(crate) oldest: StoreRevision,
}

/// Stores objects and their recent history.
pub(crate) trait Store: Send + Sync + 'static {
    /// The revision of the newest commit.
    fn revision(&self) -> StoreRevision;

    /// The object under `key` now.
    fn object(&self, key: &StoreKey) -> Option<Arc<StoredObject>>;

    /// The object under `key` now, parsed and without its `managedFields`.
    fn value(&self, key: &StoreKey) -> Option<Arc<Value>> {
        self.object(key).map(|object| object.value())
    }

    /// The objects of `resource` whose path starts with `prefix`, now or at an earlier revision.
    fn list(
        &self,
        resource: &str,
        prefix: &str,
        at: Option<StoreRevision>,
    ) -> Result<Snapshot, RevisionExpired>;

    /// Commits one write and returns the object (its last state, if removed). A commit becomes
    /// visible only after it is durable.
    fn commit(&self, write: ObjectWrite) -> BoxFuture<'_, Result<Arc<StoredObject>, CommitError>>;

    /// The events after a revision, oldest first, at most `limit`.
    fn events(
        &self,
        after: StoreRevision,
        limit: usize,
    ) -> Result<Vec<Arc<StoreEvent>>, RevisionExpired>;

    /// Follows the revision of the newest commit.
    fn revision_watch(&self) -> RevisionReceiver;

    /// The newest revision and all objects at it.
    fn all_objects(&self) -> (StoreRevision, BTreeMap<StoreKey, Arc<StoredObject>>);

    /// Writes a consistent copy of everything to a new file.
    fn backup(&self, to: &Path) -> std::io::Result<()>;
}
