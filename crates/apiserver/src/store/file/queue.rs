//! The queue of writes that are not durable yet.
//!
//! Each has its revision, so that they reach the disk and become visible in that order. There is at
//! most one per object: the next write of the same object waits for its result.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    sync::Arc,
};

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use super::{
    super::{
        CommitError, ObjectWrite, StoreEvent, StoreKey, StoreRevision, StoredObject,
        state::StoreState,
    },
    log::AppendError,
};

/// A planned event and the writer that waits for it.
pub(super) struct PendingWrite {
    pub(super) event: Arc<StoreEvent>,
    answer: oneshot::Sender<Result<Arc<StoredObject>, CommitError>>,
}

/// What became of a write.
pub(super) enum PushResult {
    /// It is queued; the receiver gets its result.
    Queued(oneshot::Receiver<Result<Arc<StoredObject>, CommitError>>),
    /// It is not queued because another write of the same object is; the receiver is notified when
    /// writes complete.
    Blocked(ObjectWrite, watch::Receiver<()>),
}

/// The queue.
pub(super) struct WriteQueue {
    state: Mutex<WriteQueueState>,
    has_writes: Condvar,
    completed: watch::Sender<()>,
}

struct WriteQueueState {
    waiting: VecDeque<PendingWrite>,
    /// The objects with a write that is waiting or being written.
    keys_in_flight: HashSet<StoreKey>,
    /// The revision of the newest write, visible or not.
    revision: StoreRevision,
    /// Why no more writes are accepted.
    write_error: Option<Arc<str>>,
    is_closed: bool,
}

impl WriteQueue {
    /// An empty queue after this revision.
    pub(super) fn new(revision: StoreRevision) -> Self {
        Self {
            state: Mutex::new(WriteQueueState {
                waiting: VecDeque::new(),
                keys_in_flight: HashSet::new(),
                revision,
                write_error: None,
                is_closed: false,
            }),
            has_writes: Condvar::new(),
            completed: watch::Sender::new(()),
        }
    }

    /// Queues a write if the object is at the expected revision.
    pub(super) fn push(
        &self,
        state: &RwLock<StoreState>,
        write: ObjectWrite,
    ) -> Result<PushResult, CommitError> {
        let mut queue = self.state.lock();
        if let Some(why) = &queue.write_error {
            return Err(CommitError::Failed(why.clone()));
        }
        if queue.keys_in_flight.contains(&write.key) {
            return Ok(PushResult::Blocked(write, self.completed.subscribe()));
        }
        let event = state.read().plan(write, queue.revision + 1)?;
        let (answer, answered) = oneshot::channel();
        queue.revision = event.revision;
        queue.keys_in_flight.insert(event.key.clone());
        queue.waiting.push_back(PendingWrite {
            event: Arc::new(event),
            answer,
        });
        self.has_writes.notify_one();
        Ok(PushResult::Queued(answered))
    }

    /// Waits for writes and takes them all; `None` once the store is closed.
    pub(super) fn take(&self) -> Option<Vec<PendingWrite>> {
        let mut queue = self.state.lock();
        while queue.waiting.is_empty() {
            if queue.is_closed {
                return None;
            }
            self.has_writes.wait(&mut queue);
        }
        Some(mem::take(&mut queue.waiting).into())
    }

    /// Answers writes that are durable and visible.
    pub(super) fn complete(&self, batch: Vec<PendingWrite>) {
        let mut queue = self.state.lock();
        for pending in &batch {
            queue.keys_in_flight.remove(&pending.event.key);
        }
        drop(queue);
        for pending in batch {
            // The write is durable even if its writer no longer waits.
            let _ = pending.answer.send(Ok(pending.event.resulting_object()));
        }
        self.completed.send_replace(());
    }

    /// Fails writes that were not appended, and all queued ones, whose revisions come after them.
    pub(super) fn fail(
        &self,
        mut batch: Vec<PendingWrite>,
        error: &AppendError,
        revision: StoreRevision,
    ) {
        let mut queue = self.state.lock();
        let why: Arc<str> = error.why.as_str().into();
        batch.extend(mem::take(&mut queue.waiting));
        queue.keys_in_flight.clear();
        queue.revision = revision;
        if error.is_final {
            queue.write_error =
                Some(format!("{why}; nothing is stored until the next start").into());
        }
        drop(queue);
        for pending in batch {
            let _ = pending.answer.send(Err(CommitError::Failed(why.clone())));
        }
        self.completed.send_replace(());
    }

    /// Lets what is queued be written; nothing is queued after that.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.has_writes.notify_one();
    }
}
