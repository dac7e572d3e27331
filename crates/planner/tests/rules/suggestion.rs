//! What helps an environment: nothing that failed or was rejected is suggested without that caution.

use planner::SuggestedAction;

use crate::drawing::{draw, now};

#[track_caller]
fn check(drawing: &str, expected: &str) {
    let world = draw(drawing);
    let model = planner::apply(&world.plan(), &world.model(), now());
    let suggested = match planner::suggested_action(&world.pipeline, &model, "prod") {
        None => "nothing".to_owned(),
        Some(SuggestedAction::Approve) => "approve".to_owned(),
        Some(SuggestedAction::Resume) => "resume".to_owned(),
        Some(SuggestedAction::RollBack(earlier)) => format!("roll back to {earlier}"),
        Some(SuggestedAction::RequestNevertheless { revision, caution }) => {
            format!("{revision}, which {caution}")
        }
    };
    assert_eq!(suggested, expected, "{drawing}");
}

#[test]
fn what_helps_is_suggested() {
    for (drawing, expected) in [
        ("dev[2.0.0 ok] > prod[2.0.0 ok]", "nothing"),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
            "approve",
        ),
        ("dev[2.0.0 ok] > prod{suspended}[1.0.0 ok]", "resume"),
        ("dev[2.0.0 ok] > prod[1.0.0 ok]\nsuspend", "nothing"),
        // The way back from what failed is there already.
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 broken failed 2.0.0]
             fails prod 2.0.0 1h
             ran prod 1.0.0
             promotion prod 1.0.0 AwaitingApproval asked r0 back instead 2.0.0",
            "approve",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 broken failed 2.0.0]
             fails prod 2.0.0 1h
             ran prod 1.0.0
             promotion prod 1.0.0 WaitingForMerge asked r0 back instead 2.0.0",
            "nothing",
        ),
        // A promotion that has ended, or that brings the same again, is no way back.
        (
            "dev[2.0.0 ok] > prod[1.0.0 broken failed 2.0.0]
             fails prod 2.0.0 1h
             ran prod 1.0.0
             promotion prod 0.9.0 Succeeded",
            "roll back to 1.0.0",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 broken failed 2.0.0]
             fails prod 2.0.0 1h
             ran prod 1.0.0
             promotion prod 2.0.0 Deploying",
            "roll back to 1.0.0",
        ),
        // It waits for its source: no command helps.
        ("dev[2.0.0 broken] > prod[1.0.0 ok]", "nothing"),
    ] {
        check(drawing, expected);
    }
}

#[test]
fn what_failed_or_was_rejected_is_named_with_that() {
    let failed = "dev[2.0.0 ok] > prod[1.0.0 broken failed 2.0.0]\nfails prod 2.0.0 1h";
    for (drawing, expected) in [
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0",
            "2.0.0, which was rejected here",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0\nfailed-check prod smoke 2.0.0",
            "2.0.0, which failed a check",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Failed because DeployFailed",
            "2.0.0, which failed here",
        ),
        // What still runs is better than what failed.
        (&format!("{failed}\nran prod 1.0.0"), "roll back to 1.0.0"),
        (
            &format!("{failed}\nran prod 1.0.0\npromotion prod 2.0.0 Failed because DeployFailed"),
            "roll back to 1.0.0",
        ),
        (
            &format!("{failed}\npromotion prod 2.0.0 Failed because DeployFailed"),
            "2.0.0, which failed to deploy here",
        ),
    ] {
        check(drawing, expected);
    }
}

#[test]
fn what_failed_to_deploy_and_ran_later_needs_no_caution() {
    let caution = |drawing: &str| {
        let model = draw(drawing).model();
        planner::caution(&model, "prod", "2.0.0")
    };
    let failed = "prod[1.0.0 ok]\nfails prod 2.0.0 1h";
    assert_eq!(caution(failed), Some("failed to deploy here"));
    assert_eq!(caution(&format!("{failed}\nran prod 1.0.0 2.0.0")), None);
    assert_eq!(caution("prod[1.0.0 ok]"), None);
}
