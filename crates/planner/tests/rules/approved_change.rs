//! What a promotion changes: when it is read, what is approved, and what happens when it differs.

use api::promotion::{FieldEdit, PromotionChange, RolloutStatus};
use planner::{
    AttemptInput, ExternalAction, Failure, ObservedPullRequest, Outcome, Remedy, conclude,
    must_read_change,
};

use crate::{
    attempt::next_of,
    drawing::{World, draw, now},
};

const WAITING: &str =
    "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval";
const APPROVED: &str =
    "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval by ann@sha256:1";

fn must_read(world: &World, edited: bool) -> bool {
    let input = AttemptInput {
        pipeline: Some(&world.pipeline),
        promotions: &world.promotions,
        pull_request: ObservedPullRequest::NotQueried,
        edited,
    };
    must_read_change(world.promotions.last().unwrap(), &input, now())
}

fn with_digest(drawing: &str, digest: &str) -> World {
    let mut world = draw(drawing);
    let promotion = world.promotions.last_mut().unwrap();
    promotion.status.get_or_insert_default().change = Some(PromotionChange {
        digest: digest.to_owned(),
        edits: vec![FieldEdit::default()],
        ..PromotionChange::default()
    });
    world
}

#[test]
fn it_is_read_where_people_approve_until_it_is_pushed() {
    for (drawing, expected) in [
        ("prod{manual}[1.0.0 ok]\npromotion prod 2.0.0", true),
        (
            "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
            true,
        ),
        (
            "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 Running approved",
            true,
        ),
        ("prod[1.0.0 ok]\npromotion prod 2.0.0 Running", false),
        (
            "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge approved",
            false,
        ),
        (
            "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 Deploying approved",
            false,
        ),
        (
            "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval withdrawn",
            false,
        ),
        (
            "prod{manual}[2.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
            false,
        ),
    ] {
        let world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
        assert_eq!(must_read(&world, false), expected, "{drawing}");
    }
}

/// Of a rollout it is read once, and again where a later batch turned out to differ.
#[test]
fn of_a_rollout_it_is_read_while_it_waits_for_approval() {
    for (phase, expected) in [("AwaitingApproval", true), ("Running", false)] {
        let mut world = draw(&WAITING.replace("AwaitingApproval", phase));
        let status = world.promotions[0].status.as_mut().unwrap();
        status.rollout = Some(RolloutStatus::default());
        assert_eq!(must_read(&world, false), expected, "{phase}");
    }
}

#[test]
fn nothing_but_what_was_approved_is_pushed() {
    let next = next_of(&with_digest(APPROVED, "sha256:1"), "missing");
    assert_eq!(next.action, ExternalAction::CarryOut);
    assert_eq!(next.approved_change.as_deref(), Some("sha256:1"));
    let automatic = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running";
    let next = next_of(&with_digest(automatic, "sha256:1"), "missing");
    assert_eq!(next.action, ExternalAction::CarryOut);
    assert_eq!(next.approved_change, None, "nobody has to approve it");
}

#[test]
fn a_change_that_differs_waits_for_approval_again() {
    let world = with_digest(APPROVED, "sha256:1");
    let mut next = next_of(&world, "missing");
    next.status.change.as_mut().unwrap().digest = "sha256:2".to_owned();
    let promotion = world.promotions.last().unwrap();
    let status = conclude(promotion, next, Outcome::ChangeDiffers, now(), 1);
    assert_eq!(format!("{:?}", status.phase.unwrap()), "AwaitingApproval");
    assert_eq!(status.reason.as_deref(), Some("ChangeDiffers"));
    assert!(status.message.unwrap().contains("resolved by an approval"));
    assert_eq!(status.change.unwrap().digest, "sha256:2");
    assert!(status.next_attempt.is_none() && status.merged_at.is_none());
}

#[test]
fn a_change_that_cannot_be_read_is_retried_and_says_why() {
    let mut world = draw(&format!("{WAITING} unread"));
    let next = next_of(&world, "");
    let failure = Failure {
        reason: "NoMarker".to_owned(),
        message: "no file has the marker".to_owned(),
        remedy: Remedy::WaitForEdit,
    };
    let promotion = world.promotions.last().unwrap();
    let status = conclude(promotion, next, Outcome::Failed(failure), now(), 1);
    assert_eq!(format!("{:?}", status.phase.unwrap()), "AwaitingApproval");
    let message = status.message.clone().unwrap();
    assert!(
        message.starts_with("it cannot be approved yet"),
        "{message}"
    );
    assert!(message.ends_with("no file has the marker"), "{message}");
    let unread = &mut world.promotions[0];
    unread.status = Some(status.clone());
    assert_eq!(
        planner::unknown_change(unread).as_deref(),
        Some(
            "2.0.0 cannot be approved for prod, because what it changes is not known: no file has the \
             marker; approve it again when that is resolved"
        )
    );
    assert_eq!(planner::unknown_change(&draw(WAITING).promotions[0]), None);
    // It stays that way until it is due or somebody edited what is at fault.
    world.promotions.last_mut().unwrap().status = Some(status.clone());
    let again = next_of(&world, "");
    assert_eq!(again.status, status);
    assert_eq!(again.requeue_at, status.next_attempt.map(|at| at.0));
    assert!(!must_read(&world, false) && must_read(&world, true));
}
