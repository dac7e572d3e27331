//! What forges said when they were asked to merge, so that they are not asked at every turn.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use planner::{Failure, Remedy};
use tokio::time::Instant;

/// When a forge is asked again that said it will merge, or that it never will.
const SLOW: Duration = Duration::from_secs(3600);

/// By promotion: until when an answer holds, and why the pull request cannot be merged yet.
#[derive(Default)]
pub(super) struct Merges(Mutex<HashMap<String, (Instant, Option<Failure>)>>);

impl Merges {
    /// What was said about a promotion's pull request, if that still holds.
    pub(super) fn lately(&self, uid: &str) -> Option<Option<Failure>> {
        let (until, because) = self.0.lock().get(uid).cloned()?;
        (Instant::now() < until).then_some(because)
    }

    /// Keeps what was said, for a while that is short where asking again may help: a right to merge is
    /// given on the forge, where nobody tells us.
    pub(super) fn note(&self, uid: &str, failure: Option<&Failure>, short: Duration) {
        let may_pass = |failure: &Failure| {
            failure.remedy != Remedy::WaitForEdit || failure.reason == "Forbidden"
        };
        let holds = match failure.is_some_and(may_pass) {
            true => short,
            false => SLOW,
        };
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, (until, _)| now < *until);
        all.insert(uid.to_owned(), (now + holds, failure.cloned()));
    }

    /// The pull request is another one now.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
