//! Cron expressions of five fields: minute, hour, day of month, month, day of week.
//!
//! The notation is that of Flux Operator's schedules: lists, ranges, steps, English names of months and
//! days, and `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`. Where both
//! days are restricted, one of them has to match. `@every` is refused: it names no time of day.

use jiff::civil::Date;

/// Minutes of a day.
pub(super) const MINUTES: i16 = 24 * 60;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A parsed expression. Each field is a set of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CronExpression {
    minutes: u64,
    hours: u64,
    days_of_month: u64,
    months: u64,
    days_of_week: u64,
    /// Whether a day must match both fields: one of them is `*`.
    needs_both_days: bool,
}

/// The values that a field may have.
struct CronField {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [CronField; 5] = [
    field("minute", 0, 59, &[]),
    field("hour", 0, 23, &[]),
    field("day of month", 1, 31, &[]),
    field("month", 1, 12, &MONTHS),
    field("day of week", 0, 7, &DAYS),
];

const fn field(
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
) -> CronField {
    CronField {
        name,
        min,
        max,
        names,
    }
}

impl CronExpression {
    /// Parses an expression; the error is a clause for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            macro_name if macro_name.starts_with('@') => expanded(macro_name)?,
            text => text,
        };
        let parts: Vec<_> = text.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = parts.as_slice() else {
            let count = parts.len();
            return Err(format!("{text:?} has {count} fields instead of five"));
        };
        let sunday = |days: u64| (days | days >> 7) & 0x7f;
        Ok(Self {
            minutes: FIELDS[0].parse(minute)?,
            hours: FIELDS[1].parse(hour)?,
            days_of_month: FIELDS[2].parse(day_of_month)?,
            months: FIELDS[3].parse(month)?,
            days_of_week: sunday(FIELDS[4].parse(day_of_week)?),
            needs_both_days: is_any(day_of_month) || is_any(day_of_week),
        })
    }

    /// Whether it names a time on this day.
    pub(super) fn matches_day(&self, day: Date) -> bool {
        let has = |bits: u64, value: i8| bits >> value & 1 == 1;
        let of_month = has(self.days_of_month, day.day());
        let of_week = has(self.days_of_week, day.weekday().to_sunday_zero_offset());
        let is_day = match self.needs_both_days {
            true => of_month && of_week,
            false => of_month || of_week,
        };
        is_day && has(self.months, day.month())
    }

    /// The latest minute of a day that it names, up to this one.
    pub(super) fn latest(&self, minute: i16) -> Option<i16> {
        let minute = minute.min(MINUTES - 1);
        let hours = (0..=minute.div_euclid(60)).rev();
        let mut hours = hours.filter(|hour| self.hours >> hour & 1 == 1);
        hours.find_map(|hour| {
            let upto = (minute - hour * 60).min(59);
            let minutes = self.minutes & (u64::MAX >> (63 - upto));
            let highest = minutes.checked_ilog2()?;
            Some(hour * 60 + i16::try_from(highest).ok()?)
        })
    }

    /// The earliest minute of a day that it names, from this one on.
    pub(super) fn earliest(&self, minute: i16) -> Option<i16> {
        let minute = minute.max(0);
        let mut hours = (minute / 60..24).filter(|hour| self.hours >> hour & 1 == 1);
        hours.find_map(|hour| {
            let from = (minute - hour * 60).max(0);
            let minutes = self.minutes & (u64::MAX << from);
            let lowest = (minutes != 0).then(|| minutes.trailing_zeros())?;
            Some(hour * 60 + i16::try_from(lowest).ok()?)
        })
    }

    /// Every minute of a day that it names.
    pub(super) fn all(&self) -> impl Iterator<Item = i16> {
        (0..MINUTES).filter(|it| self.names(*it))
    }

    fn names(&self, minute: i16) -> bool {
        self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1
    }
}

fn is_any(field: &str) -> bool {
    matches!(field, "*" | "?" | "*/1" | "?/1")
}

fn expanded(name: &str) -> Result<&'static str, String> {
    match name {
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@monthly" => Ok("0 0 1 * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@hourly" => Ok("0 * * * *"),
        _ => Err(format!("{name:?} names no time of day; write five fields")),
    }
}

impl CronField {
    fn parse(&self, text: &str) -> Result<u64, String> {
        let mut parts = text.split(',').map(|part| self.part(part));
        parts.try_fold(0, |bits, part| Ok(bits | part?))
    }

