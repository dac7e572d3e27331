//! Caches the triggers, as the watch delivered them or as they were written, whichever is newer.
//!
//! Also knows whether a cached trigger is certain to contain everything that was written to it, and
//! the backoff of each.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use api::PipelineTrigger;
use parking_lot::Mutex;
use runtime::ObjectKey;

const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// The triggers by key.
#[derive(Default)]
pub(super) struct TriggerCache(Mutex<HashMap<ObjectKey, CachedTrigger>>);

struct CachedTrigger {
    newest: Arc<PipelineTrigger>,
    /// The resource version from which on it contains everything that was written to it.
    certain_from: Option<u64>,
    /// How often in a row reconciling failed.
    failures: u32,
}

impl TriggerCache {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<PipelineTrigger>> {
        let triggers = self.0.lock();
        triggers.get(key).map(|cached| cached.newest.clone())
    }

    /// Caches a trigger unless a newer one is cached. Whether it was.
    pub(super) fn apply(&self, key: &ObjectKey, trigger: PipelineTrigger) -> bool {
        let mut triggers = self.0.lock();
        if let Some(cached) = triggers.get_mut(key)
            && cached.newest.metadata.uid == trigger.metadata.uid
        {
            let before = &cached.newest.metadata.resource_version;
            let is_same = *before == trigger.metadata.resource_version;
            if is_same || version(&trigger) < version(&cached.newest) {
                return false;
            }
            cached.newest = Arc::new(trigger);
            return true;
        }
        let cached = CachedTrigger {
            newest: Arc::new(trigger),
            certain_from: None,
            failures: 0,
        };
        triggers.insert(key.clone(), cached);
        true
    }

    /// The cached triggers that are not among these.
    pub(super) fn missing_from(&self, listed: &HashSet<ObjectKey>) -> Vec<ObjectKey> {
        let triggers = self.0.lock();
        let missing = triggers.keys().filter(|key| !listed.contains(*key));
        missing.cloned().collect()
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    /// Caches a trigger that the API server returned to a read or write of ours: it contains
    /// everything that was written to it.
    pub(super) fn confirm(&self, trigger: PipelineTrigger) -> Arc<PipelineTrigger> {
        let certain_from = Some(version(&trigger));
        let key = ObjectKey::of(&trigger.metadata);
        let trigger = Arc::new(trigger);
        if let Some(cached) = self.0.lock().get_mut(&key) {
            cached.certain_from = certain_from;
            cached.newest = trigger.clone();
        }
        trigger
    }

    /// A write may or may not have been carried out.
    pub(super) fn mark_uncertain(&self, key: &ObjectKey) {
        if let Some(cached) = self.0.lock().get_mut(key) {
            cached.certain_from = None;
        }
    }

    /// Whether a trigger contains everything that was written to it.
    pub(super) fn is_certain(&self, trigger: &PipelineTrigger) -> bool {
        let triggers = self.0.lock();
        let cached = triggers.get(&ObjectKey::of(&trigger.metadata));
        let certain_from = cached.and_then(|cached| cached.certain_from);
        certain_from.is_some_and(|certain_from| version(trigger) >= certain_from)
    }

    /// How long to wait before retrying after one more failure.
    pub(super) fn next_backoff(&self, key: &ObjectKey) -> Duration {
        let mut triggers = self.0.lock();
        let Some(cached) = triggers.get_mut(key) else {
            return FIRST_BACKOFF;
        };
        cached.failures = cached.failures.saturating_add(1);
        MAX_BACKOFF.min(FIRST_BACKOFF * 2_u32.pow((cached.failures - 1).min(16)))
    }

    pub(super) fn reset_backoff(&self, key: &ObjectKey) {
        if let Some(cached) = self.0.lock().get_mut(key) {
            cached.failures = 0;
        }
    }
}

/// Resource versions are numbers on every known server; one that is not counts as the newest.
fn version(trigger: &PipelineTrigger) -> u64 {
    let version = trigger.metadata.resource_version.as_deref();
    let version = version.and_then(|version| version.parse().ok());
    version.unwrap_or(u64::MAX)
}
