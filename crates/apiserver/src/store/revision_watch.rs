//! Tells watches that there is a newer revision.
//!
//! Whoever waits is woken in the order in which they began to. A `tokio::sync::watch` wakes in an order
//! that nobody can seed, so that no simulation on top of it could be repeated.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

use super::StoreRevision;

/// The revision of a store, which others follow.
pub(super) struct RevisionSender(Arc<Shared>);

/// Follows the revision of a store.
pub(crate) struct RevisionReceiver {
    shared: Arc<Shared>,
    seen: StoreRevision,
}

/// The store is gone.
#[derive(Debug)]
pub(crate) struct StoreClosed;

struct Shared {
    revision: AtomicU64,
    is_closed: AtomicBool,
    changed: Notify,
}

impl RevisionSender {
    pub(super) fn new(revision: StoreRevision) -> Self {
        Self(Arc::new(Shared {
            revision: AtomicU64::new(revision),
            is_closed: AtomicBool::new(false),
            changed: Notify::new(),
        }))
    }

    pub(super) fn send(&self, revision: StoreRevision) {
        self.0.revision.store(revision, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// The current revision counts as seen.
    pub(super) fn subscribe(&self) -> RevisionReceiver {
        RevisionReceiver {
            seen: self.0.revision.load(Ordering::SeqCst),
            shared: self.0.clone(),
        }
    }
}

impl Drop for RevisionSender {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl RevisionReceiver {
    /// The current revision, which then counts as seen.
    pub(crate) fn update(&mut self) -> StoreRevision {
        self.seen = self.shared.revision.load(Ordering::SeqCst);
        self.seen
    }

    /// Waits for another revision than the one that was seen.
    pub(crate) async fn changed(&mut self) -> Result<StoreRevision, StoreClosed> {
        let shared = self.shared.clone();
        loop {
            let mut changed = pin!(shared.changed.notified());
            changed.as_mut().enable();
            let seen = self.seen;
            if self.update() != seen {
                return Ok(self.seen);
            }
            if shared.is_closed.load(Ordering::SeqCst) {
                return Err(StoreClosed);
            }
            changed.await;
        }
    }

    /// Waits until the revision is at least this one.
    pub(crate) async fn reached(&mut self, revision: StoreRevision) -> Result<(), StoreClosed> {
        let mut current = self.update();
        while current < revision {
            current = self.changed().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_receiver_sees_each_newer_revision_once_and_the_end() {
        let sender = RevisionSender::new(3);
        let mut receiver = sender.subscribe();
        assert!(receiver.changed().now_or_never().is_none());
        sender.send(4);
        sender.send(5);
        assert_eq!(receiver.changed().await.ok(), Some(5));
        assert!(receiver.reached(5).now_or_never().is_some());
        assert!(receiver.reached(6).now_or_never().is_none());
        drop(sender);
        assert!(receiver.changed().await.is_err());
    }

    #[tokio::test]
    async fn receivers_are_woken_in_the_order_in_which_they_began_to_wait() {
        let (sender, woken) = (RevisionSender::new(0), Arc::new(Mutex::new(Vec::new())));
        let waiting: Vec<_> = (0..32)
            .map(|number| {
                let (mut receiver, woken) = (sender.subscribe(), woken.clone());
                tokio::spawn(async move {
                    receiver.changed().await.expect("a revision");
                    woken.lock().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        sender.send(1);
        futures::future::join_all(waiting).await;
        assert_eq!(*woken.lock(), (0..32).collect::<Vec<_>>());
    }
}
