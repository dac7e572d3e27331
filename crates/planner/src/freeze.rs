//! Freezes: when they close, when that ends, and which of them cover a pipeline.
//!
//! A Freeze that cannot be understood is closed. Time zones come from the database in the binary.

mod coverage;
mod cron;
mod lint;
mod window;

use api::{
    freeze::{FreezeSpec, FreezeTimes, ScheduleWindow},
    pipeline::CoveringFreeze,
};
use jiff::{SignedDuration, Timestamp};

use window::Window;

pub use coverage::{FreezeScope, covering_freezes, unknown_environment};
pub use lint::{lint_freeze, lint_freeze_namespace};

/// How far ahead the end of a freeze is searched.
const HORIZON: SignedDuration = SignedDuration::from_hours(366 * 24);
/// How many windows are evaluated to find when a Freeze opens or closes: everybody who may write one decides how
/// much work that is.
const MAX_EVALUATIONS: usize = 10_000;

/// The times of a Freeze that can be understood.
struct Schedule {
    closed: Vec<Window>,
    open_only: Vec<Window>,
    not_before: Timestamp,
    not_after: Timestamp,
    is_stop: bool,
}

/// Why the times of a Freeze cannot be understood; `None` if they can.
pub(crate) fn invalid_times(times: &FreezeTimes) -> Option<String> {
    Schedule::parse(times).err()
}

/// Whether a Freeze is closed at a time.
pub(crate) fn is_closed(freeze: &CoveringFreeze, at: Timestamp) -> bool {
    let schedule = Schedule::of(freeze);
    schedule.is_none_or(|schedule| schedule.is_closed(at))
}

/// When the last of these Freezes opens that are closed at a time, or close before another of them has
/// opened. None if that is not within a year.
pub(crate) fn opens_at(freezes: &[&CoveringFreeze], at: Timestamp) -> Option<Timestamp> {
    let schedules: Option<Vec<_>> = freezes.iter().map(|it| Schedule::of(it)).collect();
    let schedules = schedules?;
    let horizon = at.saturating_add(HORIZON).unwrap_or(Timestamp::MAX);
    let mut time = at;
    for _ in 0..max_steps(&schedules) {
        let closed = schedules.iter().filter(|it| it.is_closed(time));
        let Some(until) = closed.map(|it| it.closed_until(time)).max() else {
            return Some(time).filter(|time| *time <= horizon);
        };
        if until > horizon || until <= time {
            return None;
        }
        time = until;
    }
    None
}

/// How many windows that follow each other are searched: fewer where each step evaluates many.
fn max_steps(schedules: &[Schedule]) -> usize {
    let windows = schedules
        .iter()
        .map(|it| it.closed.len() + it.open_only.len());
    MAX_EVALUATIONS / windows.sum::<usize>().max(1)
}

/// What a Freeze says at a time, whatever it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreezeState {
    /// Nothing is promoted.
    Closed {
        /// Until when; none if that is not within a year.
        until: Option<Timestamp>,
    },
    /// It keeps nothing out.
    Open {
        /// Until when; none if that is not within a year.
        until: Option<Timestamp>,
    },
    /// It is closed because it cannot be understood.
    Invalid(String),
}

/// What a Freeze says at a time, whatever it covers.
pub fn freeze_state(spec: &FreezeSpec, at: Timestamp) -> FreezeState {
    let unreadable = spec.unreadable.clone();
    let invalid = unreadable.or_else(|| invalid_times(&spec.times()));
    let freeze = CoveringFreeze {
        times: spec.times(),
        ..CoveringFreeze::default()
    };
    match invalid {
        Some(error) => FreezeState::Invalid(error),
        None if is_closed(&freeze, at) => FreezeState::Closed {
            until: opens_at(&[&freeze], at),
        },
        None => FreezeState::Open {
            until: closes_at(&freeze, at),
        },
    }
}

/// Whether a Freeze that replaces another one ends earlier, or lets more pass: then people end the other one first.
pub fn weakens_freeze(before: &FreezeSpec, after: &FreezeSpec) -> bool {
    let end = |spec: &FreezeSpec| {
        let end = spec.not_after.as_ref();
        end.map_or(Timestamp::MAX, |end| end.0)
    };
    let (before_allows, after_allows) = (before.times().allow, after.times().allow);
    let mut new = after_allows.iter().filter(|it| !before_allows.contains(it));
    end(after) < end(before) || new.next().is_some()
}

