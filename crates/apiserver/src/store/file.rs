//! The store that keeps everything in one file as well as in memory.
//!
//! The file is a log of changes (`file/record.rs`); reads never touch it. A write is queued, one
//! thread appends all that are queued and syncs once for all of them, and only then are they
//! visible and answered. So what anybody has seen survives `kill -9` and power loss, and many
//! writers share one sync.
//!
//! A key-value store would give nothing that is needed here: all objects are in memory for watches
//! and lists, so the disk is written in order and read once.

mod load;
mod log;
mod queue;
mod record;
mod rewrite;

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use self::{
    log::{Durable, Log, beside, sync_folder},
    queue::{Pending, Queue},
};
use super::{Event, Expired, Kept, Key, Refusal, Revision, Snapshot, Store, Write, state::State};

/// Why a store's file could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refused something.
    #[error("opening the store {}", path.display())]
    System {
        /// The store's file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("opening the store {}: another process is using it", path.display())]
    InUse {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("opening the store {}: the file is not a store of this version", path.display())]
    Foreign {
        /// The store's file.
        path: PathBuf,
    },
    /// The file was changed behind our back, or the disk is failing.
    #[error(
        "opening the store {}: it is damaged at byte {offset}: {why}; put a backup in its place",
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
pub(crate) struct File {
    shared: Arc<Shared>,
    durable: Arc<Mutex<Durable>>,
    writer: Option<thread::JoinHandle<()>>,
}

/// What writers, readers and the one thread that writes have in common.
struct Shared {
    state: RwLock<State>,
    risen: watch::Sender<Revision>,
    queue: Queue,
}

impl File {
    /// Opens or creates a store that remembers the last `history` changes.
    pub(crate) fn open(path: &Path, history: usize) -> Result<Self, OpenError> {
        let (log, state) = Log::open(path, history)?;
        let revision = state.revision();
        let shared = Arc::new(Shared {
            state: RwLock::new(state),
            risen: watch::Sender::new(revision),
            queue: Queue::new(revision),
        });
        let durable = log.durable();
        let writer = thread::Builder::new()
            .name("store".to_owned())
            .spawn({
                let shared = shared.clone();
                move || shared.write_all(log)
            })
            .map_err(OpenError::reading(path))?;
        Ok(Self {
            shared,
            durable,
            writer: Some(writer),
        })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Shared {
    /// Writes what is queued until the store is closed.
    fn write_all(&self, mut log: Log) {
        while let Some(batch) = self.queue.take() {
            let events: Vec<_> = batch.iter().map(|pending| pending.event.clone()).collect();
            match log.append(&events) {
                Ok(()) => self.publish(batch),
                Err(failure) => {
                    let revision = self.state.read().revision();
                    self.queue.fail(batch, &failure, revision);
                }
            }
            log.finish_rewrite(false);
            if log.is_worth_rewriting() {
                let state = self.state.read().unwound();
                log.begin_rewrite(state);
            }
        }
        log.finish_rewrite(true);
        let revision = self.state.read().revision();
        // Only a note; without it the last records cannot be told from a torn end.
        let _ = log.close(revision);
    }

    /// Shows durable changes to everybody, then answers those who made them.
    fn publish(&self, batch: Vec<Pending>) {
        let mut state = self.state.write();
        for pending in &batch {
            state.apply(pending.event.clone());
        }
        let revision = state.revision();
        drop(state);
        self.risen.send_replace(revision);
        self.queue.settle(batch);
    }

    async fn commit(&self, mut write: Write) -> Result<Arc<Kept>, Refusal> {
        loop {
            match self.queue.push(&self.state, write)? {
                queue::Place::Queued(answer) => {
                    let closed = |_| Refusal::Failed("the store is closed".into());
                    return answer.await.map_err(closed)?;
                }
                queue::Place::Behind(earlier, mut settled) => {
                    // Whether this write still fits is known when the one before it is done.
                    write = earlier;
                    let _ = settled.changed().await;
                }
            }
        }
    }
}

impl Store for File {
    fn revision(&self) -> Revision {
        self.shared.state.read().revision()
    }

    fn kept(&self, key: &Key) -> Option<Arc<Kept>> {
        self.shared.state.read().get(key).cloned()
    }

    fn list(
        &self,
        resource: &str,
        prefix: &str,
        at: Option<Revision>,
    ) -> Result<Snapshot, Expired> {
        self.shared.state.read().list(resource, prefix, at)
    }

    fn commit(&self, write: Write) -> BoxFuture<'_, Result<Arc<Kept>, Refusal>> {
        self.shared.commit(write).boxed()
    }

    fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Arc<Event>>, Expired> {
        let state = self.shared.state.read();
        Ok(state.changes_after(after)?.take(limit).cloned().collect())
    }

    fn risen(&self) -> watch::Receiver<Revision> {
        self.shared.risen.subscribe()
    }

    /// The log up to some record is the state at that moment, so a copy of that much is a backup.
    fn backup(&self, to: &Path) -> io::Result<()> {
        let Durable { file, length } = self.durable.lock().clone();
        let temporary = beside(to, ".new");
        let outcome = copy(&file, length, &temporary)
            .and_then(|()| fs::hard_link(&temporary, to))
            .and_then(|()| sync_folder(to));
        let _ = fs::remove_file(&temporary);
        outcome
    }
}

fn copy(from: &fs::File, length: u64, to: &Path) -> io::Result<()> {
    let mut target = private(to)?;
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

/// An empty file that only its owner may read.
fn private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

#[cfg(test)]
mod tests;
