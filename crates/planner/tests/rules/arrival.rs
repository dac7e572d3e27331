//! What counts as arrived: which targets, reports and other promotions say that a site runs a revision, and
//! when a promotion begins.

use api::promotion::{Phase, RolloutStatus};
use planner::ExternalAction;

use crate::{
    attempt::{check, next_of},
    drawing::{World, draw},
};

fn world(drawing: &str) -> World {
    draw(&format!("dev[2.0.0 ok] > {drawing}"))
}

fn has_succeeded(world: &World) -> bool {
    next_of(world, "").status.reason.as_deref() == Some("Deployed")
}

#[test]
fn a_target_runs_a_digest_by_itself_or_by_its_tag() {
    for (target, expected) in [
        ("2.0.0@sha256:b", true),
        // Of git, only the tag is known.
        ("2.0.0", true),
        ("1.0.0@sha256:a", false),
        ("1.0.0", false),
    ] {
        let world = world(&format!(
            "prod[{target} ok]\npromotion prod 2.0.0@sha256:b Deploying merged 5m"
        ));
        assert_eq!(has_succeeded(&world), expected, "{target}");
    }
}

#[test]
fn a_version_that_was_published_twice_has_not_arrived_with_the_other_digest() {
    for (digest, expected) in [
        (None, true),
        (Some("sha256:b"), true),
        (Some("sha256:a"), false),
    ] {
        let mut world = world("prod[2.0.0 ok]\npromotion prod 2.0.0 Deploying merged 5m");
        world.promotions[0].spec.digest = Some("sha256:b".to_owned());
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        prod.targets[0].digest = digest.map(str::to_owned);
        assert_eq!(has_succeeded(&world), expected, "{digest:?}");
    }
}

/// What runs says nothing while git asks for another revision that is not there yet.
#[test]
fn another_revision_in_git_counts_until_it_has_arrived() {
    for (other, expected) in [
        ("3.0.0 Succeeded merged 1h", true),
        ("3.0.0 Verifying merged 1h", true),
        ("3.0.0 Failed because CheckFailed merged 1h", true),
        ("3.0.0 Failed because DeployFailed merged 1h", false),
        ("3.0.0 Deploying merged 1h", false),
        ("2.0.0 #1 Deploying merged 1h", true),
    ] {
        let world = world(&format!(
            "prod[2.0.0 ok]\npromotion prod {other}\npromotion prod 2.0.0 Running"
        ));
        assert_eq!(has_succeeded(&world), expected, "{other}");
    }
}

#[test]
fn a_report_about_the_environment_counts_where_nothing_else_tells() {
    let merged = "reported prod 2.0.0\npromotion prod 2.0.0 Deploying merged 5m";
    for (drawing, expected) in [
        (format!("prod[- broken told]\n{merged}"), true),
        (format!("prod[1.0.0 ok]\n{merged}"), false),
        (
            format!("prod{{per target}}[- broken told]\n{merged} at - prod"),
            false,
        ),
    ] {
        assert_eq!(has_succeeded(&world(&drawing)), expected, "{drawing}");
    }
}

#[test]
fn other_targets_of_the_same_cluster_do_not_matter() {
    check(
        "prod{per target}[2.0.0 ok on c1, 1.0.0 ok on c1]\npromotion prod 2.0.0 Deploying merged 5m at c1 prod-1",
        "",
        "Succeeded/Deployed: prod runs 2.0.0",
    );
}

/// A hub that was restored does not know what a target runs before it is read.
#[test]
fn a_promotion_begins_unless_a_target_was_never_read() {
    for (target, expected) in [
        ("1.0.0 ok", true),
        ("1.0.0 unreachable on c1", true),
        // The first deployment.
        ("- missing", true),
        ("- broken", true),
        ("- unreachable on c1", false),
    ] {
        let world = world(&format!("prod[{target}]\npromotion prod 2.0.0"));
        let begins = next_of(&world, "").status.phase.is_some();
        assert_eq!(begins, expected, "{target}");
    }
}

/// By its tag too.
#[test]
fn a_request_for_the_same_revision_does_not_go_first() {
    let drawing = |asked: &str| {
        world(&format!(
            "prod[1.0.0@sha256:a ok]\nrequest prod Promote {asked} r9\npromotion prod 2.0.0@sha256:b Running"
        ))
    };
    for same in ["2.0.0", "sha256:b", "2.0.0@sha256:b"] {
        let next = next_of(&drawing(same), "missing");
        assert_eq!(next.action, ExternalAction::CarryOut, "{same}");
    }
    let other = next_of(&drawing("3.0.0"), "missing");
    assert_eq!(other.status.reason.as_deref(), Some("RequestUnderWay"));
}

/// One source that rejects what it had runs something else, which replaces the promotion.
#[test]
fn what_a_single_source_rejected_goes_on() {
    check(
        "prod[1.0.0 ok]\nrejected dev 2.0.0\npromotion prod 2.0.0 WaitingForMerge",
        "open",
        "WaitingForMerge/WaitingForMerge: the pull request waits to be merged, again in 60s",
    );
}

/// A later batch of a rollout that turned out to differ from what was approved.
#[test]
fn a_change_that_differs_is_not_pushed_although_another_one_is_merged() {
    let next = |phase: &str| {
        let drawing = format!("prod{{manual}}[1.0.0 ok]\npromotion prod 2.0.0 {phase} merged 5m");
        next_of(&world(&drawing), "missing")
    };
    let waits = next("AwaitingApproval");
    assert_eq!(waits.status.phase, Some(Phase::AwaitingApproval));
    assert_eq!(waits.action, ExternalAction::Nothing);
    assert_eq!(next("Running").action, ExternalAction::CarryOut);
}

/// Its successor takes over a pull request, and not those of its batches.
#[test]
fn the_pull_request_of_a_superseded_rollout_is_closed() {
    let mut world = world("prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge superseded");
    assert_eq!(next_of(&world, "open").action, ExternalAction::Nothing);
    let status = world.promotions[0].status.as_mut().unwrap();
    status.rollout = Some(RolloutStatus::default());
    let next = next_of(&world, "open");
    assert_eq!(next.action, ExternalAction::ClosePullRequest);
    assert_eq!(next.status.phase, Some(Phase::Superseded));
}
