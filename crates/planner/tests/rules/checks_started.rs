//! Which checks start, which are kept, and which are measured on.

use planner::{Step, measures_on, surplus_checks};

use crate::{
    drawing::{World, draw, now},
    plan::check,
    show::show,
};

#[test]
fn every_check_of_a_revision_starts() {
    check(
        "dev{verify smoke errors}[2.0.0 ok] > prod[1.0.0 ok]\ncheck dev smoke 2.0.0 Passed",
        "check dev errors 2.0.0 #0
         prod: Verifying: 2.0.0 has not passed the checks of dev: errors has not started; \
         resolved by those checks, once they pass",
    );
}

#[test]
fn what_is_superseded_is_not_checked_any_more() {
    let world = draw("dev[3.0.0 ok] > prod{checks ticket}[1.0.0 ok]\npromotion prod 2.0.0 Running");
    assert_eq!(
        show(&world, &world.plan()),
        "supersede prod 2.0.0\nstart prod 3.0.0 instead of 1.0.0\n\
         check prod ticket 3.0.0 #0 before it enters",
    );
}

#[test]
fn nothing_is_checked_before_every_watched_target_has_it() {
    check(
        "dev[2.0.0 ok] > prod{verify smoke}[2.0.0 ok, 1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0",
    );
    // Where reports are all there is, one is enough.
    check(
        "dev[2.0.0 ok] > prod{verify smoke}[2.0.0 ok told, 1.0.0 ok told]",
        "start prod 2.0.0 instead of 1.0.0\ncheck prod smoke 2.0.0 #0\ncheck prod smoke 1.0.0 #0",
    );
}

#[test]
fn what_a_target_and_a_report_tell_is_checked_once() {
    check(
        "dev{verify smoke}[2.0.0 ok] > prod{any}[2.0.0 ok]\nreported dev 2.0.0",
        "check dev smoke 2.0.0 #0",
    );
    check(
        "dev{verify smoke}[2.0.0 ok] > prod{any}[2.0.0 ok]\nreported dev 2.1.0\ncheck dev smoke 2.0.0 Passed",
        "check dev smoke 2.1.0 #0",
    );
}

#[test]
fn a_retry_starts_the_checks_that_failed_and_no_others() {
    let prod = "dev[2.0.0 ok] > prod{verify smoke}[2.0.0 ok]\ncheck prod smoke 2.0.0";
    let again = "check prod smoke 2.0.0 #1\nprod request r1: checking again: smoke";
    check(&format!("{prod} Failed\nrequest prod Retry - r1"), again);
    check(
        &format!("{prod} Failed\nrequest prod Retry 2.0.0 r1"),
        again,
    );
    let refused = "prod request r1: refused: no promotion into prod has failed";
    check(
        &format!("{prod} Failed\nrequest prod Retry 1.0.0 r1"),
        refused,
    );
    check(&format!("{prod} Pending\nrequest prod Retry - r1"), refused);
    check(
        &format!("{prod} Passed #1\nrequest prod Retry - r1"),
        refused,
    );
}

/// How many checks are deleted after these steps.
fn surplus(world: &World, steps: &[Step]) -> usize {
    let (pipeline, model) = (&world.pipeline, world.model());
    surplus_checks(pipeline, &model, (&world.promotions, steps), &world.runs).len()
}

#[test]
fn the_checks_of_a_promotion_that_starts_stay() {
    let world = draw(
        "dev[2.0.0 ok] > prod{checks ticket}[1.0.0 ok]\ncheck prod ticket 2.0.0 Passed before",
    );
    assert_eq!(surplus(&world, &world.plan().steps), 0);
    assert_eq!(surplus(&world, &[]), 1);
}

#[test]
fn only_the_check_that_failed_says_why_a_revision_is_rejected() {
    let prod = "dev[3.0.0 ok] > prod{verify smoke, checks ticket}[1.0.0 ok]\nrejected prod 2.0.0";
    for (run, expected) in [
        ("smoke 2.0.0 Failed", 0),
        ("smoke 2.0.0 Passed", 1),
        ("ticket 2.0.0 Failed before", 1),
        ("smoke 1.5.0 Failed", 1),
    ] {
        let world = draw(&format!("{prod}\ncheck prod {run}"));
        assert_eq!(surplus(&world, &[]), expected, "{run}");
    }
}

/// Whether the check of the drawing is measured again after it has passed.
fn is_measured_on(drawing: &str, interval: Option<&str>) -> bool {
    let mut world = draw(drawing);
    let interval = interval.map(|it| it.parse::<api::Duration>().unwrap());
    world.pipeline.spec.checks[0].interval = interval.clone();
    world.runs[0].spec.check.interval = interval;
    let name = api::names::check_run_name(&world.runs[0].spec);
    world.runs[0].metadata.name = Some(name);
    measures_on(&world.pipeline, &world.runs[0], now())
}

#[test]
fn only_checks_of_what_soaks_are_measured_on() {
    let soaking = |check: &str| {
        format!(
            "dev{{{check} smoke}}[2.0.0 ok 5m] > prod{{soak 30m}}[1.0.0 ok]\ncheck dev smoke 2.0.0 Passed"
        )
    };
    assert!(is_measured_on(&soaking("verify"), Some("30s")));
    assert!(!is_measured_on(&soaking("verify"), None));
    let before = format!("{} before", soaking("checks"));
    assert!(!is_measured_on(&before, Some("30s")));
}

#[test]
fn where_one_target_is_enough_each_revision_soaks_by_itself() {
    let dev = "dev{verify smoke}[2.0.0 ok 5m, 1.5.0 ok 40m] > prod{any, soak 30m}[1.0.0 ok]";
    for (revision, expected) in [("2.0.0", true), ("1.5.0", false), ("1.0.0", false)] {
        let drawing = format!("{dev}\ncheck dev smoke {revision} Passed");
        assert_eq!(
            is_measured_on(&drawing, Some("30s")),
            expected,
            "{revision}"
        );
    }
}
