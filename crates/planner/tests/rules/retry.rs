//! What can be retried: nothing that its environment has left behind.

use planner::RetryTarget;

use crate::{drawing::draw, plan::check as check_plan};

#[track_caller]
fn check(drawing: &str, expected: &str) {
    let world = draw(drawing);
    let (pipeline, promotions) = (&world.pipeline, &world.promotions);
    let found = planner::retryable(pipeline, &world.model(), promotions, "prod");
    let text = match found {
        None => "nothing".to_owned(),
        Some(RetryTarget::Checks(revision)) => format!("checks of {revision}"),
        Some(RetryTarget::Promotion(revision)) => format!("promotion of {revision}"),
    };
    assert_eq!(text, expected, "{drawing}");
}

#[test]
fn what_failed_last_can_be_retried() {
    let failed = "promotion prod 2.0.0 Failed because DeployFailed";
    for (drawing, expected) in [
        (
            format!("dev[2.0.0 ok] > prod[1.0.0 ok]\n{failed}"),
            "promotion of 2.0.0",
        ),
        (
            format!(
                "dev[3.0.0 ok] > prod[1.0.0 ok]\n{failed}\npromotion prod 3.0.0 WaitingForMerge"
            ),
            "nothing",
        ),
        // Somebody deployed something newer.
        (
            format!("dev[2.0.0 ok] > prod[3.0.0 ok]\n{failed}"),
            "nothing",
        ),
        ("dev[2.0.0 ok] > prod[2.0.0 ok]".to_owned(), "nothing"),
        // Nothing is promoted there any more.
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Failed because StrategyChanged\nwithout promotion"
                .to_owned(),
            "nothing",
        ),
        // A rollback that failed is tried again while what it was to replace runs.
        (
            format!("dev[3.0.0 ok] > prod[3.0.0 ok]\n{failed} asked r0 back instead 3.0.0"),
            "promotion of 2.0.0",
        ),
        (
            format!("dev[4.0.0 ok] > prod[4.0.0 ok]\n{failed} asked r0 back instead 3.0.0"),
            "nothing",
        ),
        // What another target runs says nothing about this one.
        (
            format!("dev[2.0.0 ok] > prod{{per target}}[1.0.0 ok, 3.0.0 ok]\n{failed} at - prod-1"),
            "promotion of 2.0.0",
        ),
        (
            format!("dev[2.0.0 ok] > prod{{per target}}[3.0.0 ok, 1.0.0 ok]\n{failed} at - prod-1"),
            "nothing",
        ),
    ] {
        check(&drawing, expected);
    }
}

#[test]
fn checks_can_be_retried_while_their_revision_is_there() {
    for (drawing, expected) in [
        (
            "dev[2.0.0 ok] > prod{verify smoke}[2.0.0 ok]\ncheck prod smoke 2.0.0 Failed",
            "checks of 2.0.0",
        ),
        // Nobody watches its targets: a report says what runs there.
        (
            "dev[2.0.0 ok] > prod{verify smoke}[- broken told]\nreported prod 2.0.0\ncheck prod smoke 2.0.0 Failed",
            "checks of 2.0.0",
        ),
        (
            "dev[2.0.0 ok] > prod{verify smoke}[2.0.0 ok]\ncheck prod smoke 2.0.0 Passed",
            "nothing",
        ),
        (
            "dev[3.0.0 ok] > prod{verify smoke}[3.0.0 ok]\ncheck prod smoke 2.0.0 Failed",
            "nothing",
        ),
        (
            "dev[2.0.0 ok] > prod{checks smoke}[1.0.0 ok]\ncheck prod smoke 2.0.0 Failed before",
            "checks of 2.0.0",
        ),
        (
            // People may request it although something newer is there.
            "dev[3.0.0 ok] > prod{checks smoke}[3.0.0 ok]\ncheck prod smoke 2.0.0 Failed before",
            "checks of 2.0.0",
        ),
    ] {
        check(drawing, expected);
    }
}

/// The request is refused where it is not offered.
#[test]
fn a_request_to_retry_what_was_left_behind_is_refused() {
    check_plan(
        "dev[3.0.0 ok] > prod[3.0.0 ok]\npromotion prod 2.0.0 Failed because DeployFailed\nrequest prod Retry - r1",
        "prod request r1: refused: 2.0.0 failed in prod and was replaced since; to bring it again, request it \
         (`sluice promote shop prod 2.0.0`)",
    );
}
