//! Folds Flagger's Canaries into the readiness of an app.
//!
//! Flux calls an app ready as soon as its objects are applied; Flagger decides later whether the new
//! pods take over, and leaves the app as it is when they fail. So an app with Canaries is ready at a
//! revision only when all of them let that revision pass. A Canary does not say which revision it is
//! about: its phase counts if Flagger reached it after the app changed, or if Flagger has had two of
//! its intervals to notice the change and found nothing to analyse.

use std::time::Duration;

use api::{
    app::AppReading,
    flagger::{Canary, CanaryPhase},
    pipeline::{AppStatus, CanaryState, TargetStatus},
};

use super::FoldContext;
use crate::{
    observation::{ObservedApp, ObservedCanaries},
    time::{Timestamp, later, stored},
};

/// How soon Canaries that could not be matched to the app are read again.
const RETRY_MATCHING: Duration = Duration::from_secs(30);

/// An app with the verdict of its Canaries.
pub(super) struct AnalysedApp<'a> {
    pub(super) seen: &'a ObservedApp,
    pub(super) reading: AppReading,
    pub(super) canary: Option<CanaryState>,
}

/// What one Canary says about the app's revision.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CanaryVerdict {
    Passed,
    /// Not decided, and when time alone decides it.
    Waits {
        because: String,
        until: Option<Timestamp>,
    },
    Failed {
        because: String,
    },
}

impl FoldContext<'_> {
    /// An app, not ready where a Canary says so.
    pub(super) fn with_canaries<'a>(
        &self,
        app: &'a ObservedApp,
        known: Option<&AppStatus>,
        target: Option<&TargetStatus>,
    ) -> AnalysedApp<'a> {
        let mut analysed = AnalysedApp {
            seen: app,
            reading: app.reading.clone(),
            canary: None,
        };
        let before = known.and_then(|known| known.canary.clone());
        let Some(revision) = app.reading.revision.as_ref().map(ToString::to_string) else {
            analysed.canary = before;
            return analysed;
        };
        match &app.canaries {
            ObservedCanaries::Known(canaries) if canaries.is_empty() => {}
            ObservedCanaries::Known(canaries) => {
                let mut state = self.state(&revision, canaries, known, target);
                let verdict = self.ask(&revision, canaries, &mut state);
                if verdict == CanaryVerdict::Passed && app.reading.ready {
                    state.promoted = Some(revision);
                }
                decide(&mut analysed.reading, verdict);
                analysed.canary = Some(state);
            }
            ObservedCanaries::Unknown { because } => {
                let mut state = self.state(&revision, &[], known, target);
                let planned = before.and_then(|before| before.counts_at);
                let planned = planned.filter(|at| at.0 > self.now);
                let again = || stored(later(self.now, RETRY_MATCHING));
                state.counts_at = Some(planned.unwrap_or_else(again));
                let verdict = CanaryVerdict::Waits {
                    because: because.clone(),
                    until: None,
                };
                decide(&mut analysed.reading, verdict);
                analysed.canary = Some(state);
            }
        }
        analysed
    }

    /// What the Canaries say together, and when time alone changes that.
    fn ask(&self, revision: &str, canaries: &[Canary], state: &mut CanaryState) -> CanaryVerdict {
        let analysis = RevisionAnalysis {
            revision,
            since: state.revision_since.as_ref().map_or(self.now, |it| it.0),
            result_before: state.result_before.as_ref().map(|it| it.0),
            was_promoting: state.was_promoting,
            was_promoted: state.promoted.as_deref() == Some(revision),
            now: self.now,
        };
        let verdict = analysis.all(canaries);
        if let CanaryVerdict::Waits { until, .. } = &verdict {
            state.counts_at = until.map(stored);
        }
        verdict
    }

    /// The stored state, updated to the app's revision.
    fn state(
        &self,
        revision: &str,
        canaries: &[Canary],
        known: Option<&AppStatus>,
        target: Option<&TargetStatus>,
    ) -> CanaryState {
        let now = stored(self.now);
        let before = known.and_then(|known| known.canary.clone());
        let promoted = before.as_ref().and_then(|before| before.promoted.clone());
        if known.is_none_or(|known| known.revision.as_deref() != Some(revision)) {
            return CanaryState {
                revision_since: Some(now),
                result_before: canaries.iter().filter_map(|it| it.changed_at.clone()).max(),
                was_promoting: canaries.iter().any(|it| it.phase == CanaryPhase::Promoting),
                promoted,
                ..CanaryState::default()
            };
        }
        // Without a stored state, being ready is the latest that the app can have changed.
        let since = match &before {
            Some(before) => before.revision_since.clone(),
            None => target.and_then(|target| target.ready_since.clone()),
        };
        CanaryState {
            revision_since: Some(since.map_or(now.clone(), |since| since.min(now))),
            result_before: before.as_ref().and_then(|it| it.result_before.clone()),
            was_promoting: before.is_some_and(|it| it.was_promoting)
                && canaries.iter().all(still_promotes),
            promoted,
            ..CanaryState::default()
        }
    }
}

