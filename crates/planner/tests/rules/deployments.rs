//! Which stays the timeline of an environment has after a series of looks, a minute apart, and the figures that
//! follow from them.

use api::{
    Promotion, Time,
    pipeline::RequestKind,
    promotion::{Phase, PromotionRequest, PromotionStatus},
};
use planner::{DeliveryFigures, Deployment, DeploymentKind, Timestamp};

use crate::fold::{minute, pipeline, seen, statuses};

/// `1.0.0 0-1, 2.0.0 failed 1-2, back to 1.0.0 2-now`.
fn lane_text(lane: &[Deployment]) -> String {
    let minutes = |at: Timestamp| (at.as_second() - minute(0).as_second()) / 60;
    let shown = lane.iter().map(|it| {
        let (before, after) = match it.kind {
            DeploymentKind::Release => ("", ""),
            DeploymentKind::Rollback => ("back to ", ""),
            DeploymentKind::Failed => ("", " failed"),
        };
        let until = it.until.map(|at| minutes(at).to_string());
        let until = until.as_deref().unwrap_or("now");
        format!(
            "{before}{}{after} {}-{until}",
            it.revision,
            minutes(it.from)
        )
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// `2 deployments, 1 of 2 failed, restored after 60 s`.
fn figures_text(figures: &DeliveryFigures) -> String {
    let (failed, all) = (figures.failed, figures.all);
    let restored = figures.time_to_restore;
    let restored = restored.map(|it| format!(", restored after {} s", it.as_secs()));
    let restored = restored.unwrap_or_default();
    format!(
        "{} deployments, {failed} of {all} failed{restored}",
        figures.deployments
    )
}

#[track_caller]
fn check(looks: &str, lane: &str, figures: &str) {
    let mut pipeline = pipeline();
    let looks: Vec<_> = looks.split(" > ").map(|text| seen(text, false)).collect();
    let last = statuses(&mut pipeline, &looks).pop().unwrap();
    let found = planner::deployments("dev", last.environments.get("dev"), &[]);
    assert_eq!(lane_text(&found), lane);
    let found = planner::delivery_figures(&pipeline, &last, &[], minute(60));
    assert_eq!(figures_text(&found), figures);
}

#[test]
fn a_revision_that_comes_back_has_two_stays() {
    check(
        "1.0.0 ok > 2.0.0 ok > 1.0.0 ok > 3.0.0 ok",
        "1.0.0 0-1, 2.0.0 1-2, back to 1.0.0 2-3, 3.0.0 3-now",
        "2 deployments, 1 of 2 failed, restored after 60 s",
    );
}

#[test]
fn what_ran_before_a_failed_release_runs_again_after_it() {
    check(
        "1.0.0 ok > 1.0.0 failed 2.0.0",
        "1.0.0 0-1, 2.0.0 failed 1-now",
        "0 deployments, 1 of 1 failed",
    );
    check(
        "1.0.0 ok > 1.0.0 failed 2.0.0 > 1.0.0 ok",
        "1.0.0 0-1, 2.0.0 failed 1-2, back to 1.0.0 2-now",
        "0 deployments, 1 of 1 failed, restored after 60 s",
    );
    check(
        "1.0.0 ok > 1.0.0 failed 2.0.0 > 1.0.0 broken > 1.0.0 ok > 3.0.0 ok",
        "1.0.0 0-1, 2.0.0 failed 1-3, back to 1.0.0 3-4, 3.0.0 4-now",
        "1 deployments, 1 of 2 failed, restored after 120 s",
    );
    check(
        "1.0.0 ok > 1.0.0 failed 2.0.0 > 2.1.0 ok",
        "1.0.0 0-1, 2.0.0 failed 1-2, 2.1.0 2-now",
        "1 deployments, 1 of 2 failed, restored after 60 s",
    );
}

#[test]
fn two_rollbacks_in_a_row_are_one_failure() {
    check(
        "1.0.0 ok > 2.0.0 ok > 3.0.0 ok > 2.0.0 ok > 1.0.0 ok",
        "1.0.0 0-1, 2.0.0 1-2, 3.0.0 2-3, back to 2.0.0 3-4, back to 1.0.0 4-now",
        "2 deployments, 1 of 2 failed, restored after 120 s",
    );
}

#[test]
fn a_second_try_of_what_was_rolled_back_is_a_release() {
    check(
        "1.0.0 ok > 2.0.0 ok > 1.0.0 ok > 2.0.0 ok",
        "1.0.0 0-1, 2.0.0 1-2, back to 1.0.0 2-3, 2.0.0 3-now",
        "2 deployments, 1 of 2 failed, restored after 60 s",
    );
}

#[test]
fn a_target_that_is_not_ready_for_a_while_is_no_deployment() {
    check(
        "1.0.0 ok > 1.0.0 broken > 1.0.0 ok",
        "1.0.0 0-now",
        "0 deployments, 0 of 0 failed",
    );
    check(
        "1.0.0 ok,1.0.0 ok > 1.0.0 failed 2.0.0,1.0.0 ok",
        "1.0.0 0-1, 2.0.0 failed 1-now",
        "0 deployments, 1 of 1 failed",
    );
}

#[test]
fn targets_that_go_back_one_after_the_other_are_one_stay() {
    check(
        "1.0.0 ok,1.0.0 ok > 2.0.0 ok,2.0.0 ok > 1.0.0 ok,2.0.0 ok > 1.0.0 ok,1.0.0 ok",
        "1.0.0 0-1, 2.0.0 1-3, back to 1.0.0 3-now",
        "1 deployments, 1 of 1 failed, restored after 120 s",
    );
}

#[test]
fn the_last_stays_of_each_revision_are_kept() {
    let looks = ["1.0.0 ok > 2.0.0 ok"; 9].join(" > ");
    let mut pipeline = pipeline();
    let looks: Vec<_> = looks.split(" > ").map(|text| seen(text, false)).collect();
    let last = statuses(&mut pipeline, &looks).pop().unwrap();
    let found = planner::deployments("dev", last.environments.get("dev"), &[]);
    let text = lane_text(&found);
    assert!(
        text.starts_with("1.0.0 6-7, 2.0.0 7-8, back to 1.0.0 8-9"),
        "{text}"
    );
    assert!(
        text.ends_with("back to 1.0.0 16-17, 2.0.0 17-now"),
        "{text}"
    );
}

/// A rollback of dev that was created in one minute and ended in another.
fn rollback(revision: &str, created: i64, ended: i64) -> Promotion {
    let mut promotion = Promotion::default();
    promotion.metadata.name = Some(format!("dev-{revision}-{created}"));
    promotion.metadata.creation_timestamp = Some(Time(minute(created)));
    promotion.spec.pipeline = "shop".to_owned();
    promotion.spec.environment = "dev".to_owned();
    promotion.spec.revision = revision.to_owned();
    promotion.spec.version = revision.to_owned();
    promotion.spec.request = Some(PromotionRequest {
        kind: RequestKind::Rollback,
        ..PromotionRequest::default()
    });
    promotion.status = Some(PromotionStatus {
        phase: Some(Phase::Succeeded),
        merged_at: Some(Time(minute(created))),
        finished_at: Some(Time(minute(ended))),
        ..PromotionStatus::default()
    });
    promotion
}

/// The status names the rollback as what brought the revision, which never left.
#[test]
fn a_rollback_to_what_still_runs_does_not_change_how_that_came() {
    let mut pipeline = pipeline();
    let looks = "1.0.0 ok > 1.0.0 failed 2.0.0 > 1.0.0 failed 2.0.0 > 1.0.0 ok > 3.0.0 ok";
    let looks: Vec<_> = looks.split(" > ").map(|text| seen(text, false)).collect();
    let mut last = statuses(&mut pipeline, &looks).pop().unwrap();
    let promotions = [rollback("1.0.0", 2, 4)];
    let plan = planner::plan(&pipeline, &last, &promotions, minute(5));
    last = planner::apply(&plan, &last, minute(5));
    let dev = &last.environments["dev"];
    assert_eq!(dev.ran[1].promotion, promotions[0].metadata.name);
    let found = planner::deployments("dev", Some(dev), &promotions);
    assert_eq!(
        lane_text(&found),
        "1.0.0 0-1, 2.0.0 failed 1-3, back to 1.0.0 3-4, 3.0.0 4-now"
    );
}
