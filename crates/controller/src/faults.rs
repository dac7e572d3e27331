//! What things depended on when they failed, so that the edit that helps is noticed. Secrets are not
//! watched, so that the right to `get` the named ones suffices.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

/// How often, at least, what something failed on is looked at again.
pub(crate) const LOOK_FOR_EDITS: Duration = Duration::from_secs(30);

/// By uid: what an edit has to change; nothing where the failure passes by itself.
#[derive(Default)]
pub(crate) struct Faults(Mutex<HashMap<String, Option<String>>>);

impl Faults {
    pub(crate) fn note(&self, uid: &str, dependencies: Option<String>) {
        self.0.lock().insert(uid.to_owned(), dependencies);
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Whether what something failed on is another one now. After a start that is not known, and it is
    /// tried once.
    pub(crate) async fn is_edited(&self, uid: &str, now: impl Future<Output = String>) -> bool {
        let known = self.0.lock().get(uid).cloned();
        match known {
            None => true,
            Some(None) => false,
            Some(Some(known)) => now.await != known,
        }
    }
}
