//! The changes on the hub. What they hold is kept only while it may still be proposed.

use std::{collections::HashMap, sync::Arc};

use api::{Change, change::ChangePhase};
use parking_lot::RwLock;

use runtime::ObjectKey;

/// The newest known state of every change.
#[derive(Default)]
pub(super) struct Changes(RwLock<HashMap<ObjectKey, Arc<Change>>>);

impl Changes {
    /// Keeps a change unless a newer state of it is known; answers whether it was news.
    pub(super) fn keep(&self, mut change: Change) -> bool {
        change.metadata.managed_fields = None;
        let phase = change.status.as_ref().and_then(|status| status.phase);
        if matches!(phase, Some(ChangePhase::Merged | ChangePhase::Abandoned)) {
            change.spec.content = String::new();
        }
        let key = ObjectKey::of(&change.metadata);
        let mut all = self.0.write();
        let is_newer = |known: &Arc<Change>| {
            known.metadata.uid == change.metadata.uid && version(known) >= version(&change)
        };
        if all.get(&key).is_some_and(is_newer) {
            return false;
        }
        all.insert(key, Arc::new(change));
        true
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Change>> {
        self.0.read().get(key).cloned()
    }

    /// Those of one namespace.
    pub(super) fn of(&self, namespace: &str) -> Vec<Arc<Change>> {
        let all = self.0.read();
        let here = all.iter().filter(|(key, _)| key.namespace == namespace);
        here.map(|(_, change)| change.clone()).collect()
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.0.read().keys().cloned().collect()
    }

    /// Forgets one; answers what it was.
    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Arc<Change>> {
        self.0.write().remove(key)
    }
}

fn version(change: &Change) -> u64 {
    let version = change.metadata.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}
