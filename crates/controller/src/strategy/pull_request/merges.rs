//! What forges said when they were asked to merge, so that they are not asked at every turn.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use planner::{Failure, Remedy};
use tokio::time::Instant;

/// How long an answer is kept that nobody asks for.
const IDLE: Duration = Duration::from_secs(24 * 3600);

#[derive(Default)]
pub(super) struct Merges(Mutex<HashMap<String, Said>>);

#[derive(Clone)]
struct Said {
    at: Instant,
    /// Why it cannot be merged yet.
    because: Option<String>,
    /// Whether there is no point in asking again.
    is_settled: bool,
}

impl Merges {
    /// What was said about a promotion's pull request, if that still holds.
    pub(super) fn lately(&self, uid: &str, good_for: Duration) -> Option<Option<String>> {
        let said = self.0.lock().get(uid).cloned()?;
        let is_good = said.is_settled || said.at.elapsed() < good_for;
        is_good.then_some(said.because)
    }

    /// Keeps what was said, and gives it back in words. What only an edit helps against is left to
    /// people.
    pub(super) fn note(&self, uid: &str, failure: Option<Failure>) -> Option<String> {
        let may_pass = |failure: &Failure| failure.remedy != Remedy::WaitForEdit;
        let said = Said {
            at: Instant::now(),
            is_settled: !failure.as_ref().is_some_and(may_pass),
            because: failure.map(|failure| failure.message),
        };
        let mut all = self.0.lock();
        all.retain(|_, said| said.at.elapsed() < IDLE);
        let because = said.because.clone();
        all.insert(uid.to_owned(), said);
        because
    }

    /// The pull request is another one now.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
