//! SIGTERM and SIGINT start a graceful shutdown. A second signal, or a shutdown that takes too long,
//! exits at once.

use std::{io, thread, time::Duration};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Time limit of a graceful shutdown; shorter than the kubelet's default grace period.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(25);

/// Cancelled by the first signal.
pub(crate) fn shutdown() -> io::Result<CancellationToken> {
    listen(|why| {
        tracing::warn!("exiting without a graceful shutdown: {why}");
        std::process::exit(1);
    })
}

/// Listens on a thread of its own, so that signals work even if all other threads are blocked.
fn listen(exit_now: impl FnOnce(&str) + Send + 'static) -> io::Result<CancellationToken> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    drop(inside);
    let shutdown = CancellationToken::new();
    let cancelled = shutdown.clone();
    let wait = async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let signal = next().await;
        tracing::info!(signal, "shutting down");
        cancelled.cancel();
        match tokio::time::timeout(SHUTDOWN_TIMEOUT, next()).await {
            Ok(signal) => exit_now(signal),
            Err(_) => exit_now("the graceful shutdown took too long"),
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(wait))?;
    Ok(shutdown)
}

#[cfg(test)]
mod tests {
    use std::{process::Command, sync::mpsc};

    use super::*;

    fn send_to_this_process(signal: &str) {
        let script = format!("kill -{signal} {}", std::process::id());
        let sent = Command::new("sh").args(["-c", &script]).status();
        assert!(sent.unwrap().success());
    }

    /// Nothing else runs on the runtime of this test, as if all of its threads were blocked.
    #[test]
    fn signals_work_while_the_runtime_is_busy() {
        let runtime = || tokio::runtime::Builder::new_current_thread().build();
        let busy = runtime().unwrap();
        let (sender, ended) = mpsc::channel();
        let shutdown = busy
            .block_on(async { listen(move |why| sender.send(why.to_owned()).unwrap()).unwrap() });
        assert!(!shutdown.is_cancelled());
        send_to_this_process("TERM");
        runtime().unwrap().block_on(shutdown.cancelled());
        send_to_this_process("INT");
        let timeout = Duration::from_secs(60);
        assert_eq!(ended.recv_timeout(timeout).unwrap(), "SIGINT");
    }
}
