//! When checks are measured and what measurements mean, drawn as lines of text: `+30s fail` is a failed
//! measurement at that time after the creation of the check run.

use std::fmt::Write;

use api::{CheckRun, Time, check_run::CheckVerdict, pipeline::Check};
use kube::core::ObjectMeta;
use planner::{Measurement, MeasurementProgress, Timestamp, judge, measure_at};
use serde_json::{Value, json};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn run_of(check: Value) -> CheckRun {
    let check: Check = serde_json::from_value(check).unwrap();
    let mut run = CheckRun::new(
        "shop-errors",
        api::check_run::CheckRunSpec {
            pipeline: "shop".to_owned(),
            environment: "staging".to_owned(),
            revision: "1.1.0".to_owned(),
            version: "1.1.0".to_owned(),
            check,
            ..Default::default()
        },
    );
    run.metadata = ObjectMeta {
        creation_timestamp: Some(Time(at(0))),
        generation: Some(1),
        ..run.metadata
    };
    run
}

fn measurement(word: &str) -> Measurement {
    let observed = Some("value 1".to_owned());
    let unknown = |reason: &str, needs_edit| Measurement::Unknown {
        reason: reason.to_owned(),
        message: "why".to_owned(),
        needs_edit,
    };
    match word {
        "pass" => Measurement::Passed { observed },
        "fail" => Measurement::Failed {
            reason: "ConditionNotMet".to_owned(),
            message: "value 1 is too much".to_owned(),
            observed,
        },
        "silent" => unknown("NoAnswer", false),
        "refused" => unknown("CheckHostNotAllowed", true),
        "pending" => Measurement::Pending,
        other => panic!("{other} is no measurement"),
    }
}

/// Takes measurements when they are due and draws every verdict that would be written.
fn drawn(check: Value, first_seen: i64, words: &str) -> String {
    let mut run = run_of(check);
    let mut progress = MeasurementProgress::new(at(first_seen));
    let (mut drawing, mut writes) = (String::new(), 0);
    for word in words.split(' ') {
        let Some(due) = measure_at(&run, &progress, 0) else {
            writeln!(drawing, "never measured again").unwrap();
            break;
        };
        let due = due.max(at(first_seen));
        let status = judge(&run, &mut progress, measurement(word), due);
        if status == run.status.clone().unwrap_or_default() {
            continue;
        }
        writes += 1;
        let seconds = due.as_second() - at(0).as_second();
        let reason = status.reason.clone().unwrap_or_default();
        let verdict = status.verdict.word();
        writeln!(drawing, "+{seconds}s {verdict} {reason}").unwrap();
        run.status = Some(status);
    }
    write!(drawing, "{writes} writes").unwrap();
    drawing
}

fn prometheus(more: Value) -> Value {
    let mut check = json!({
        "name": "errors",
        "prometheus": {"address": "http://p", "query": "up", "passExpr": "value < 1"},
    });
    let fields = more.as_object().unwrap().clone();
    check.as_object_mut().unwrap().extend(fields);
    check
}

fn check(check: Value, words: &str, expected: &[&str]) {
    check_from(check, 0, words, expected);
}

fn check_from(check: Value, first_seen: i64, words: &str, expected: &[&str]) {
    assert_eq!(
        drawn(check, first_seen, words),
        expected.join("\n"),
        "{words}"
    );
}

#[test]
fn one_measurement_decides_unless_thresholds_say_otherwise() {
    check(
        prometheus(json!({})),
        "pass fail",
        &["+0s Passed ", "never measured again", "1 writes"],
    );
    check(
        prometheus(json!({})),
        "fail pass",
        &[
            "+0s Failed ConditionNotMet",
            "never measured again",
            "1 writes",
        ],
    );
}

