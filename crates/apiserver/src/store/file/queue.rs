//! Writes that are on their way to the disk.
//!
//! Each has its revision already, so they reach the disk and become visible in that order. There is
//! at most one per object: the next one waits until it is known what it is compared with.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    sync::Arc,
};

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use super::{
    super::{Event, Kept, Key, Refusal, Revision, Write, state::State},
    log::Failure,
};

/// A planned change and whoever waits for it.
pub(super) struct Pending {
    pub(super) event: Arc<Event>,
    answer: oneshot::Sender<Result<Arc<Kept>, Refusal>>,
}

/// Where a write ended up.
pub(super) enum Place {
    /// On its way; this will say how it went.
    Queued(oneshot::Receiver<Result<Arc<Kept>, Refusal>>),
    /// Not queued, because another write of the same object is; this will say when one is done.
    Behind(Write, watch::Receiver<()>),
}

/// The writes on their way.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    filled: Condvar,
    settled: watch::Sender<()>,
}

struct Inner {
    waiting: VecDeque<Pending>,
    /// The objects with a write that is waiting or being written.
    busy: HashSet<Key>,
    /// The revision of the newest write, visible or not.
    revision: Revision,
    /// Why nothing more is taken.
    broken: Option<Arc<str>>,
    is_closed: bool,
}

impl Queue {
    /// An empty queue behind this revision.
    pub(super) fn new(revision: Revision) -> Self {
        Self {
            inner: Mutex::new(Inner {
                waiting: VecDeque::new(),
                busy: HashSet::new(),
                revision,
                broken: None,
                is_closed: false,
            }),
            filled: Condvar::new(),
            settled: watch::Sender::new(()),
        }
    }

    /// Queues a write if it fits the object as it is.
    pub(super) fn push(&self, state: &RwLock<State>, write: Write) -> Result<Place, Refusal> {
        let mut inner = self.inner.lock();
        if let Some(why) = &inner.broken {
            return Err(Refusal::Failed(why.clone()));
        }
        if inner.busy.contains(&write.key) {
            return Ok(Place::Behind(write, self.settled.subscribe()));
        }
        let event = state.read().plan(write, inner.revision + 1)?;
        let (answer, answered) = oneshot::channel();
        inner.revision = event.revision;
        inner.busy.insert(event.key.clone());
        inner.waiting.push_back(Pending {
            event: Arc::new(event),
            answer,
        });
        self.filled.notify_one();
        Ok(Place::Queued(answered))
    }

    /// Waits for writes and takes them all; nothing once the store is closed.
    pub(super) fn take(&self) -> Option<Vec<Pending>> {
        let mut inner = self.inner.lock();
        while inner.waiting.is_empty() {
            if inner.is_closed {
                return None;
            }
            self.filled.wait(&mut inner);
        }
        Some(mem::take(&mut inner.waiting).into())
    }

    /// Answers writes that are durable and visible.
    pub(super) fn settle(&self, batch: Vec<Pending>) {
        let mut inner = self.inner.lock();
        for pending in &batch {
            inner.busy.remove(&pending.event.key);
        }
        drop(inner);
        for pending in batch {
            // Who no longer waits for the answer has made the change all the same.
            let _ = pending.answer.send(Ok(pending.event.outcome()));
        }
        self.settled.send_replace(());
    }

    /// Answers writes that did not happen, and those behind them: their revisions follow on these.
    pub(super) fn fail(&self, mut batch: Vec<Pending>, failure: &Failure, revision: Revision) {
        let mut inner = self.inner.lock();
        let why: Arc<str> = failure.why.as_str().into();
        batch.extend(mem::take(&mut inner.waiting));
        inner.busy.clear();
        inner.revision = revision;
        if failure.is_final {
            inner.broken = Some(format!("{why}; nothing is stored until the next start").into());
        }
        drop(inner);
        for pending in batch {
            let _ = pending.answer.send(Err(Refusal::Failed(why.clone())));
        }
        self.settled.send_replace(());
    }

    /// Lets what is queued be written, and nothing more.
    pub(super) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.filled.notify_one();
    }
}
