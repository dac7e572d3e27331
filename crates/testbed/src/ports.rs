//! Ports for programs that a test starts later.

use std::{
    net::TcpListener,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// The ports that are tried. They are below those that the system gives to connections and to listeners without a
/// port, so that no other program gets one of them by chance before it is used.
const PORTS: (u32, u32) = (10_000, 20_000);
/// How far the ports of two processes are apart that were started one after the other.
const PORTS_PER_PROCESS: u32 = 97;

/// A port on the loopback address that nobody listens on; another one at each call.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (first, count) = PORTS;
    let start = process::id().wrapping_mul(PORTS_PER_PROCESS);
    for _ in 0..count {
        let next = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(first + next % count).unwrap_or_default();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    unreachable!("{count} ports are in use")
}
