//! What forges answered when they were asked to merge, so that they are not asked in every reconcile.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use planner::{Failure, Remedy};
use tokio::time::Instant;

/// When a forge is asked again that is merging, or that will never merge.
const SLOW_RECHECK: Duration = Duration::from_secs(3600);

/// By promotion: until when an answer holds, and why the pull request cannot be merged yet.
#[derive(Default)]
pub(super) struct MergeAnswers(Mutex<HashMap<String, (Instant, Option<Failure>)>>);

impl MergeAnswers {
    /// The answer about a promotion's pull request, if it still holds.
    pub(super) fn recent(&self, uid: &str) -> Option<Option<Failure>> {
        let (until, because) = self.0.lock().get(uid).cloned()?;
        (Instant::now() < until).then_some(because)
    }

    /// Keeps an answer: for one interval where asking again may help, else for an hour. The right to
    /// merge is granted on the forge, without an event that we could see.
    pub(super) fn record(&self, uid: &str, failure: Option<&Failure>, interval: Duration) {
        let may_change = |failure: &Failure| {
            failure.remedy != Remedy::WaitForEdit || failure.reason == "Forbidden"
        };
        let holds = match failure.is_some_and(may_change) {
            true => interval,
            false => SLOW_RECHECK,
        };
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, (until, _)| now < *until);
        all.insert(uid.to_owned(), (now + holds, failure.cloned()));
    }

    /// Forgets the answer, because the pull request has another commit now.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
