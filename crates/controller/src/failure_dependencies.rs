//! Remembers what an object depended on when it failed (Secrets, settings, files), so that an edit that
//! may help is noticed. Secrets are not watched, so that the right to `get` the named ones suffices.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

/// How often, at least, the dependencies of a failed object are read again.
pub(crate) const RECHECK_DEPENDENCIES: Duration = Duration::from_secs(30);

/// By uid: what an edit has to change; nothing where the failure is transient.
#[derive(Default)]
pub(crate) struct FailureDependencies(Mutex<HashMap<String, Option<String>>>);

impl FailureDependencies {
    pub(crate) fn record(&self, uid: &str, dependencies: Option<String>) {
        self.0.lock().insert(uid.to_owned(), dependencies);
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Whether the dependencies differ from those at the failure. After a start of the process those are
    /// not known, and the object is tried once.
    pub(crate) async fn are_edited(&self, uid: &str, now: impl Future<Output = String>) -> bool {
        let recorded = self.0.lock().get(uid).cloned();
        match recorded {
            None => true,
            Some(None) => false,
            Some(Some(recorded)) => now.await != recorded,
        }
    }
}
