//! Spawns tasks. The one place to replace for a simulation.

use tokio::task::JoinHandle;

/// Runs a future in the background. Dropping the handle does not stop it.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}
