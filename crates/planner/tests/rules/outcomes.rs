//! What is stored about a promotion after something was done outside, and what people read of it.

use api::{
    Time,
    promotion::{Phase, PromotionStatus},
};
use planner::{Failure, Outcome, Remedy, conclude, promotion_problem};

use crate::{
    attempt::next_of,
    drawing::{ago, draw, now},
};

const OPEN: &str = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";

fn after(outcome: Outcome) -> PromotionStatus {
    let mut world = draw(OPEN);
    let status = world.promotions[0].status.as_mut().unwrap();
    status.merge_scheduled = true;
    let mut next = next_of(&world, "open");
    next.status.next_attempt = Some(ago("1m"));
    conclude(&world.promotions[0], next, outcome, now(), 1)
}

#[test]
fn why_the_forge_does_not_merge_is_told_apart() {
    for (reason, expected) in [
        ("Forbidden", "MergeNotAllowed"),
        ("Frozen", "Frozen"),
        ("InvalidFreeze", "InvalidFreeze"),
        ("FreezesUnknown", "FreezesUnknown"),
        ("Conflict", "NotMergeable"),
    ] {
        let because = Failure {
            reason: reason.to_owned(),
            message: "it says why".to_owned(),
            remedy: Remedy::Retry,
        };
        let status = after(Outcome::AskedForMerge {
            because: Some(because),
        });
        assert_eq!(status.reason.as_deref(), Some(expected));
        assert_eq!(status.message.as_deref(), Some("it says why"));
    }
}

#[test]
fn a_scheduled_merge_that_was_cancelled_leaves_nothing_to_retry() {
    let status = after(Outcome::ScheduledMergeCancelled);
    assert_eq!((status.merge_scheduled, status.next_attempt), (false, None));
}

/// Whoever waits with `kubectl wait` or kstatus sees that it has ended.
#[test]
fn the_condition_ready_follows_the_phase() {
    for (phase, expected) in [
        ("Succeeded", "True"),
        ("Failed", "False"),
        ("Abandoned", "False"),
        ("Running", "Unknown"),
        ("WaitingForMerge", "Unknown"),
    ] {
        let world = draw(&OPEN.replace("WaitingForMerge", phase));
        let conditions = next_of(&world, "missing").status.conditions;
        let ready = conditions.iter().find(|it| it.type_ == "Ready").unwrap();
        assert_eq!(ready.status, expected, "{phase}");
    }
}

#[test]
fn what_resolves_a_problem_is_told_once() {
    for (phase, reason, expected) in [
        (Phase::Running, "StrategyChanged", ""),
        // A hold says itself what resolves it.
        (Phase::Running, "CheckFailed", ""),
        (
            Phase::Failed,
            "CheckFailed",
            "; resolved by a newer revision, or by a retry of the checks",
        ),
        (
            Phase::Running,
            "InvalidTag",
            "; resolved by correcting the strategy in the Pipeline",
        ),
        (
            Phase::Running,
            "RepositoryNotFound",
            "; resolved by a url that the token may see",
        ),
        (Phase::Running, "SomethingElse", "; retried automatically"),
        (Phase::Failed, "SomethingElse", ""),
    ] {
        let status = PromotionStatus {
            phase: Some(phase),
            reason: Some(reason.to_owned()),
            message: Some("it says why".to_owned()),
            finished_at: Some(Time(now())),
            ..PromotionStatus::default()
        };
        let problem = promotion_problem(&status).unwrap();
        assert_eq!(
            problem.message,
            format!("it says why{expected}"),
            "{reason}"
        );
    }
}
