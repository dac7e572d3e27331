//! What was said lately, so that saying it again counts instead of repeating.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Occurrence, Severity};

/// After so long a silence the same words are news again.
const SILENCE: Duration = Duration::from_secs(10 * 60);
/// A count is written at most so often.
const BETWEEN_COUNTS: Duration = Duration::from_secs(60);
/// How much is remembered. What is forgotten early is said as if it were new.
const CAPACITY: usize = 4096;
/// An object's name in an Event's name leaves room for the rest.
const NAME_PART: usize = 200;

/// All that makes two occurrences the same one again, the words included.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    object: (String, String, String),
    uid: String,
    severity: Severity,
    reason: String,
    action: String,
    note: String,
}

/// Whether and how often it was said before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    /// The name of the Event.
    pub(super) name: String,
    /// How often it has happened, this time included.
    pub(super) count: i32,
}

#[derive(Debug)]
struct Said {
    repeat: Repeat,
    last: Instant,
    counted: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<Key, Said>);

impl Memory {
    /// Remembers it. Says how it is to be written, or nothing if a later count will include it.
    pub(super) fn note(&mut self, occurrence: &Occurrence, at: Timestamp) -> Option<Repeat> {
        let now = Instant::now();
        let key = Key::of(occurrence);
        if let Some(said) = self.0.get_mut(&key)
            && now.duration_since(said.last) < SILENCE
        {
            said.last = now;
            said.repeat.count = said.repeat.count.saturating_add(1);
            let is_due = said.repeat.count == 2 || now - said.counted >= BETWEEN_COUNTS;
            if is_due {
                said.counted = now;
            }
            return is_due.then(|| said.repeat.clone());
        }
        self.make_room(now);
        let repeat = Repeat {
            name: event_name(&key, at),
            count: 1,
        };
        let said = Said {
            repeat: repeat.clone(),
            last: now,
            counted: now,
        };
        self.0.insert(key, said);
        Some(repeat)
    }

    fn make_room(&mut self, now: Instant) {
        if self.0.len() < CAPACITY {
            return;
        }
        self.0
            .retain(|_, said| now.duration_since(said.last) < SILENCE);
        if self.0.len() < CAPACITY {
            return;
        }
        // Half of them at once, so that a flood does not sort for each drop of it.
        let mut times: Vec<_> = self.0.values().map(|said| said.last).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        self.0.retain(|_, said| said.last > middle);
    }
}

impl Key {
    fn of(occurrence: &Occurrence) -> Self {
        let regarding = &occurrence.regarding;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            object: (
                text(&regarding.kind),
                text(&regarding.namespace),
                text(&regarding.name),
            ),
            uid: text(&regarding.uid),
            severity: occurrence.severity,
            reason: occurrence.reason.clone(),
            action: occurrence.action.clone(),
            note: occurrence.note.clone(),
        }
    }
}

/// A name that no other Event has, and that shows whom it is about.
fn event_name(key: &Key, at: Timestamp) -> String {
    let (kind, namespace, name) = &key.object;
    let at = at.as_nanosecond().to_string();
    let parts = [
        kind,
        namespace,
        name,
        &key.uid,
        &key.reason,
        &key.action,
        &key.note,
        &at,
    ];
    let hash = api::names::short_hash(&parts.map(String::as_str));
    let shown: String = name.chars().take(NAME_PART).collect();
    format!("{}.{hash}", shown.trim_end_matches(['.', '-']))
}