/// When a Freeze that is open closes, if that is within a year.
fn closes_at(freeze: &CoveringFreeze, at: Timestamp) -> Option<Timestamp> {
    let schedule = Schedule::of(freeze)?;
    let mut time = at;
    for _ in 0..max_steps(std::slice::from_ref(&schedule)) {
        time = schedule.changes_at(time)?;
        if schedule.is_closed(time) {
            let horizon = at.saturating_add(HORIZON).unwrap_or(Timestamp::MAX);
            return Some(time).filter(|time| *time <= horizon);
        }
    }
    None
}

/// When one of these Freezes may next open or close.
pub(crate) fn next_change(freezes: &[CoveringFreeze], at: Timestamp) -> Option<Timestamp> {
    let changes = freezes.iter().filter_map(|freeze| changes_at(freeze, at));
    changes.min()
}

/// When a Freeze may next open or close.
fn changes_at(freeze: &CoveringFreeze, at: Timestamp) -> Option<Timestamp> {
    Schedule::of(freeze)?.changes_at(at)
}

impl Schedule {
    fn of(freeze: &CoveringFreeze) -> Option<Self> {
        let times = freeze.invalid.is_none().then_some(&freeze.times)?;
        Self::parse(times).ok()
    }

    fn parse(times: &FreezeTimes) -> Result<Self, String> {
        let parse = |name: &str, windows: &[ScheduleWindow]| -> Result<Vec<_>, String> {
            let windows = windows.iter().enumerate();
            let parsed = windows.map(|(index, window)| {
                Window::parse(window).map_err(|error| format!("{name}[{index}]: {error}"))
            });
            parsed.collect()
        };
        let bound = |time: &Option<api::Time>, or| time.as_ref().map_or(or, |time| time.0);
        let schedule = Self {
            closed: parse("closed", &times.closed)?,
            open_only: parse("openOnly", &times.open_only)?,
            not_before: bound(&times.not_before, Timestamp::MIN),
            not_after: bound(&times.not_after, Timestamp::MAX),
            is_stop: times.closed.is_empty() && times.open_only.is_empty(),
        };
        match schedule.not_before < schedule.not_after {
            true => Ok(schedule),
            false => Err("notAfter is not after notBefore".to_owned()),
        }
    }

    fn is_closed(&self, at: Timestamp) -> bool {
        let is_bound = self.not_before <= at && at < self.not_after;
        is_bound && (self.is_stop || covers_until(&self.closed, at).is_some() || self.is_shut(at))
    }

    /// Whether it is outside of the only open windows.
    fn is_shut(&self, at: Timestamp) -> bool {
        !self.open_only.is_empty() && covers_until(&self.open_only, at).is_none()
    }

    /// A time up to which it is closed, if it is closed at a time. It may be closed then, too.
    fn closed_until(&self, at: Timestamp) -> Timestamp {
        if self.is_stop {
            return self.not_after;
        }
        let window = covers_until(&self.closed, at);
        let shut = self.is_shut(at).then(|| self.next_open(at));
        let until = window.max(shut);
        until.map_or(self.not_after, |until| until.min(self.not_after))
    }

    fn next_open(&self, at: Timestamp) -> Timestamp {
        next_begin(&self.open_only, at).unwrap_or(Timestamp::MAX)
    }

    /// The next time at which something about it begins or ends.
    fn changes_at(&self, at: Timestamp) -> Option<Timestamp> {
        let of = |windows: &[Window]| covers_until(windows, at).or_else(|| next_begin(windows, at));
        let bounds = [self.not_before, self.not_after].into_iter();
        let bounds = bounds.filter(|it| *it < Timestamp::MAX);
        let windows = [of(&self.closed), of(&self.open_only)]
            .into_iter()
            .flatten();
        let next = bounds.chain(windows).filter(|it| *it > at).min();
        next.filter(|it| *it <= self.not_after)
    }
}

fn covers_until(windows: &[Window], at: Timestamp) -> Option<Timestamp> {
    windows.iter().filter_map(|it| it.covers_until(at)).max()
}

fn next_begin(windows: &[Window], at: Timestamp) -> Option<Timestamp> {
    let horizon = at.saturating_add(HORIZON).unwrap_or(Timestamp::MAX);
    let next = windows.iter().filter_map(|it| it.next_begin(at, horizon));
    next.min()
}

#[cfg(test)]
mod tests;