#[test]
fn thresholds_count_measurements_in_a_row() {
    let thresholds = json!({"interval": "10s", "successThreshold": 3, "failureThreshold": 2});
    check(
        prometheus(thresholds.clone()),
        "pass pass fail pass pass pass",
        &["+0s Running ", "+50s Passed ", "2 writes"],
    );
    check(
        prometheus(thresholds.clone()),
        "fail pass fail fail pass",
        &[
            "+0s Running ",
            "+30s Failed ConditionNotMet",
            "never measured again",
            "2 writes",
        ],
    );
    check(
        prometheus(thresholds),
        "pass pass silent pass pass pass",
        &[
            "+0s Running ",
            "+20s Running NoAnswer",
            "+50s Passed ",
            "3 writes",
        ],
    );
}

#[test]
fn what_has_passed_is_measured_on_only_with_an_interval_and_can_fail() {
    let on = json!({"interval": "30s", "failureThreshold": 2});
    check(
        prometheus(on),
        "pass pass pass fail pass silent refused fail fail pass",
        &[
            "+0s Passed ",
            "+240s Failed ConditionNotMet",
            "never measured again",
            "2 writes",
        ],
    );
}

#[test]
fn a_hundred_measurements_of_a_passed_check_write_nothing() {
    let words = ["pass"; 101].join(" ");
    check(
        prometheus(json!({"interval": "30s"})),
        &words,
        &["+0s Passed ", "1 writes"],
    );
}

#[test]
fn measuring_starts_after_the_delay_and_the_timeout_counts_from_there() {
    let delayed = json!({
        "initialDelay": "5m", "interval": "60s", "timeout": "2m",
        "successThreshold": 9, "failureThreshold": 9,
    });
    check(
        prometheus(delayed),
        "fail fail fail fail",
        &[
            "+300s Running ",
            "+420s Failed CheckTimedOut",
            "never measured again",
            "2 writes",
        ],
    );
}

#[test]
fn without_an_answer_a_check_never_fails_and_never_passes() {
    let silent = json!({"interval": "60s", "timeout": "2m"});
    check(
        prometheus(silent.clone()),
        "silent silent silent silent pass",
        &[
            "+0s Running NoAnswer",
            "+120s Error NoAnswer",
            "+240s Passed ",
            "3 writes",
        ],
    );
    check(
        prometheus(silent),
        "refused refused refused fail",
        &[
            "+0s Error CheckHostNotAllowed",
            "+180s Failed ConditionNotMet",
            "2 writes",
        ],
    );
}

#[test]
fn a_check_that_could_not_be_measured_runs_again_once_it_answers() {
    let twice = json!({"interval": "60s", "timeout": "10m", "successThreshold": 2});
    check(
        prometheus(twice),
        "refused pass pass",
        &[
            "+0s Error CheckHostNotAllowed",
            "+60s Running ",
            "+120s Passed ",
            "3 writes",
        ],
    );
}

#[test]
fn a_process_that_comes_late_measures_before_it_gives_up() {
    let late = json!({"interval": "30s", "timeout": "2m", "successThreshold": 2});
    check_from(
        prometheus(late.clone()),
        3600,
        "pass pass",
        &["+3600s Running ", "+3630s Passed ", "2 writes"],
    );
    check_from(
        prometheus(late),
        3600,
        "pass silent pass pass",
        &[
            "+3600s Running ",
            "+3630s Running NoAnswer",
            "+3660s Failed CheckTimedOut",
            "never measured again",
            "3 writes",
        ],
    );
}

#[test]
fn a_job_runs_until_it_ends_or_its_time_is_up() {
    let job = json!({"name": "e2e", "job": {"cronJobRef": {"name": "e2e"}}, "timeout": "25s", "successThreshold": 5});
    check(
        job.clone(),
        "pending pending pass",
        &["+0s Running ", "+20s Passed ", "2 writes"],
    );
    check(
        job,
        "pending pending pending pending",
        &["+0s Running ", "+30s Failed CheckTimedOut", "2 writes"],
    );
}

#[test]
fn an_external_check_waits_for_its_result_without_a_write() {
    let external = json!({"name": "ticket", "external": {}, "timeout": "1h"});
    check(
        external,
        "pending pending",
        &["+3600s Failed CheckTimedOut", "1 writes"],
    );
}

