//! What is known of each trigger beyond its cached state: whether that is certain to contain everything
//! that was written to it, and the backoff.

use std::{collections::HashMap, time::Duration};

use api::PipelineTrigger;
use parking_lot::Mutex;
use runtime::{ObjectKey, ResourceVersion};

const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// By trigger.
#[derive(Default)]
pub(super) struct TriggerStates(Mutex<HashMap<ObjectKey, TriggerState>>);

#[derive(Default)]
struct TriggerState {
    /// The uid, and the version from which on a state contains everything that was written.
    certain_from: Option<(Option<String>, ResourceVersion)>,
    /// How often in a row reconciling failed.
    failures: u32,
}

impl TriggerStates {
    /// The API server returned this state to a read or write of ours: it contains everything that was
    /// written.
    pub(super) fn mark_certain(&self, trigger: &PipelineTrigger) {
        let mut states = self.0.lock();
        let state = states.entry(ObjectKey::of(&trigger.metadata)).or_default();
        let version = ResourceVersion::of(&trigger.metadata);
        state.certain_from = Some((trigger.metadata.uid.clone(), version));
    }

    /// A write may or may not have been carried out.
    pub(super) fn mark_uncertain(&self, key: &ObjectKey) {
        if let Some(state) = self.0.lock().get_mut(key) {
            state.certain_from = None;
        }
    }

    /// Whether a trigger contains everything that was written to it.
    pub(super) fn is_certain(&self, trigger: &PipelineTrigger) -> bool {
        let states = self.0.lock();
        let state = states.get(&ObjectKey::of(&trigger.metadata));
        let Some((uid, from)) = state.and_then(|state| state.certain_from.as_ref()) else {
            return false;
        };
        let version = ResourceVersion::of(&trigger.metadata);
        *uid == trigger.metadata.uid && (version == *from || version.is_newer_than(from))
    }

    /// How long to wait before retrying after one more failure.
    pub(super) fn next_backoff(&self, key: &ObjectKey) -> Duration {
        let mut states = self.0.lock();
        let state = states.entry(key.clone()).or_default();
        state.failures = state.failures.saturating_add(1);
        MAX_BACKOFF.min(FIRST_BACKOFF * 2_u32.pow((state.failures - 1).min(16)))
    }

    pub(super) fn reset_backoff(&self, key: &ObjectKey) {
        if let Some(state) = self.0.lock().get_mut(key) {
            state.failures = 0;
        }
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}
