//! Runs work that blocks: on another thread, or right here where the runtime has only one.
//!
//! A runtime with a single thread is one of a test or of a simulation, which repeats itself only if
//! everything happens in one order.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work`; nothing if it panics.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Some(work()),
        _ => tokio::task::spawn_blocking(work).await.ok(),
    }
}

/// Runs `work` on files.
pub(crate) async fn on_files<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let interrupted = || Err(std::io::Error::other("the work was interrupted"));
    run(work).await.unwrap_or_else(interrupted)
}