#[test]
fn the_first_measurements_after_a_restart_are_spread_over_the_interval() {
    let mut run = run_of(prometheus(json!({"interval": "30s"})));
    run.status = Some(api::check_run::CheckRunStatus {
        verdict: CheckVerdict::Passed,
        ..Default::default()
    });
    let progress = MeasurementProgress::new(at(1000));
    let due: Vec<_> = [0, 10_000, 29_999, 30_000]
        .map(|seed| measure_at(&run, &progress, seed).unwrap())
        .iter()
        .map(|due| due.as_millisecond() - at(1000).as_millisecond())
        .collect();
    assert_eq!(due, [0, 10_000, 29_999, 0]);
}

/// Verdict, message, what was observed and when it was decided, after the last of these measurements.
fn last_status(check: Value, words: &str) -> (String, Option<String>, Option<String>, Option<i64>) {
    let mut run = run_of(check);
    let mut progress = MeasurementProgress::new(at(0));
    for word in words.split(' ') {
        let due = measure_at(&run, &progress, 0).unwrap();
        run.status = Some(judge(&run, &mut progress, measurement(word), due));
    }
    let status = run.status.unwrap();
    let decided = status
        .decided_at
        .map(|it| it.0.as_second() - at(0).as_second());
    let verdict = status.verdict.word().to_owned();
    (verdict, status.message, status.observed, decided)
}

#[test]
fn a_verdict_says_what_was_measured_and_when() {
    let check =
        |more: Value, words: &str, expected: (&str, Option<&str>, Option<&str>, Option<i64>)| {
            let (verdict, message, observed, decided) = last_status(prometheus(more), words);
            let found = (
                verdict.as_str(),
                message.as_deref(),
                observed.as_deref(),
                decided,
            );
            assert_eq!(found, expected, "{words}");
        };
    let observed = Some("value 1");
    check(json!({}), "pass", ("Passed", None, observed, Some(0)));
    let message = Some("value 1 is too much");
    check(json!({}), "fail", ("Failed", message, observed, Some(0)));
    let twice = json!({"interval": "10s", "failureThreshold": 2});
    let message = Some("value 1 is too much (2 times in a row)");
    check(
        twice.clone(),
        "fail fail",
        ("Failed", message, observed, Some(10)),
    );
    check(twice, "silent fail", ("Running", Some("why"), None, None));
    check(json!({}), "refused", ("Error", Some("why"), None, None));
    check(
        json!({"interval": "10s"}),
        "pass fail",
        ("Failed", Some("value 1 is too much"), observed, Some(10)),
    );
}

#[test]
fn long_messages_are_cut_at_a_character() {
    let mut run = run_of(prometheus(json!({})));
    let mut progress = MeasurementProgress::new(at(0));
    for (length, expected) in [(512, 1024), (513, 1023)] {
        let measurement = Measurement::Failed {
            reason: "ConditionNotMet".to_owned(),
            message: "ä".repeat(length),
            observed: None,
        };
        run.status = None;
        let status = judge(&run, &mut progress, measurement, at(0));
        let message = status.message.unwrap();
        assert_eq!(message.len(), expected);
        assert_eq!(message.ends_with('…'), length == 513);
        progress = MeasurementProgress::new(at(0));
    }
}

#[test]
fn a_reported_result_is_judged_at_once() {
    let check = json!({"name": "ticket", "external": {}, "timeout": "1h"});
    let mut run = run_of(check);
    let mut progress = MeasurementProgress::new(at(0));
    run.status = Some(judge(&run, &mut progress, Measurement::Pending, at(5)));
    assert_eq!(measure_at(&run, &progress, 0), Some(at(3600)));
    run.spec.result = serde_json::from_value(json!({"passed": true, "by": "ann"})).ok();
    assert!(run.spec.result.is_some());
    assert_eq!(measure_at(&run, &progress, 0), Some(at(5)));
}
