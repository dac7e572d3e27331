//! SIGTERM and SIGINT end the process in an orderly way; a second one ends it at once, and so does an
//! orderly end that takes too long.

use std::{io, thread, time::Duration};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long an orderly end may take. Less than the kubelet waits before it kills.
const PATIENCE: Duration = Duration::from_secs(25);

/// Cancelled by the first signal.
pub(crate) fn shutdown() -> io::Result<CancellationToken> {
    listen(|why| {
        tracing::warn!("ending at once: {why}");
        std::process::exit(1);
    })
}

/// Listens on a thread of its own, so that signals count however busy all others are.
fn listen(end_at_once: impl FnOnce(&str) + Send + 'static) -> io::Result<CancellationToken> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    drop(inside);
    let shutdown = CancellationToken::new();
    let told = shutdown.clone();
    let wait = async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let signal = next().await;
        tracing::info!(signal, "ending");
        told.cancel();
        match tokio::time::timeout(PATIENCE, next()).await {
            Ok(signal) => end_at_once(signal),
            Err(_) => end_at_once("the orderly end takes too long"),
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

    /// Nothing else runs on the runtime of this test, as if all of its threads were busy for ever.
    #[test]
    fn signals_count_while_the_runtime_is_busy() {
        let runtime = || tokio::runtime::Builder::new_current_thread().build();
        let busy = runtime().unwrap();
        let (sender, ended) = mpsc::channel();
        let shutdown = busy
            .block_on(async { listen(move |why| sender.send(why.to_owned()).unwrap()).unwrap() });
        assert!(!shutdown.is_cancelled());
        send_to_this_process("TERM");
        runtime().unwrap().block_on(shutdown.cancelled());
        send_to_this_process("INT");
        let patience = Duration::from_secs(60);
        assert_eq!(ended.recv_timeout(patience).unwrap(), "SIGINT");
    }
}
