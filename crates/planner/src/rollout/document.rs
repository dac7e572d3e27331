//! The words, glyphs and colours of rollouts, and a rollout as a document for programs.
//!
//! CLI, REST and dashboard all use these, so that they agree.

use api::{
    Promotion,
    pipeline::{RolloutSummary, WaveSummary},
};
use serde_json::{Value, json};

use super::{RolloutState, RolloutView, TargetView, WaveView};
use crate::{promotion_phase::name_of, summary::Severity};

impl RolloutState {
    /// Identifier, glyph and severity of a state.
    const fn row(self) -> (&'static str, &'static str, Severity) {
        match self {
            Self::Ready => ("ready", "●", Severity::Success),
            Self::InFlight => ("in-flight", "▶", Severity::Progress),
            Self::NotReady => ("not-ready", "◐", Severity::Warning),
            Self::Failed => ("failed", "✖", Severity::Error),
            Self::Unreachable => ("unreachable", "▲", Severity::Error),
            Self::Waiting => ("waiting", "○", Severity::Neutral),
            Self::Skipped => ("skipped", "–", Severity::Neutral),
            Self::Removed => ("removed", "·", Severity::Neutral),
        }
    }

    /// The identifier in REST answers, which stays as it is.
    pub const fn id(self) -> &'static str {
        self.row().0
    }

    /// A character that no other state has.
    pub const fn glyph(self) -> &'static str {
        self.row().1
    }

    /// How urgent it is.
    pub const fn severity(self) -> Severity {
        self.row().2
    }

    /// Whether a rollout can go on without a target in this state, if a person says so.
    pub const fn can_be_skipped(self) -> bool {
        !matches!(self, Self::Ready | Self::Skipped | Self::Removed)
    }

    /// Whether people have to look at a target in this state.
    pub const fn needs_attention(self) -> bool {
        matches!(self, Self::Failed | Self::Unreachable | Self::NotReady)
    }
}

impl WaveView {
    /// How far it is, for people.
    pub fn word(&self) -> &'static str {
        match (&self.done_at, self.is_open) {
            (Some(_), _) => "done",
            (None, true) => "in progress",
            (None, false) => "waiting",
        }
    }

    /// How many of its targets are in each state that one of them is in.
    pub fn counts(&self) -> Vec<(RolloutState, usize)> {
        let counts = RolloutState::ALL.map(|state| (state, self.count(state)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn document(&self) -> Value {
        let counts = self.counts().into_iter();
        let counts = counts.map(|(state, count)| (state.id().to_owned(), json!(count)));
        let targets: Vec<_> = self.targets.iter().map(TargetView::document).collect();
        json!({
            "number": self.number,
            "takes": self.takes,
            "state": self.word(),
            "maxConcurrent": self.max_concurrent,
            "doneAt": self.done_at,
            "soaksUntil": self.soaks_until.map(|at| at.to_string()),
            "counts": Value::Object(counts.collect()),
            "targets": targets,
        })
    }
}

impl TargetView {
    fn document(&self) -> Value {
        json!({
            "target": self.target,
            "state": self.state.id(),
            "batch": self.batch,
            "url": self.url,
            "runs": self.runs,
            "message": self.message,
        })
    }
}

impl RolloutView {
    /// Every target, in the order in which they are started.
    pub fn targets(&self) -> impl Iterator<Item = &TargetView> {
        self.waves.iter().flat_map(|wave| &wave.targets)
    }

    /// How many targets are in a state.
    pub fn count(&self, state: RolloutState) -> usize {
        self.waves.iter().map(|wave| wave.count(state)).sum()
    }

    /// How far it is, for people.
    pub fn word(&self) -> &'static str {
        match (self.has_ended, &self.stopped) {
            (true, _) => "ended",
            (false, Some(_)) => "stopped",
            (false, None) => "in progress",
        }
    }

    /// What it waits for: the reason and the sentence of its promotion; nothing once it has ended.
    pub fn waits_for(&self, promotions: &[Promotion]) -> Option<(String, String)> {
        let mut promotions = promotions.iter();
        let own = promotions.find(|it| name_of(it) == self.promotion)?;
        let status = own.status.as_ref().filter(|_| !self.has_ended)?;
        status.reason.clone().zip(status.message.clone())
    }

    /// The rollout for programs.
    pub fn document(&self, promotions: &[Promotion]) -> Value {
        let waits = self.waits_for(promotions);
        let waits = waits.map(|(reason, message)| json!({"reason": reason, "message": message}));
        let waves: Vec<_> = self.waves.iter().map(WaveView::document).collect();
        json!({
            "promotion": self.promotion,
            "revision": self.revision,
            "state": self.word(),
            "stopped": self.stopped,
            "waitsFor": waits,
            "waves": waves,
        })
    }
}

/// A rollout under way in one line: how many waves are done, and how far the open one is.
pub(crate) fn summary_text(rollout: &RolloutSummary) -> Option<String> {
    if rollout.finished_at.is_some() {
        return None;
    }
    let of = rollout.waves.len();
    let open = rollout.waves.iter().position(|it| it.done_at.is_none());
    let Some(open) = open else {
        return Some("rollout: every wave is done".to_owned());
    };
    let counts = counts_text(&rollout.waves[open]);
    Some(format!("rollout: wave {} of {of}: {counts}", open + 1))
}

fn counts_text(wave: &WaveSummary) -> String {
    let further = [
        (wave.in_flight, RolloutState::InFlight),
        (wave.failed, RolloutState::Failed),
        (wave.unreachable, RolloutState::Unreachable),
        (wave.skipped, RolloutState::Skipped),
    ];
    let further = further.iter().filter(|(count, _)| *count > 0);
    let further = further.map(|(count, state)| format!(", {count} {}", state.word()));
    let further: String = further.collect();
    format!("{} of {} ready{further}", wave.ready, wave.targets)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_state_has_its_own_identifier_word_and_glyph() {
        let distinct = |text: fn(RolloutState) -> &'static str| {
            let all: BTreeSet<_> = RolloutState::ALL.map(text).into();
            all.len()
        };
        assert_eq!(distinct(RolloutState::id), RolloutState::ALL.len());
        assert_eq!(distinct(RolloutState::word), RolloutState::ALL.len());
        assert_eq!(distinct(RolloutState::glyph), RolloutState::ALL.len());
    }

    #[test]
    fn the_open_wave_is_told_in_one_line() {
        let at = "2026-11-01T10:00:00Z";
        let done = json!({"targets": 2, "ready": 2, "doneAt": at});
        let open = json!({"targets": 9, "ready": 3, "inFlight": 2, "failed": 1});
        for (waves, finished, expected) in [
            (
                json!([done, open]),
                Value::Null,
                Some("rollout: wave 2 of 2: 3 of 9 ready, 2 in flight, 1 failed"),
            ),
            (
                json!([done]),
                Value::Null,
                Some("rollout: every wave is done"),
            ),
            (json!([done]), json!(at), None),
        ] {
            let rollout = json!({"promotion": "p", "waves": waves, "finishedAt": finished});
            let rollout: RolloutSummary = serde_json::from_value(rollout).unwrap();
            assert_eq!(summary_text(&rollout).as_deref(), expected);
        }
    }
}
