//! Remembers recent events, so that the same event again becomes a count instead of another Event.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{EventSeverity, ObjectEvent};

/// An event that was not recorded for so long starts a new series.
const SERIES_GAP: Duration = Duration::from_secs(10 * 60);
/// A count is written at most so often.
const BETWEEN_COUNTS: Duration = Duration::from_secs(60);
/// How many events are remembered. One that is dropped early starts a new series.
const CAPACITY: usize = 4096;
/// How much of the object's name the name of the Event repeats.
const NAME_PART: usize = 200;

/// Everything in which two occurrences of the same event agree.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EventIdentity {
    object: (String, String, String),
    uid: String,
    severity: EventSeverity,
    reason: String,
    action: String,
    note: String,
}

/// How often an event has been recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventRepeat {
    /// The name of the Event.
    pub(super) name: String,
    /// How often it was recorded, this time included.
    pub(super) count: i32,
}

#[derive(Debug)]
struct RecordedEvent {
    repeat: EventRepeat,
    last_recorded: Instant,
    last_written: Instant,
}

#[derive(Debug, Default)]
pub(super) struct EventDeduplicator(HashMap<EventIdentity, RecordedEvent>);

impl EventDeduplicator {
    /// Remembers an event. Returns how it is to be written; nothing if a later count will include it.
    pub(super) fn record(&mut self, event: &ObjectEvent, at: Timestamp) -> Option<EventRepeat> {
        let now = Instant::now();
        let identity = EventIdentity::of(event);
        if let Some(known) = self.0.get_mut(&identity)
            && now.duration_since(known.last_recorded) < SERIES_GAP
        {
            known.last_recorded = now;
            known.repeat.count = known.repeat.count.saturating_add(1);
            let is_due = known.repeat.count == 2 || now - known.last_written >= BETWEEN_COUNTS;
            if is_due {
                known.last_written = now;
            }
            return is_due.then(|| known.repeat.clone());
        }
        self.make_room(now);
        let repeat = EventRepeat {
            name: event_name(&identity, at),
            count: 1,
        };
        let known = RecordedEvent {
            repeat: repeat.clone(),
            last_recorded: now,
            last_written: now,
        };
        self.0.insert(identity, known);
        Some(repeat)
    }

    fn make_room(&mut self, now: Instant) {
        if self.0.len() < CAPACITY {
            return;
        }
        self.0
            .retain(|_, known| now.duration_since(known.last_recorded) < SERIES_GAP);
        if self.0.len() < CAPACITY {
            return;
        }
        // Half of them at once, so that a burst of events does not sort for each of them.
        let mut times: Vec<_> = self.0.values().map(|known| known.last_recorded).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        self.0.retain(|_, known| known.last_recorded > middle);
    }
}

impl EventIdentity {
    fn of(event: &ObjectEvent) -> Self {
        let regarding = &event.regarding;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            object: (
                text(&regarding.kind),
                text(&regarding.namespace),
                text(&regarding.name),
            ),
            uid: text(&regarding.uid),
            severity: event.severity,
            reason: event.reason.clone(),
            action: event.action.clone(),
            note: event.note.clone(),
        }
    }
}

/// A unique name that begins with the name of the object.
fn event_name(identity: &EventIdentity, at: Timestamp) -> String {
    let mut hasher = DefaultHasher::new();
    (identity, at.as_nanosecond()).hash(&mut hasher);
    let hash = hasher.finish();
    let (_, _, name) = &identity.object;
    let shown: String = name.chars().take(NAME_PART).collect();
    format!("{}.{hash:016x}", shown.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::ObjectReference;
    use tokio::time::advance;

    use super::{super::EventSeverity, *};

    /// How often an event with this note was recorded.
    fn count(events: &mut EventDeduplicator, note: usize) -> i32 {
        let event = ObjectEvent {
            regarding: ObjectReference::default(),
            severity: EventSeverity::Info,
            reason: "Promote".to_owned(),
            action: "Promote".to_owned(),
            note: note.to_string(),
            metadata: BTreeMap::new(),
        };
        let repeat = events.record(&event, Timestamp::UNIX_EPOCH);
        repeat.map_or(0, |it| it.count)
    }

    async fn record(events: &mut EventDeduplicator, notes: std::ops::Range<usize>) {
        for note in notes {
            assert_eq!(count(events, note), 1, "{note}");
            advance(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_older_half_is_forgotten_when_there_are_too_many() {
        let mut events = EventDeduplicator::default();
        record(&mut events, 0..CAPACITY).await;
        assert_eq!(events.0.len(), CAPACITY);
        record(&mut events, CAPACITY..CAPACITY + 1).await;
        assert_eq!(events.0.len(), CAPACITY / 2);
        assert_eq!(
            count(&mut events, CAPACITY / 2 + 1),
            2,
            "the newer half is known"
        );
        assert_eq!(count(&mut events, CAPACITY / 2), 1, "the older half is not");
    }

    #[tokio::test(start_paused = true)]
    async fn series_that_have_ended_are_forgotten_first() {
        let mut events = EventDeduplicator::default();
        record(&mut events, 0..1000).await;
        advance(SERIES_GAP).await;
        record(&mut events, 1000..CAPACITY + 1).await;
        assert_eq!(events.0.len(), CAPACITY + 1 - 1000);
        assert_eq!(count(&mut events, 1000), 2);
    }
}
