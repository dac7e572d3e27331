//! What the parts of the loop share: the triggers, what the watches have shown, and what waits.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use api::PipelineTrigger;
use kube::Client;
use parking_lot::Mutex;

use super::{CALL_LIMIT, Metrics, version, work::Work, world::World};
use crate::{Context, Settings};
use runtime::{Clock, EventRecorder, LeaderGuard, ObjectKey};

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Everything the loop knows in one time of leading.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Clock,
    pub(super) gauge: Metrics,
    pub(super) events: EventRecorder,
    pub(super) work: Arc<Work>,
    pub(super) world: Arc<World>,
    leadership: LeaderGuard,
    triggers: Mutex<HashMap<ObjectKey, Known>>,
}

/// A trigger.
struct Known {
    /// As the watch showed it or as we wrote it, whichever is newer.
    newest: Arc<PipelineTrigger>,
    /// From which resource version on it holds everything we wrote to it.
    certain: Option<u64>,
    /// How often in a row it could not be dealt with.
    failures: u32,
}

impl Shared {
    pub(super) fn new(
        context: &Context,
        leadership: LeaderGuard,
        events: EventRecorder,
    ) -> Arc<Self> {
        let work = Arc::new(Work::new(context));
        Arc::new(Self {
            client: context.client.clone(),
            settings: context.settings.clone(),
            clock: Clock::start(),
            gauge: context.metrics.triggers().clone(),
            events,
            world: Arc::new(World::new(work.clone())),
            work,
            leadership,
            triggers: Mutex::default(),
        })
    }

    /// Whether there is time for a call before somebody else may act.
    pub(super) fn may_act(&self) -> bool {
        self.leadership.permit(CALL_LIMIT).is_ok()
    }

    pub(super) fn trigger(&self, key: &ObjectKey) -> Option<Arc<PipelineTrigger>> {
        let triggers = self.triggers.lock();
        triggers.get(key).map(|known| known.newest.clone())
    }

    /// Takes up a trigger that the watch showed. What we wrote ourselves is no news.
    pub(super) fn note(&self, trigger: PipelineTrigger) {
        let key = ObjectKey::of(&trigger.metadata);
        self.world.note_interest(&trigger);
        if self.keep(&key, trigger) {
            self.work.add(key);
        }
    }

    /// Whether it is newer than what is known.
    fn keep(&self, key: &ObjectKey, trigger: PipelineTrigger) -> bool {
        let mut triggers = self.triggers.lock();
        if let Some(known) = triggers.get_mut(key)
            && known.newest.metadata.uid == trigger.metadata.uid
        {
            let is_same =
                known.newest.metadata.resource_version == trigger.metadata.resource_version;
            if is_same || version(&trigger) < version(&known.newest) {
                return false;
            }
            known.newest = Arc::new(trigger);
        } else {
            triggers.insert(key.clone(), Known::new(trigger));
        }
        true
    }

    /// Forgets every trigger but these.
    pub(super) fn retain(&self, listed: &HashSet<ObjectKey>) {
        let known: Vec<ObjectKey> = self.triggers.lock().keys().cloned().collect();
        for gone in known.iter().filter(|key| !listed.contains(*key)) {
            self.forget(gone);
        }
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.triggers.lock().remove(key);
        self.world.drop_interest(key);
        self.work.forget(key);
        self.gauge.forget(key);
    }

    /// The server itself gave us the trigger: it holds everything we wrote.
    pub(super) fn confirm(&self, trigger: PipelineTrigger) -> Arc<PipelineTrigger> {
        let mut triggers = self.triggers.lock();
        let certain = Some(version(&trigger));
        let key = ObjectKey::of(&trigger.metadata);
        let trigger = Arc::new(trigger);
        if let Some(known) = triggers.get_mut(&key) {
            known.certain = certain;
            known.newest = trigger.clone();
        }
        trigger
    }

    /// A write may have been carried out or not.
    pub(super) fn doubt(&self, key: &ObjectKey) {
        if let Some(known) = self.triggers.lock().get_mut(key) {
            known.certain = None;
        }
    }

    pub(super) fn is_certain(&self, trigger: &PipelineTrigger) -> bool {
        let triggers = self.triggers.lock();
        let known = triggers.get(&ObjectKey::of(&trigger.metadata));
        let certain = known.and_then(|known| known.certain);
        certain.is_some_and(|certain| version(trigger) >= certain)
    }

    /// How long a trigger waits that could not be dealt with.
    pub(super) fn next_wait(&self, key: &ObjectKey) -> Duration {
        let mut triggers = self.triggers.lock();
        let Some(known) = triggers.get_mut(key) else {
            return FIRST_WAIT;
        };
        known.failures = known.failures.saturating_add(1);
        LONGEST_WAIT.min(FIRST_WAIT * 2_u32.pow((known.failures - 1).min(16)))
    }

    pub(super) fn succeeded(&self, key: &ObjectKey) {
        if let Some(known) = self.triggers.lock().get_mut(key) {
            known.failures = 0;
        }
    }
}

impl Known {
    fn new(trigger: PipelineTrigger) -> Self {
        Self {
            newest: Arc::new(trigger),
            certain: None,
            failures: 0,
        }
    }
}
