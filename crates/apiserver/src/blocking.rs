//! Runs work that may take seconds without blocking other requests.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work` on this thread, while the tasks that this thread had to run go to another one. Where
/// the runtime has a single thread, `work` simply runs.
pub(crate) fn run<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
