//! A lock above the Lease, such as one between data centres, whose implementation is elsewhere.

use std::{fmt, sync::Arc};

use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::LeaseReceiver;

type Elect =
    dyn Fn(Arc<Notify>, CancellationToken) -> (LeaseReceiver, JoinHandle<()>) + Send + Sync;

/// A lock that a process must hold to compete for its Lease. Cloning shares it.
#[derive(Clone)]
pub struct OuterLock {
    /// Its name in metrics.
    pub name: &'static str,
    elect: Arc<Elect>,
}

impl OuterLock {
    /// A lock that `elect` competes for: see [`OuterLock::elect`].
    pub fn new(
        name: &'static str,
        elect: impl Fn(Arc<Notify>, CancellationToken) -> (LeaseReceiver, JoinHandle<()>)
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            name,
            elect: Arc::new(elect),
        }
    }

    /// Competes for the lock in the background until `release` is cancelled, and then releases it.
    /// A notification of `yield_lock` releases it for another process.
    pub fn elect(
        &self,
        yield_lock: Arc<Notify>,
        release: CancellationToken,
    ) -> (LeaseReceiver, JoinHandle<()>) {
        (self.elect)(yield_lock, release)
    }
}

impl fmt::Debug for OuterLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OuterLock({})", self.name)
    }
}
