//! Where objects are kept: a small trait, and what crosses it.
//!
//! A store is a map from key to object plus the recent changes in order. It promises that a commit
//! is atomic and compared against the revision the writer saw, that revisions only rise, and that
//! the state at any revision still in the history can be listed. It never looks inside an object
//! beyond setting `metadata.resourceVersion`.

mod file;
mod kept;
mod memory;
mod state;

use std::{path::Path, sync::Arc};

use futures::future::BoxFuture;
use serde_json::Value;

pub(crate) use file::File;
pub use file::OpenError;
pub(crate) use kept::{Draft, Kept};
pub(crate) use memory::Memory;

/// Counts committed changes; an object's `resourceVersion` is the revision of its last change.
pub(crate) type Revision = u64;

/// Names one object in the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// `group/plural`: the same for every version of a kind.
    pub(crate) resource: Arc<str>,
    /// `namespace/name`, or `name`. Lists are in the byte order of this, as on a real server.
    pub(crate) path: String,
}

impl Key {
    /// The key of an object; `namespace` is `None` for cluster-scoped kinds.
    pub(crate) fn new(resource: Arc<str>, namespace: Option<&str>, name: &str) -> Self {
        let path = match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        Self { resource, path }
    }
}

/// As many bytes as an object may have as JSON, `managedFields` included. Every request adds at most
/// a body's worth; this bounds what many of them make of one object.
pub(crate) const LARGEST: usize = crate::body::LIMIT;

/// A change to one key, valid only while the object is still at `replaces`.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) key: Key,
    /// The revision of the object that the writer saw; `None`: there was none.
    pub(crate) replaces: Option<Revision>,
    /// The object to keep; `None` removes it.
    pub(crate) object: Option<Draft>,
}

impl Write {
    /// Removes an object as somebody saw it.
    pub(crate) fn removal(key: &Key, seen: &Kept) -> Self {
        Self {
            key: key.clone(),
            replaces: Some(seen.revision()),
            object: None,
        }
    }
}

/// One committed change.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    pub(crate) object: Option<Arc<Kept>>,
    pub(crate) previous: Option<Arc<Kept>>,
    /// What a watcher is shown when the object is gone: its last state at this revision.
    pub(crate) tombstone: Option<Arc<Kept>>,
}

impl Event {
    /// The object as the change left it: its new state, or its last one if it is gone.
    pub(crate) fn outcome(&self) -> Arc<Kept> {
        let left = self.object.as_ref().or(self.tombstone.as_ref());
        left.expect("what goes away leaves a tombstone").clone()
    }
}

/// The objects of one resource at one revision, in key order.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) objects: Vec<(Key, Arc<Kept>)>,
}

/// The object is not at the revision that the writer saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stale;

/// Why a change was not made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Somebody else was faster.
    Stale,
    /// The object would have more than [`LARGEST`] bytes.
    TooLarge,
    /// It could not be kept, for this reason; nothing has changed.
    Failed(Arc<str>),
}

impl From<Stale> for Refusal {
    fn from(Stale: Stale) -> Self {
        Self::Stale
    }
}

/// The asked revision is older than the history reaches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest revision that could have been asked for.
    pub(crate) oldest: Revision,
}

/// Keeps objects and their recent history.
pub(crate) trait Store: Send + Sync + 'static {
    /// The revision of the newest commit.
    fn revision(&self) -> Revision;

    /// The object under `key` now.
    fn kept(&self, key: &Key) -> Option<Arc<Kept>>;

    /// Like [`Store::kept`], without its `managedFields`.
    fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.kept(key).map(|kept| kept.value())
    }

    /// The objects of `resource` whose path starts with `prefix`, now or at an earlier revision.
    fn list(&self, resource: &str, prefix: &str, at: Option<Revision>)
    -> Result<Snapshot, Expired>;

    /// Makes one change, and answers with the object as it is then (its last state, if removed).
    /// Whoever can see the change can rely on it: where it is kept on disk, it is there by then.
    fn commit(&self, write: Write) -> BoxFuture<'_, Result<Arc<Kept>, Refusal>>;

    /// The changes after a revision, oldest first, at most `limit`.
    fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Arc<Event>>, Expired>;

    /// Says when the revision rises.
    fn risen(&self) -> tokio::sync::watch::Receiver<Revision>;

    /// Writes a copy of everything, as it is at some moment of the call, to a new file.
    fn backup(&self, to: &Path) -> std::io::Result<()>;
}
