//! Defects of the Weave pipeline-controller, one test for each that could come back here.

use crate::{drawing::draw, plan::check};

#[test]
fn settings_of_the_environment_alone_are_enough() {
    let drawing = "dev[2.0.0 ok] > prod{labelled urgent}[1.0.0 ok]\nwithout promotion";
    check(drawing, "start prod 2.0.0 instead of 1.0.0");
    let steps = draw(drawing).plan().steps;
    let [planner::Step::StartPromotion(promotion)] = steps.as_slice() else {
        panic!("{steps:?}");
    };
    let strategy = promotion.spec.strategy.pull_request.as_ref().unwrap();
    assert_eq!(
        strategy.labels,
        ["urgent"],
        "the environment's settings, not the pipeline's"
    );
}

#[test]
fn a_pipeline_without_environments_is_no_panic() {
    check("", "nothing");
}

#[test]
fn manual_is_honoured_and_waiting_approval_survives() {
    let drawing = "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval";
    let plan = draw(drawing).plan();
    assert_eq!(plan.steps, []);
    assert_eq!(
        plan.environments["prod"].waiting_approval.as_deref(),
        Some("2.0.0")
    );
}

#[test]
fn what_was_promoted_is_not_promoted_again_until_it_shows() {
    for phase in ["Running", "WaitingForMerge", "Deploying merged 1m"] {
        check(
            &format!("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 {phase}"),
            "nothing",
        );
    }
}

#[test]
fn nothing_is_promoted_into_targets_that_cannot_be_read() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 unreachable]",
        "prod: TargetUnreachable: prod target prod: no answer; resolved by making the target readable again",
    );
}

#[test]
fn one_unreachable_target_stops_nothing_elsewhere() {
    check(
        "dev[3.0.0 ok] > test[2.0.0 ok] > staging[1.0.0 unreachable] > prod[0.9.0 ok]",
        "start test 3.0.0 instead of 2.0.0
         staging: TargetUnreachable: staging target staging: no answer; resolved by making the target readable again
         prod: SourceNotReady: staging target staging: no answer; resolved by readiness of all targets of staging",
    );
}

#[test]
fn going_back_in_the_first_environment_does_not_drag_the_others_back() {
    check(
        "dev[1.0.0 ok] > staging[2.0.0 ok] > prod[2.0.0 ok]",
        "staging: OlderThanRunning: staging runs 2.0.0, which is newer than 1.0.0; resolved by a newer revision or a request for 1.0.0",
    );
}

#[test]
fn revisions_with_slashes_can_be_promoted() {
    check(
        "dev[feature/x@sha1:abc ok] > prod[main@sha1:def ok]\nkustomization",
        "start prod feature/x@sha1:abc instead of main@sha1:def",
    );
}