/// Whether a promotion that was under way may be all that Flagger has done since.
fn still_promotes(canary: &Canary) -> bool {
    let phases = [
        CanaryPhase::Promoting,
        CanaryPhase::Succeeded,
        CanaryPhase::Initialized,
    ];
    phases.contains(&canary.phase)
}

/// Sets the readiness of an app by its Canaries. The message of an app that is not ready by itself is
/// kept.
fn decide(reading: &mut AppReading, verdict: CanaryVerdict) {
    match verdict {
        _ if !reading.ready => {}
        CanaryVerdict::Passed => {}
        CanaryVerdict::Waits { because, .. } => wait(reading, because),
        CanaryVerdict::Failed { because } => {
            wait(reading, because);
            reading.failed = true;
            reading.attempted.clone_from(&reading.revision);
        }
    }
}

fn wait(reading: &mut AppReading, because: String) {
    reading.ready = false;
    reading.message = Some(because.clone());
    reading.error = Some(because);
}

/// What the Canaries of an app are asked about.
struct RevisionAnalysis<'a> {
    revision: &'a str,
    /// Since when the app has the revision.
    since: Timestamp,
    /// The newest result that was there then. The clocks of two clusters may differ.
    result_before: Option<Timestamp>,
    /// Whether the next success is that of an earlier revision.
    was_promoting: bool,
    /// Whether the revision has passed before.
    was_promoted: bool,
    now: Timestamp,
}

impl RevisionAnalysis<'_> {
    /// The worst verdict of all Canaries; of those that wait, the one that decides first.
    fn all(&self, canaries: &[Canary]) -> CanaryVerdict {
        let rank = |verdict: &CanaryVerdict| match verdict {
            CanaryVerdict::Failed { .. } => (0, None),
            CanaryVerdict::Waits { until, .. } => (1, Some(until.unwrap_or(Timestamp::MAX))),
            CanaryVerdict::Passed => (2, None),
        };
        let verdicts = canaries.iter().map(|canary| self.one(canary));
        verdicts.min_by_key(rank).unwrap_or(CanaryVerdict::Passed)
    }

    fn one(&self, canary: &Canary) -> CanaryVerdict {
        let (name, revision) = (&canary.name, self.revision);
        let waits = |because: String| CanaryVerdict::Waits {
            because,
            until: None,
        };
        match &canary.phase {
            CanaryPhase::Initialized | CanaryPhase::Succeeded => match self.unnoticed(canary) {
                Some(verdict) => verdict,
                None => CanaryVerdict::Passed,
            },
            CanaryPhase::Failed if canary.differs => match self.unnoticed(canary) {
                Some(verdict) => verdict,
                // Flagger leaves the phase at `Failed` when an app goes back to what it promoted.
                None if self.was_promoted && !self.changed_since(canary) => CanaryVerdict::Passed,
                None => CanaryVerdict::Failed {
                    because: failed(canary),
                },
            },
            CanaryPhase::Failed => waits(failed(canary)),
            CanaryPhase::Promoting if self.was_promoting => {
                waits(format!("canary {name} is promoting an earlier revision"))
            }
            CanaryPhase::Promoting => waits(format!("canary {name} is promoting {revision}")),
            CanaryPhase::Absent => waits(format!("canary {name} is not initialized yet")),
            CanaryPhase::Other(phase) => waits(format!("canary {name} is {phase} at {revision}")),
        }
    }

    /// Whether Flagger reached the phase after the app changed.
    fn changed_since(&self, canary: &Canary) -> bool {
        let changed = canary.changed_at.as_ref().map(|at| at.0);
        let is_after = |at: Timestamp| at > self.since && Some(at) > self.result_before;
        changed.is_some_and(is_after) && !self.was_promoting
    }

    /// Why a result may be that of an earlier revision.
    fn unnoticed(&self, canary: &Canary) -> Option<CanaryVerdict> {
        if self.changed_since(canary) {
            return None;
        }
        let (name, revision) = (&canary.name, self.revision);
        if canary.suspended {
            return Some(CanaryVerdict::Waits {
                because: format!(
                    "canary {name} is suspended: Flagger does not analyse {revision} until it is resumed"
                ),
                until: None,
            });
        }
        let changed = canary.changed_at.as_ref().map(|at| at.0);
        let last = changed.filter(|_| self.was_promoting);
        let last = last.map_or(self.since, |at| {
            at.clamp(self.since, self.now.max(self.since))
        });
        let until = later(last, 2 * canary.interval);
        (self.now < until).then(|| CanaryVerdict::Waits {
            because: format!("canary {name} has not analysed {revision} yet"),
            until: Some(until),
        })
    }
}

fn failed(canary: &Canary) -> String {
    let message = canary.message.as_deref();
    let because = message.map(|message| format!(": {message}"));
    format!(
        "canary {} failed{}",
        canary.name,
        because.unwrap_or_default()
    )
}
