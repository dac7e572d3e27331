//! A store in memory whose commits are also in a file.
//!
//! The file is a log of events (`file/record.rs`) and is read only when the store is opened. A write
//! is queued; one thread appends all queued writes with one sync, and only then are they visible and
//! answered. So what a client has seen survives `kill -9` and power loss.
//!
//! No embedded database is needed: all objects are in memory for watches and lists, so the disk is
//! written sequentially and read once.

mod compaction;
mod load;
mod log;
mod queue;
mod record;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::{Mutex, RwLock};

use self::{
    log::{DurableFile, Log, sibling, sync_folder},
    queue::{PendingWrite, WriteQueue},
};
use super::{
    CommitError, ObjectWrite, RevisionExpired, RevisionReceiver, Snapshot, Store, StoreEvent,
    StoreKey, StoreRevision, StoredObject, revision_watch::RevisionSender, state::StoreState,
};

/// Why a store's file could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refused something.
    #[error("cannot open the store {}", path.display())]
    System {
        /// The store's file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("cannot open the store {}: another process is using it", path.display())]
    InUse {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("cannot open the store {}: the file is not a store of this version", path.display())]
    Foreign {
        /// The store's file.
        path: PathBuf,
    },
    /// Another program changed the file, or the disk is failing.
    #[error(
        "cannot open the store {}: it is damaged at byte {offset}: {why}; put a backup in its place",
        path.display()
    )]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// Where the damage was found.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
}

impl OpenError {
    fn reading(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::System {
            path: path.to_owned(),
            source,
        }
    }
}

/// A store in a file.
pub(crate) struct FileStore {
    core: Arc<FileStoreCore>,
    durable: Arc<Mutex<DurableFile>>,
    writer: Option<thread::JoinHandle<()>>,
}

/// What the store shares with the thread that writes the log.
struct FileStoreCore {
    state: RwLock<StoreState>,
    revision_watch: RevisionSender,
    queue: WriteQueue,
}

impl FileStore {
    /// Opens or creates a store with a history of the last `history` events.
    pub(crate) fn open(path: &Path, history: usize) -> Result<Self, OpenError> {
        let (log, state) = Log::open(path, history)?;
        let revision = state.revision();
        let core = Arc::new(FileStoreCore {
            state: RwLock::new(state),
            revision_watch: RevisionSender::new(revision),
            queue: WriteQueue::new(revision),
        });
        let durable = log.durable();
        let writer = thread::Builder::new()
            .name("store".to_owned())
            .spawn({
                let core = core.clone();
                move || core.write_queued(log)
            })
            .map_err(OpenError::reading(path))?;
        Ok(Self {
            core,
            durable,
            writer: Some(writer),
        })
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        self.core.queue.close();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl FileStoreCore {
    /// Writes what is queued until the store is closed.
    fn write_queued(&self, mut log: Log) {
        while let Some(batch) = self.queue.take() {
            let events: Vec<_> = batch.iter().map(|pending| pending.event.clone()).collect();
            match log.append(&events) {
                Ok(()) => self.publish(batch),
                Err(error) => {
                    let revision = self.state.read().revision();
                    self.queue.fail(batch, &error, revision);
                }
            }
            log.finish_compaction(false);
            if log.needs_compaction() {
                let state = self.state.read().checkpoint();
                log.start_compaction(state);
            }
        }
        log.finish_compaction(true);
        let revision = self.state.read().revision();
        // Without this record, complete last records look like an incomplete end.
        let _ = log.close(revision);
    }

    /// Makes durable writes visible, then answers their writers.
    fn publish(&self, batch: Vec<PendingWrite>) {
        let mut state = self.state.write();
        for pending in &batch {
            state.apply(pending.event.clone());
        }
        let revision = state.revision();
        drop(state);
        self.revision_watch.send(revision);
        self.queue.complete(batch);
    }

    async fn commit(&self, mut write: ObjectWrite) -> Result<Arc<StoredObject>, CommitError> {
        loop {
            match self.queue.push(&self.state, write)? {
                queue::PushResult::Queued(answer) => {
                    let closed = |_| CommitError::Failed("the store is closed".into());
                    return answer.await.map_err(closed)?;
                }
                queue::PushResult::Blocked(blocked, mut completed) => {
                    // It is compared with the result of the earlier write of the same object.
                    write = blocked;
                    let _ = completed.changed().await;
                }
            }
        }
    }
}

impl Store for FileStore {
    fn revision(&self) -> StoreRevision {
        self.core.state.read().revision()
    }

    fn object(&self, key: &StoreKey) -> Option<Arc<StoredObject>> {
        self.core.state.read().get(key).cloned()
    }

    fn list(
        &self,
        resource: &str,
        prefix: &str,
        at: Option<StoreRevision>,
    ) -> Result<Snapshot, RevisionExpired> {
        self.core.state.read().list(resource, prefix, at)
    }

    fn commit(&self, write: ObjectWrite) -> BoxFuture<'_, Result<Arc<StoredObject>, CommitError>> {
        self.core.commit(write).boxed()
    }

    fn events(
        &self,
        after: StoreRevision,
        limit: usize,
    ) -> Result<Vec<Arc<StoreEvent>>, RevisionExpired> {
        let state = self.core.state.read();
        Ok(state.events_after(after)?.take(limit).cloned().collect())
    }

    fn revision_watch(&self) -> RevisionReceiver {
        self.core.revision_watch.subscribe()
    }

    fn all_objects(&self) -> (StoreRevision, BTreeMap<StoreKey, Arc<StoredObject>>) {
        let state = self.core.state.read();
        (state.revision(), state.objects().clone())
    }

    /// The log up to some record is the state at that moment, so a copy of its durable part is a
    /// backup.
    fn backup(&self, to: &Path) -> io::Result<()> {
        let DurableFile { file, length } = self.durable.lock().clone();
        let temporary = sibling(to, ".new");
        let copied = copy(&file, length, &temporary)
            .and_then(|()| fs::hard_link(&temporary, to))
            .and_then(|()| sync_folder(to));
        let _ = fs::remove_file(&temporary);
        copied
    }
}

fn copy(from: &fs::File, length: u64, to: &Path) -> io::Result<()> {
    let mut target = create_private(to)?;
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < length {
        let wanted =
            usize::try_from(length - offset).map_or(buffer.len(), |it| it.min(buffer.len()));
        from.read_exact_at(&mut buffer[..wanted], offset)?;
        target.write_all(&buffer[..wanted])?;
        offset += wanted as u64;
    }
    target.sync_all()
}

/// Creates or truncates a file that only its owner may read.
fn create_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

#[cfg(test)]
mod tests;
