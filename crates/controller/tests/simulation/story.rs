//! What happened in a run: when on the simulated clock, who did it, and what it was.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The lines of a run, and what was wrong in it. Clones share it.
#[derive(Clone)]
pub(crate) struct Story {
    start: Instant,
    pages: Arc<Mutex<Pages>>,
}

#[derive(Default)]
struct Pages {
    lines: Vec<String>,
    violations: Vec<String>,
}

impl Story {
    pub(crate) fn begin() -> Self {
        Self {
            start: Instant::now(),
            pages: Arc::default(),
        }
    }

    /// How much time has passed.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn tell(&self, who: &str, what: impl AsRef<str>) {
        let passed = self.elapsed();
        let (minutes, seconds) = (passed.as_secs() / 60, passed.as_millis() % 60_000);
        let (seconds, rest) = (seconds / 1000, seconds % 1000);
        let time = format!("{minutes:3}m {seconds:02}.{rest:03}s");
        let line = format!("{time} │ {who:<10} │ {}", what.as_ref());
        self.pages.lock().lines.push(line);
    }

    /// Something happened that must never happen.
    pub(crate) fn violation(&self, what: impl AsRef<str>) {
        self.tell("!!!", what.as_ref());
        self.pages.lock().violations.push(what.as_ref().to_owned());
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.pages.lock().violations.clone()
    }

    /// All lines.
    pub(crate) fn draw(&self) -> String {
        self.pages.lock().lines.join("\n")
    }
}
