use api::freeze::ScheduleWindow;
use jiff::{ToSpan, Unit, tz::TimeZone};
use proptest::prelude::*;

use super::*;

fn window(cron: &str, length: &str, zone: &str) -> ScheduleWindow {
    ScheduleWindow {
        cron: cron.to_owned(),
        window: length.parse().unwrap(),
        time_zone: Some(zone.to_owned()),
    }
}

fn closed(windows: &[ScheduleWindow]) -> CoveringFreeze {
    CoveringFreeze {
        name: "freeze".to_owned(),
        times: FreezeTimes {
            closed: windows.to_vec(),
            ..FreezeTimes::default()
        },
        ..CoveringFreeze::default()
    }
}

fn open_only(windows: &[ScheduleWindow]) -> CoveringFreeze {
    let mut freeze = closed(&[]);
    freeze.times.open_only = windows.to_vec();
    freeze
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Each change between two times, as the clock of a zone shows it.
fn drawn(freeze: &CoveringFreeze, zone: &str, from: &str, to: &str) -> Vec<String> {
    let zone = TimeZone::get(zone).unwrap();
    let (mut time, to) = (at(from), at(to));
    let mut is_before = is_closed(freeze, time);
    let mut changes = Vec::new();
    while time < to {
        let is_now = is_closed(freeze, time);
        if is_now != is_before {
            let word = if is_now { "closes" } else { "opens" };
            changes.push(format!(
                "{word} {}",
                time.to_zoned(zone.clone()).strftime("%a %d %H:%M %:z")
            ));
        }
        is_before = is_now;
        time += 1.minute();
    }
    changes
}

#[test]
fn the_weekend_is_closed_across_midnights() {
    let weekend = closed(&[window("0 16 * * FRI", "64h", "Europe/Berlin")]);
    let changes = drawn(
        &weekend,
        "Europe/Berlin",
        "2026-11-12T00:00:00Z",
        "2026-11-18T00:00:00Z",
    );
    assert_eq!(
        changes,
        ["closes Fri 13 16:00 +01:00", "opens Mon 16 08:00 +01:00"]
    );
    let opens = opens_at(&[&weekend], at("2026-11-14T12:00:00Z"));
    assert_eq!(opens, Some(at("2026-11-16T07:00:00Z")));
}

#[test]
fn a_freeze_ends_after_it_begins() {
    let begin = at("2026-11-14T12:00:00Z");
    for (end, is_valid) in [
        ("2026-11-14T11:59:59Z", false),
        ("2026-11-14T12:00:00Z", false),
        ("2026-11-14T12:00:01Z", true),
    ] {
        let times = FreezeTimes {
            not_before: Some(api::Time(begin)),
            not_after: Some(api::Time(at(end))),
            ..FreezeTimes::default()
        };
        let expected = "notAfter is not after notBefore".to_owned();
        assert_eq!(invalid_times(&times), (!is_valid).then_some(expected));
    }
}

#[test]
fn changes_are_after_a_time_and_up_to_the_end() {
    let mut freeze = closed(&[window("0 12 * * *", "1h", "UTC")]);
    freeze.times.not_after = Some(api::Time(at("2026-11-15T12:00:00Z")));
    let mut time = at("2026-11-14T11:00:00Z");
    let mut changes = Vec::new();
    while let Some(next) = next_change(&[freeze.clone()], time) {
        changes.push(next.to_string());
        time = next;
    }
    let expected = [
        "2026-11-14T12:00:00Z",
        "2026-11-14T13:00:00Z",
        "2026-11-15T12:00:00Z",
    ];
    assert_eq!(changes, expected);
}

/// Also on a day on which the clock is set.
#[test]
fn a_window_that_is_shorter_than_a_minute_comes_again_the_next_day() {
    let zone = "Europe/Berlin";
    let noon = window("0 12 * * *", "20s", zone);
    for (time, next) in [
        ("2026-11-14T10:59:59Z", "2026-11-14T11:00:00Z"),
        ("2026-11-14T11:00:00Z", "2026-11-14T11:00:20Z"),
        ("2026-11-14T11:00:30Z", "2026-11-15T11:00:00Z"),
        ("2026-11-14T11:01:30Z", "2026-11-15T11:00:00Z"),
        ("2026-03-29T09:59:59Z", "2026-03-29T10:00:00Z"),
        ("2026-03-29T10:00:00Z", "2026-03-29T10:00:20Z"),
        ("2026-03-29T10:00:30Z", "2026-03-30T10:00:00Z"),
    ] {
        let changes = changes_at(&closed(std::slice::from_ref(&noon)), at(time));
        assert_eq!(changes, Some(at(next)), "{time}");
    }
    let parsed = Window::parse(&noon).unwrap();
    for day in ["2026-03-29", "2026-11-14"] {
        let offset = if day == "2026-03-29" { "10" } else { "11" };
        let begin = at(&format!("{day}T{offset}:00:00Z"));
        let next = parsed.next_begin(begin, begin + 48.hours());
        assert_eq!(
            next,
            Some(begin + 24.hours()),
            "the next one is not this one"
        );
    }
}

#[test]
fn a_window_that_begins_at_midnight_does_not_begin_before_it() {
    let midnight = closed(&[window("0 0 * * *", "1h", "UTC")]);
    assert!(!is_closed(&midnight, at("2026-11-14T23:59:59Z")));
    assert!(is_closed(&midnight, at("2026-11-15T00:00:00Z")));
    assert!(!is_closed(&midnight, at("2026-11-15T01:00:00Z")));
}

#[test]
fn a_night_is_closed_across_one_midnight() {
    let night = closed(&[window("30 22 * * *", "7h", "America/New_York")]);
    let changes = drawn(
        &night,
        "America/New_York",
        "2026-11-10T12:00:00Z",
        "2026-11-11T20:00:00Z",
    );
    assert_eq!(
        changes,
        ["closes Tue 10 22:30 -05:00", "opens Wed 11 05:30 -05:00"]
    );
}

#[test]
fn a_beginning_that_the_clock_skips_is_the_moment_of_the_skip() {
    let berlin = closed(&[window("30 2 * * *", "30m", "Europe/Berlin")]);
    let changes = drawn(
        &berlin,
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        "2026-03-30T12:00:00Z",
    );
    let expected = [
        "closes Sun 29 03:00 +02:00",
        "opens Sun 29 03:30 +02:00",
        "closes Mon 30 02:30 +02:00",
        "opens Mon 30 03:00 +02:00",
    ];
    assert_eq!(changes, expected);
}

#[test]
fn a_beginning_that_the_clock_repeats_closes_twice() {
    let berlin = closed(&[window("30 2 * * *", "20m", "Europe/Berlin")]);
    let changes = drawn(
        &berlin,
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        "2026-10-25T12:00:00Z",
    );
    let expected = [
        "closes Sun 25 02:30 +02:00",
        "opens Sun 25 02:50 +02:00",
        "closes Sun 25 02:30 +01:00",
        "opens Sun 25 02:50 +01:00",
    ];
    assert_eq!(changes, expected);
}

#[test]
fn a_window_lasts_its_length_when_the_clock_is_set() {
    let weekend = closed(&[window("0 16 * * FRI", "64h", "Europe/Berlin")]);
    let spring = drawn(
        &weekend,
        "Europe/Berlin",
        "2026-03-27T00:00:00Z",
        "2026-03-31T00:00:00Z",
    );
    assert_eq!(
        spring,
        ["closes Fri 27 16:00 +01:00", "opens Mon 30 09:00 +02:00"]
    );
    let autumn = drawn(
        &weekend,
        "Europe/Berlin",
        "2026-10-23T00:00:00Z",
        "2026-10-27T00:00:00Z",
    );
    assert_eq!(
        autumn,
        ["closes Fri 23 16:00 +02:00", "opens Mon 26 07:00 +01:00"]
    );
}

#[test]
fn lord_howe_sets_its_clock_by_half_an_hour() {
    let zone = "Australia/Lord_Howe";
    let skipped = closed(&[window("15 2 * * *", "10m", zone)]);
    let changes = drawn(
        &skipped,
        zone,
        "2026-10-03T12:00:00Z",
        "2026-10-04T12:00:00Z",
    );
    assert_eq!(
        changes,
        ["closes Sun 04 02:30 +11:00", "opens Sun 04 02:40 +11:00"]
    );
    let repeated = closed(&[window("45 1 * * *", "10m", zone)]);
    let changes = drawn(
        &repeated,
        zone,
        "2026-04-04T12:00:00Z",
        "2026-04-05T12:00:00Z",
    );
    let expected = [
        "closes Sun 05 01:45 +11:00",
        "opens Sun 05 01:55 +11:00",
        "closes Sun 05 01:45 +10:30",
        "opens Sun 05 01:55 +10:30",
    ];
    assert_eq!(changes, expected);
}

#[test]
fn open_only_is_closed_outside_its_windows() {
    let office = open_only(&[window("0 9 * * MON-FRI", "8h", "Asia/Kolkata")]);
    let changes = drawn(
        &office,
        "Asia/Kolkata",
        "2026-11-13T00:00:00Z",
        "2026-11-16T06:00:00Z",
    );
    let expected = [
        "opens Fri 13 09:00 +05:30",
        "closes Fri 13 17:00 +05:30",
        "opens Mon 16 09:00 +05:30",
    ];
    assert_eq!(changes, expected);
    let opens = opens_at(&[&office], at("2026-11-14T00:00:00Z"));
    assert_eq!(opens, Some(at("2026-11-16T03:30:00Z")));
}

#[test]
fn the_bounds_hold_for_the_whole_freeze() {
    let mut stop = closed(&[]);
    assert!(is_closed(&stop, at("1990-01-01T00:00:00Z")));
    assert_eq!(opens_at(&[&stop], at("2026-11-14T00:00:00Z")), None);
    stop.times.not_before = Some(api::Time(at("2026-12-20T00:00:00Z")));
    stop.times.not_after = Some(api::Time(at("2027-01-04T00:00:00Z")));
    assert!(!is_closed(&stop, at("2026-12-19T23:59:59Z")));
    assert!(is_closed(&stop, at("2026-12-20T00:00:00Z")));
    assert!(!is_closed(&stop, at("2027-01-04T00:00:00Z")));
    assert_eq!(
        changes_at(&stop, at("2026-11-01T00:00:00Z")),
        Some(at("2026-12-20T00:00:00Z"))
    );
    assert_eq!(
        changes_at(&stop, at("2026-12-24T00:00:00Z")),
        Some(at("2027-01-04T00:00:00Z"))
    );
    assert_eq!(changes_at(&stop, at("2027-02-01T00:00:00Z")), None);
    let opens = opens_at(&[&stop], at("2026-12-24T00:00:00Z"));
    assert_eq!(opens, Some(at("2027-01-04T00:00:00Z")));
}

#[test]
fn it_opens_when_the_last_of_those_that_follow_each_other_ends() {
    let night = closed(&[window("0 20 * * *", "12h", "UTC")]);
    let mut holidays = closed(&[]);
    holidays.times.not_before = Some(api::Time(at("2026-12-20T06:00:00Z")));
    holidays.times.not_after = Some(api::Time(at("2027-01-04T21:00:00Z")));
    let opens = opens_at(&[&night, &holidays], at("2026-12-19T21:00:00Z"));
    assert_eq!(opens, Some(at("2027-01-05T08:00:00Z")));
}

#[test]
fn what_never_opens_within_a_year_has_no_such_time() {
    let leap_day = open_only(&[window("0 0 29 2 *", "24h", "UTC")]);
    assert_eq!(opens_at(&[&leap_day], at("2026-11-14T00:00:00Z")), None);
    assert_eq!(
        opens_at(&[&leap_day], at("2027-11-14T00:00:00Z")),
        Some(at("2028-02-29T00:00:00Z"))
    );
    let always = closed(&[window("@daily", "24h", "UTC")]);
    assert_eq!(opens_at(&[&always], at("2026-11-14T00:00:00Z")), None);
    let never = open_only(&[window("0 0 31 2 *", "24h", "UTC")]);
    assert_eq!(opens_at(&[&never], at("2026-11-14T00:00:00Z")), None);
}

/// Sixteen Freezes of 32 windows each: most never begin, and are searched through a whole year each time.
#[test]
fn the_work_is_bounded_for_many_windows_that_follow_each_other() {
    let mut windows = vec![window("0 0 31 2 *", "8784h", "UTC"); 15];
    windows.push(window("* * * * *", "1m", "UTC"));
    let mut freeze = closed(&windows);
    freeze.times.open_only = windows;
    let schedules: Vec<_> = (0..16).filter_map(|_| Schedule::of(&freeze)).collect();
    assert!(max_steps(&schedules) * 16 * 32 <= MAX_EVALUATIONS);
    let all: Vec<_> = std::iter::repeat_n(&freeze, 16).collect();
    assert_eq!(opens_at(&all, at("2026-11-14T00:00:00Z")), None);
    let weekend = closed(&[window("*/5 * * * SAT,SUN", "5m", "UTC")]);
    let opens = opens_at(&[&weekend], at("2026-11-14T00:00:00Z"));
    assert_eq!(opens, Some(at("2026-11-16T00:00:00Z")));
}

#[test]
fn what_cannot_be_understood_is_closed() {
    let check = |window, text: &str| {
        let freeze = closed(&[window]);
        assert_eq!(invalid_times(&freeze.times).as_deref(), Some(text));
        assert!(is_closed(&freeze, at("2026-11-14T00:00:00Z")));
        assert_eq!(opens_at(&[&freeze], at("2026-11-14T00:00:00Z")), None);
    };
    check(
        window("0 16 * * FRX", "1h", "UTC"),
        "closed[0]: cron: \"FRX\" is no day of week",
    );
    check(
        window("@daily", "1h", "Europe/Berlinn"),
        "closed[0]: \"Europe/Berlinn\" is no IANA time zone",
    );
    check(
        window("@daily", "0s", "UTC"),
        "closed[0]: the window 0s is not between one second and 366 days",
    );
    check(
        window("@daily", "9000h", "UTC"),
        "closed[0]: the window 9000h is not between one second and 366 days",
    );
}

/// Whether each minute of a year is covered, decided minute by minute from what the clock shows.
fn oracle(windows: &[ScheduleWindow], from: Timestamp, minutes: usize) -> Vec<bool> {
    let lead = windows
        .iter()
        .map(|it| it.window.length().as_secs() / 60)
        .max()
        .unwrap_or(0) as i64
        + 1;
    let mut covered = vec![false; minutes];
    for window in windows {
        let cron = cron::CronExpression::parse(&window.cron).unwrap();
        let zone = TimeZone::get(window.time_zone.as_deref().unwrap()).unwrap();
        let length = (window.window.length().as_secs() / 60) as i64;
        let names = |local: jiff::civil::DateTime| {
            let minute = i16::from(local.hour()) * 60 + i16::from(local.minute());
            cron.matches_day(local.date()) && cron.all().any(|it| it == minute)
        };
        let mut previous: Option<jiff::civil::DateTime> = None;
        for minute in -lead..minutes as i64 {
            let local = zone.to_datetime(from + minute.minutes());
            let mut begins = names(local);
            // What the clock skipped since the minute before.
            if let Some(mut skipped) = previous.map(|it| it + 1.minute()) {
                while skipped < local {
                    begins |= names(skipped);
                    skipped += 1.minute();
                }
            }
            previous = Some(local);
            if begins {
                let range = minute.max(0)..(minute + length).clamp(0, minutes as i64);
                range.for_each(|it| covered[it as usize] = true);
            }
        }
    }
    covered
}

/// Compares every minute of a year, and `opens_at` at many of them, with the oracle.
fn check_year(freeze: &CoveringFreeze, from: &str) {
    const YEAR: usize = 366 * 24 * 60;
    let from = at(from);
    let times = &freeze.times;
    let in_closed = oracle(&times.closed, from, YEAR);
    let in_open = oracle(&times.open_only, from, YEAR);
    let shut = |it: usize| !times.open_only.is_empty() && !in_open[it];
    let expected: Vec<_> = (0..YEAR).map(|it| in_closed[it] || shut(it)).collect();
    let schedule = Schedule::of(freeze).unwrap();
    for (minute, expected) in expected.iter().enumerate() {
        let time = from + (minute as i64).minutes();
        assert_eq!(schedule.is_closed(time), *expected, "{time}");
    }
    for minute in (0..YEAR).step_by(97) {
        let time = from + (minute as i64).minutes();
        let open = (minute..YEAR).find(|it| !expected[*it]);
        let Some(open) = open else { break };
        let expected = from + (open as i64).minutes();
        assert_eq!(opens_at(&[freeze], time), Some(expected), "at {time}");
    }
}

// A year as a clock shows it, minute by minute: four tests, because they run in parallel.

#[test]
fn a_year_of_weekends_in_berlin() {
    let weekends = closed(&[window("0 16 * * FRI", "64h", "Europe/Berlin")]);
    check_year(&weekends, "2026-01-01T00:00:00Z");
}

#[test]
fn a_year_in_a_zone_that_changes_by_half_an_hour() {
    let nights = closed(&[window("15,45 1-3 * * SUN", "25m", "Australia/Lord_Howe")]);
    check_year(&nights, "2026-01-01T00:00:00Z");
}

#[test]
fn a_year_of_windows_that_begin_in_the_hour_that_is_skipped_or_repeated() {
    let nights = open_only(&[window("30 2 * * *", "90m", "America/New_York")]);
    check_year(&nights, "2026-06-01T00:00:00Z");
}

#[test]
fn a_year_of_windows_across_midnight_in_two_zones() {
    let mut both = closed(&[
        window("0 0 28 * *", "96h", "Africa/Cairo"),
        window("*/20 0 * * *", "20m", "Africa/Cairo"),
    ]);
    both.times.open_only = vec![window("0 8 * * MON-FRI", "10h", "Pacific/Chatham")];
    check_year(&both, "2026-03-01T00:00:00Z");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Between two changes nothing changes, and what is closed opens when it says so.
    #[test]
    fn times_agree_with_each_other(
        minute in 0..60, hour in 0..24, day in 0..7, hours in 1..200_i64, open in any::<bool>(),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia"]),
        start in 1_700_000_000_i64..1_900_000_000,
    ) {
        let cron = format!("{minute} {hour} * * {day}");
        let windows = [window(&cron, &format!("{hours}h"), zone)];
        let freeze = if open { open_only(&windows) } else { closed(&windows) };
        let start = Timestamp::from_second(start).unwrap().round(Unit::Minute).unwrap();
        let next = changes_at(&freeze, start).unwrap();
        prop_assert!(next > start);
        let steps = (next.as_second() - start.as_second()) / 60;
        for step in (0..steps).step_by(61) {
            let time = start + step.minutes();
            prop_assert_eq!(is_closed(&freeze, time), is_closed(&freeze, start), "{}", time);
        }
        if let Some(opens) = opens_at(&[&freeze], start) {
            prop_assert!(!is_closed(&freeze, opens));
            prop_assert!(opens == start || is_closed(&freeze, opens - 1.second()));
        }
    }
}
