//! Windows that begin at the times of a cron expression in a time zone.
//!
//! A window lasts its length in elapsed time. A beginning that the clock skips, when daylight saving
//! begins, is the moment of the skip; one that the clock repeats begins a window each time.

use api::freeze::ScheduleWindow;
use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone},
};

use super::cron::CronExpression;

/// The longest window.
const LONGEST: SignedDuration = SignedDuration::from_hours(366 * 24);

/// A parsed window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    cron: CronExpression,
    length: SignedDuration,
    zone: TimeZone,
}

impl Window {
    /// Parses a window; the error is a clause for people.
    pub(super) fn parse(window: &ScheduleWindow) -> Result<Self, String> {
        let length =
            SignedDuration::try_from(window.window.length()).unwrap_or(SignedDuration::MAX);
        if length.is_zero() || length > LONGEST {
            return Err(format!(
                "the window {} is not between one second and 366 days",
                window.window
            ));
        }
        let zone = window.time_zone.as_deref().unwrap_or("UTC");
        Ok(Self {
            cron: CronExpression::parse(&window.cron).map_err(|it| format!("cron: {it}"))?,
            length,
            zone: TimeZone::get(zone).map_err(|_| format!("{zone:?} is no IANA time zone"))?,
        })
    }

    /// When the last of the windows that are open at a time ends.
    pub(super) fn covers_until(&self, at: Timestamp) -> Option<Timestamp> {
        let begin = self.last_begin(at)?;
        let end = begin.saturating_add(self.length).unwrap_or(Timestamp::MAX);
        (end > at).then_some(end)
    }

    /// The last beginning up to a time, if a window that began then may still be open.
    fn last_begin(&self, at: Timestamp) -> Option<Timestamp> {
        let earliest = at.saturating_sub(self.length).unwrap_or(Timestamp::MIN);
        let earliest = self.zone.to_datetime(earliest).date();
        let mut day = self.zone.to_datetime(at).date().tomorrow().ok()?;
        while day >= earliest {
            if let Some(begin) = self.last_on(day, at) {
                // A clock that was set back across midnight: the day before may have a later one.
                let before = day.yesterday().ok().and_then(|day| self.last_on(day, at));
                return before.max(Some(begin));
            }
            day = day.yesterday().ok()?;
        }
        None
    }

    /// The first beginning after a time, up to another.
    pub(super) fn next_begin(&self, after: Timestamp, latest: Timestamp) -> Option<Timestamp> {
        let last = self.zone.to_datetime(latest).date();
        let mut day = self.zone.to_datetime(after).date().yesterday().ok()?;
        while day <= last {
            if let Some(begin) = self.first_on(day, after) {
                let next = day.tomorrow().ok();
                let next = next.and_then(|day| self.first_on(day, after));
                return next
                    .into_iter()
                    .chain([begin])
                    .min()
                    .filter(|it| *it <= latest);
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn last_on(&self, day: Date, at: Timestamp) -> Option<Timestamp> {
        if !self.cron.matches_day(day) {
            return None;
        }
        let Some(midnight) = self.midnight(day) else {
            return self.begins_on(day).filter(|it| *it <= at).max();
        };
        let minute = at.duration_since(midnight).as_secs().div_euclid(60);
        let minute = i16::try_from(minute.clamp(-1, 2 * 24 * 60)).ok()?;
        after_midnight(midnight, self.cron.latest(minute)?)
    }

    fn first_on(&self, day: Date, after: Timestamp) -> Option<Timestamp> {
        if !self.cron.matches_day(day) {
            return None;
        }
        let Some(midnight) = self.midnight(day) else {
            return self.begins_on(day).filter(|it| *it > after).min();
        };
        let minute = after.duration_since(midnight).as_secs().div_euclid(60) + 1;
        let minute = i16::try_from(minute.clamp(0, 2 * 24 * 60)).ok()?;
        after_midnight(midnight, self.cron.earliest(minute)?)
    }

    /// The beginning of a day on which the clock is not set.
    fn midnight(&self, day: Date) -> Option<Timestamp> {
        let offset = |day: Date| match self.zone.to_ambiguous_timestamp(day.into()).offset() {
            AmbiguousOffset::Unambiguous { offset } => Some(offset),
            _ => None,
        };
        let own = offset(day)?;
        let next = offset(day.tomorrow().ok()?)?;
        let midnight = own.to_timestamp(day.into()).ok()?;
        (own == next).then_some(midnight)
    }

    /// Every beginning on a day, in no order.
    fn begins_on(&self, day: Date) -> impl Iterator<Item = Timestamp> {
        self.cron.all().flat_map(move |minute| {
            let hour = i8::try_from(minute / 60).unwrap_or_default();
            let minute = i8::try_from(minute % 60).unwrap_or_default();
            self.begins_at(day.at(hour, minute, 0, 0))
        })
    }

    /// The times at which the clock shows this, or when it skips it.
    fn begins_at(&self, local: DateTime) -> impl Iterator<Item = Timestamp> + use<> {
        let times = match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => [offset.to_timestamp(local).ok(), None],
            AmbiguousOffset::Fold { before, after } => [
                before.to_timestamp(local).ok(),
                after.to_timestamp(local).ok(),
            ],
            AmbiguousOffset::Gap { after, .. } => {
                let before_the_skip = after.to_timestamp(local).ok();
                let skip = before_the_skip.and_then(|it| self.zone.following(it).next());
                [skip.map(|skip| skip.timestamp()), None]
            }
        };
        times.into_iter().flatten()
    }
}

fn after_midnight(midnight: Timestamp, minute: i16) -> Option<Timestamp> {
    let passed = SignedDuration::from_mins(i64::from(minute));
    midnight.checked_add(passed).ok()
}