    /// `*`, `5`, `1-5`, each with `/step` or without.
    fn part(&self, text: &str) -> Result<u64, String> {
        let wrong = || format!("{text:?} is no {}", self.name);
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(number(step).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if is_any(range) => (self.min, self.max),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            None => {
                let value = self.value(range)?;
                (value, if step.is_some() { self.max } else { value })
            }
        };
        let step = step.unwrap_or(1);
        if first > last || step == 0 {
            return Err(wrong());
        }
        let values = (first..=last).step_by(step as usize);
        Ok(values.fold(0, |bits, value| bits | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let position = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        let named = position.map(|position| position as u32 + self.min);
        named
            .or_else(|| number(text))
            .filter(|value| (self.min..=self.max).contains(value))
            .ok_or_else(|| format!("{text:?} is no {}", self.name))
    }
}

fn number(text: &str) -> Option<u32> {
    let is_number =
        !text.is_empty() && text.len() <= 4 && text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    /// The days of November 2026 and the minutes of a day that an expression names.
    fn drawn(text: &str) -> (Vec<i8>, Vec<String>) {
        let cron = CronExpression::parse(text).unwrap();
        let days = (1..=30).filter(|day| cron.matches_day(date(2026, 11, *day)));
        let times = cron
            .all()
            .map(|it| format!("{:02}:{:02}", it / 60, it % 60));
        (days.collect(), times.collect())
    }

    #[test]
    fn reads_lists_ranges_steps_and_names() {
        let (days, times) = drawn("0,30 8-10/2 * nov MON-wed");
        assert_eq!(days, [2, 3, 4, 9, 10, 11, 16, 17, 18, 23, 24, 25, 30]);
        assert_eq!(times, ["08:00", "08:30", "10:00", "10:30"]);
        let (days, times) = drawn("50/5 23 1 * *");
        assert_eq!(
            (days, times),
            (vec![1], vec!["23:50".into(), "23:55".into()])
        );
        // 1 November 2026 is a Sunday: 0 and 7.
        assert_eq!(drawn("0 0 * * 7").0, [1, 8, 15, 22, 29]);
        assert_eq!(drawn("0 0 * * 7"), drawn("0 0 * * 0"));
        assert_eq!(drawn("0 0 * * 5-7").0, drawn("0 0 * * FRI,SAT,SUN").0);
        assert_eq!(drawn("@weekly"), drawn("0 0 * * SUN"));
        assert_eq!(drawn("@monthly").0, [1]);
        assert!(drawn("@yearly").0.is_empty());
        let new_year = CronExpression::parse("@annually").unwrap();
        assert!(new_year.matches_day(date(2027, 1, 1)));
        // A value that is named twice.
        assert_eq!(drawn("0,0 8,7-9 1 * *").1, ["07:00", "08:00", "09:00"]);
    }

    #[test]
    fn the_nearest_times_are_those_of_the_day() {
        for text in [
            "30 2 * * *",
            "5,50 0,12-13,23 * * *",
            "59 23 * * *",
            "* * * * *",
        ] {
            let cron = CronExpression::parse(text).unwrap();
            for minute in 0..MINUTES {
                let next = cron.all().find(|it| *it >= minute);
                assert_eq!(cron.earliest(minute), next, "{text} from {minute}");
                let last = cron.all().filter(|it| *it <= minute).last();
                assert_eq!(cron.latest(minute), last, "{text} up to {minute}");
            }
            // Before the day and after it.
            assert_eq!(cron.earliest(-1), cron.all().next(), "{text}");
            assert_eq!(cron.earliest(MINUTES), None, "{text}");
            assert_eq!(cron.latest(-1), None, "{text}");
            assert_eq!(cron.latest(2 * MINUTES), cron.all().last(), "{text}");
        }
    }

    #[test]
    fn one_of_two_restricted_days_has_to_match() {
        assert_eq!(drawn("0 0 13 * FRI").0, [6, 13, 20, 27]);
        assert_eq!(drawn("0 0 2,3 * FRI").0, [2, 3, 6, 13, 20, 27]);
        assert_eq!(drawn("0 0 2,3 * *").0, [2, 3]);
        assert_eq!(drawn("0 0 2,3 * ?").0, [2, 3]);
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |text| CronExpression::parse(text).unwrap_err();
        assert_eq!(
            error("0 16 * *"),
            "\"0 16 * *\" has 4 fields instead of five"
        );
        assert_eq!(error("60 * * * *"), "\"60\" is no minute");
        assert_eq!(error("0 16 * * FRX"), "\"FRX\" is no day of week");
        assert_eq!(error("0 5-2 * * *"), "\"5-2\" is no hour");
        assert_eq!(error("*/0 * * * *"), "\"*/0\" is no minute");
        assert_eq!(error("0 0 0 * *"), "\"0\" is no day of month");
        assert_eq!(error("+1 * * * *"), "\"+1\" is no minute");
        assert_eq!(error("00001 * * * *"), "\"00001\" is no minute");
        assert_eq!(
            error("@every 1h"),
            "\"@every 1h\" names no time of day; write five fields"
        );
        assert!(error("CRON_TZ=UTC 0 0 * * *").contains("6 fields"));
    }
}
