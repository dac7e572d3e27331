//! Which approvals count, and what rejecting, cancelling and retrying do.

use crate::{
    attempt::{check as check_attempt, next_of},
    drawing::{draw, now},
    plan::check as check_plan,
};

/// What a promotion with this policy and these approvals waits for; nothing if it goes on.
#[track_caller]
fn check(policy: &str, promotion: &str, expected: &str) {
    let settings = match policy {
        "manual" => policy.to_owned(),
        policy => format!("policy {policy}"),
    };
    let world = draw(&format!(
        "dev[2.0.0 ok] > prod{{{settings}}}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval {promotion}"
    ));
    let next = next_of(&world, "missing");
    let message = next.status.message.unwrap();
    let waits = message.split("; resolved by").next().unwrap();
    let waits = match next.status.phase {
        Some(api::promotion::Phase::AwaitingApproval) => waits,
        _ => "",
    };
    assert_eq!(waits, expected, "{policy} {promotion}");
}

#[test]
fn enough_different_people_must_approve() {
    check("manual", "", "2.0.0 waits for approval to enter prod");
    check("manual", "by ann", "");
    check("1", "by ann", "");
    check("2", "", "2.0.0 needs 2 approvals to enter prod");
    check(
        "2",
        "by ann",
        "2.0.0 needs 1 more approval to enter prod; approved by ann",
    );
    check("2", "by ann by bob", "");
    check("2", "by ann by bob by cid", "");
}

#[test]
fn only_those_whom_the_policy_names_count() {
    let from = "1 group:sre user:ann";
    check(
        from,
        "",
        "2.0.0 needs 1 approval from group sre or user ann to enter prod",
    );
    check(from, "by ann", "");
    check(from, "by bob/sre", "");
    for other in ["bob", "bob/ops", "sre", "ann2/ann"] {
        let by = other.split('/').next().unwrap();
        let expected = format!(
            "2.0.0 needs 1 approval from group sre or user ann to enter prod; \
             {by} is not among those whose approval counts"
        );
        check(from, &format!("by {other}"), &expected);
    }
    check(
        "2 group:sre",
        "by ann/sre by bob",
        "2.0.0 needs 1 more approval from group sre to enter prod; approved by ann; \
         bob is not among those whose approval counts",
    );
}

#[test]
fn who_asks_cannot_approve_where_the_policy_says_so() {
    check("1", "by ann asked r1 asker ann", "");
    check(
        "1 not-requester",
        "by ann asked r1 asker ann",
        "2.0.0 waits for approval to enter prod; ann requested it and cannot approve it",
    );
    check("1 not-requester", "by bob asked r1 asker ann", "");
    check("1 not-requester", "by ann", "");
    check(
        "1 not-requester",
        "by bob asked r1",
        "2.0.0 waits for approval to enter prod; bob may have requested it: the request names nobody",
    );
    check_plan(
        "dev[2.0.0 ok] > prod{policy 1 not-requester}[1.0.0 ok]\nanonymous prod Promote 2.0.0 r1",
        "start prod 2.0.0 instead of 1.0.0, needs approval
         prod: AwaitingApproval: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0
         prod request r1: refused: somebody else than who asks must approve, and it does not say who asks; add \"by\"",
    );
}

/// Who asks for a promotion that is under way already has requested it, too.
#[test]
fn who_joins_a_promotion_under_way_has_requested_it() {
    let drawing = "dev[2.0.0 ok] > prod{policy 1 not-requester}[1.0.0 ok]
                   promotion prod 2.0.0 AwaitingApproval by ada";
    let mut world = draw(drawing);
    let name = world.promotions[0].metadata.name.clone();
    let model = world.pipeline.status.as_mut().unwrap();
    model.environments.get_mut("prod").unwrap().last_request =
        Some(api::pipeline::HandledRequest {
            id: "r1".to_owned(),
            by: Some("ada".to_owned()),
            promotion: name,
            ..Default::default()
        });
    let state =
        planner::approval_state(&world.promotions[0], Some(&world.pipeline), now()).unwrap();
    assert_eq!(state.missing(), 1);
    assert_eq!(
        state.not_counted,
        [("ada".to_owned(), planner::NotCounted::Requester)]
    );
}

/// A request for an environment whose targets have promotions of their own is for all of these.
#[test]
fn who_joins_the_promotions_of_several_targets_has_requested_them_all() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{policy 1 not-requester, per target}[1.0.0 ok, 1.0.0 ok]
         promotion prod 2.0.0 AwaitingApproval by ada at - prod-1
         promotion prod 2.0.0 AwaitingApproval by ada at - prod-2
         request prod Promote 2.0.0 r1",
    );
    let (plan, model) = (world.plan(), world.model());
    world.pipeline.status = Some(planner::apply(&plan, &model, now()));
    for promotion in &world.promotions {
        let state = planner::approval_state(promotion, Some(&world.pipeline), now()).unwrap();
        let own = ("ada".to_owned(), planner::NotCounted::Requester);
        assert_eq!(state.not_counted, [own], "{promotion:?}");
    }
}

#[test]
fn an_approval_expires_after_the_controller_saw_it() {
    check("1 expires:1h", "by ann~59m", "");
    check(
        "1 expires:1h",
        "by ann~60m",
        "2.0.0 waits for approval to enter prod; the approval of ann has expired",
    );
    check(
        "1 expires:1h",
        "by ann",
        "2.0.0 waits for approval to enter prod; the approval of ann is being recorded",
    );
    let world = draw(
        "dev[2.0.0 ok] > prod{policy 2 expires:1h}[1.0.0 ok]
         promotion prod 2.0.0 AwaitingApproval by ann~20m by bob",
    );
    let state =
        planner::approval_state(&world.promotions[0], Some(&world.pipeline), now()).unwrap();
    assert_eq!((state.missing(), state.missing_once_recorded()), (1, 0));
    let next = next_of(&world, "missing");
    let observed: Vec<_> = next
        .status
        .approvals
        .iter()
        .map(|it| it.observed_at.clone().unwrap().0)
        .collect();
    let minutes = |count: i64| jiff::SignedDuration::from_mins(count);
    assert_eq!(observed, [now() - minutes(20), now()]);
    assert_eq!(
        next.requeue_at,
        Some(now() + minutes(40)),
        "the first one expires"
    );
}

/// An approval that expires while the pull request is open is needed again before Sluice merges it.
#[test]
fn an_approval_that_expires_before_the_merge_can_be_given_again() {
    let draw = |approvals: &str| {
        draw(&format!(
            "dev[2.0.0 ok] > prod{{policy 1 expires:1h, merged by the forge}}[1.0.0 ok]
             promotion prod 2.0.0 WaitingForMerge {approvals}"
        ))
    };
    let merges = next_of(&draw("by ann~59m"), "open");
    assert_eq!(merges.action, planner::ExternalAction::AskForMerge);
    let mut world = draw("by ann~60m");
    let next = next_of(&world, "open");
    assert_eq!(next.action, planner::ExternalAction::Nothing);
    assert_eq!(next.status.reason.as_deref(), Some("AwaitingApproval"));
    let message = "it is not merged now: 2.0.0 waits for approval to enter prod; the approval of ann has \
                   expired; resolved by an approval of 2.0.0";
    assert_eq!(next.status.message.as_deref(), Some(message));
    world.promotions[0].status = Some(next.status);
    assert_eq!(
        planner::approvable(&world.promotions, "shop", "prod").len(),
        1
    );
    world.promotions[0].spec.approvals[0].at = Some(api::Time(now()));
    world.promotions[0].status = Some(next_of(&world, "open").status);
    let merges = next_of(&world, "open");
    assert_eq!(merges.action, planner::ExternalAction::AskForMerge);
}

/// A person who replaces their approval has approved again.
#[test]
fn a_replaced_approval_is_observed_again() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{policy 1 expires:1h}[1.0.0 ok]
         promotion prod 2.0.0 AwaitingApproval by ann~90m",
    );
    world.promotions[0].spec.approvals[0].at = Some(api::Time(now()));
    let next = next_of(&world, "missing");
    assert_eq!(next.status.approvals.len(), 1);
    assert_eq!(next.status.approvals[0].observed_at, Some(api::Time(now())));
    world.promotions[0].status = Some(next.status);
    let next = next_of(&world, "missing");
    assert_eq!(next.action, planner::ExternalAction::CarryOut);
}

#[test]
fn an_approval_counts_for_one_change() {
    check("1", "changes d1 by ann@d1", "");
    let other = "2.0.0 waits for approval to enter prod; ann approved another change than this one";
    check("1", "changes d2 by ann@d1", other);
    check("1", "changes d1 by ann", other);
    check("1", "by ann@d1", other);
    let early =
        "2.0.0 waits for approval to enter prod; ann approved it before its change was known";
    check("1", "unread by ann", early);
    check("1", "unread by ann@d1", early);
    check(
        "manual",
        "changes d2 by secret:keys@d1",
        "2.0.0 waits for approval to enter prod; secret:keys approved another change than this one",
    );
}

#[test]
fn the_key_of_a_webhook_approves_only_where_anybody_may() {
    check("manual", "by secret:keys", "");
    check(
        "1",
        "by secret:keys",
        "2.0.0 waits for approval to enter prod; secret:keys is a key and not a person",
    );
}

/// An approval that an earlier version stored names no change and still counts.
#[test]
fn the_approval_of_an_earlier_version_counts() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval changes d1",
    );
    let stored = serde_json::json!({"by": "ann", "at": "2026-02-08T12:00:00Z", "note": "tested"});
    world.promotions[0].spec.approval = Some(serde_json::from_value(stored).unwrap());
    let next = next_of(&world, "missing");
    assert_eq!(next.action, planner::ExternalAction::CarryOut);
}

/// A Pipeline that was deleted and created again does not inherit approvals. Whoever removes the owner of a
/// promotion, so that it survives the deletion, gains nothing.
#[test]
fn an_approval_counts_for_the_pipeline_it_was_given_for() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval by ann",
    );
    world.pipeline.metadata.uid = Some("new".to_owned());
    for (uid, is_approved) in [("old", false), ("new", true)] {
        let owner = serde_json::json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline", "name": "shop", "uid": uid,
        });
        let owner = serde_json::from_value(owner).unwrap();
        world.promotions[0].metadata.owner_references = Some(vec![owner]);
        let next = next_of(&world, "missing");
        let expected = match is_approved {
            true => planner::ExternalAction::CarryOut,
            false => planner::ExternalAction::Nothing,
        };
        assert_eq!(next.action, expected);
    }
    world.promotions[0].metadata.owner_references = None;
    let next = next_of(&world, "missing");
    assert_eq!(next.action, planner::ExternalAction::Nothing);
}

/// The settings of the pipeline may have become stricter; then the promotion starts anew with them.
#[test]
fn a_policy_that_became_stricter_counts_at_once() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval by ann",
    );
    let settings = world.pipeline.spec.environments[1].promotion.as_mut();
    settings.unwrap().approval_policy = Some(crate::drawing::policy("2"));
    let next = next_of(&world, "missing");
    assert_eq!(next.action, planner::ExternalAction::Nothing);
    let steps = format!("{:?}", world.plan().steps);
    assert!(steps.contains("Supersede"), "{steps}");
}

#[test]
fn a_rejection_ends_what_is_not_merged() {
    let rejected = "Abandoned/Rejected: ann rejected it: it loses orders";
    check_attempt(
        "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval rejected-by ann",
        "",
        rejected,
    );
    check_attempt(
        "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval by bob rejected-by ann",
        "missing",
        rejected,
    );
    check_attempt(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge rejected-by ann",
        "open",
        &format!("ClosePullRequest, {rejected}"),
    );
    check_attempt(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge rejected-by ann",
        "merged",
        "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3600s",
    );
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Abandoned rejected-by ann",
        "prod: Rejected: ann rejected 2.0.0 in prod: it loses orders; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0",
    );
    // Its successor was created before its end was written.
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Superseded superseded rejected-by ann",
        "prod: Rejected: ann rejected 2.0.0 in prod: it loses orders; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0",
    );
}

#[test]
fn a_request_that_waits_can_be_cancelled() {
    check_plan(
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nsuspend\nrequest prod Cancel - r2\nwritten prod Promote 1.0.0 r1",
        "prod request r2: cancelled the request for 1.0.0",
    );
    check_plan(
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nrequest prod Cancel - r2",
        "prod request r2: refused: no request waits, and no promotion is in progress that is not merged yet",
    );
}

#[test]
fn a_promotion_that_is_not_merged_can_be_cancelled() {
    for phase in ["AwaitingApproval", "Running", "WaitingForMerge"] {
        check_plan(
            &format!(
                "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 {phase}\nrequest prod Cancel - r1"
            ),
            "withdraw prod 2.0.0: Cancelled by ada
             prod rejects 2.0.0
             prod request r1: cancelled 2.0.0; it is not promoted into prod again until somebody requests it",
        );
    }
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running\nrequest prod Cancel 3.0.0 r1",
        "prod request r1: refused: no request waits, and no promotion is in progress that is not merged yet",
    );
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 1m\nrequest prod Cancel - r1",
        "prod request r1: refused: no request waits, and no promotion is in progress that is not merged yet",
    );
    // The process ended before the status was written.
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running cancelled\nrequest prod Cancel - r1",
        "prod: Rejected: 2.0.0 was cancelled in prod by ada; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0
         prod request r1: cancelled 2.0.0; it is not promoted into prod again until somebody requests it",
    );
}

/// Ada has cancelled 2.0.0 before: the same words, but another request.
#[test]
fn what_was_cancelled_before_is_not_cancelled_again() {
    check_plan(
        "dev[3.0.0 ok] > prod[1.0.0 ok]
         promotion prod 2.0.0 Withdrawn cancelled
         promotion prod 3.0.0 AwaitingApproval
         request prod Cancel - r1",
        "withdraw prod 3.0.0: Cancelled by ada
         prod rejects 3.0.0 2.0.0
         prod request r1: cancelled 3.0.0; it is not promoted into prod again until somebody requests it",
    );
    check_plan(
        "dev[1.0.0 ok] > prod[1.0.0 ok]
         promotion prod 2.0.0 Withdrawn cancelled ended 5m
         request prod Cancel - r1",
        "prod rejects 2.0.0
         prod request r1: refused: no request waits, and no promotion is in progress that is not merged yet",
    );
}

/// What ran before stays a revision to roll back to.
#[test]
fn a_cancelled_promotion_of_an_older_revision_rejects_nothing() {
    let drawing = "dev[2.0.0 ok] > prod[2.0.0 ok]
         ran prod 2.0.0 1.0.0
         promotion prod 1.0.0 AwaitingApproval asked r0 instead 2.0.0
         request prod Cancel - r1";
    check_plan(
        drawing,
        "withdraw prod 1.0.0: Cancelled by ada
         prod request r1: cancelled 1.0.0",
    );
    let cancelled = drawing.replace("AwaitingApproval", "Withdrawn cancelled ended 5m");
    let (lines, _) = cancelled.rsplit_once('\n').unwrap();
    check_plan(lines, "nothing");
    let world = draw(lines);
    let model = planner::apply(&world.plan(), &world.model(), now());
    assert_eq!(planner::previous_revision(&model, "prod"), Some("1.0.0"));
    // A newer revision that was left before is not one to go back to.
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]
         ran prod 1.0.0 2.0.0
         promotion prod 2.0.0 AwaitingApproval asked r0 instead 1.0.0
         request prod Cancel - r1",
        "withdraw prod 2.0.0: Cancelled by ada
         prod rejects 2.0.0
         prod request r1: cancelled 2.0.0; it is not promoted into prod again until somebody requests it",
    );
}

#[test]
fn what_failed_can_be_retried() {
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Failed because DeployFailed\nrequest prod Retry - r1",
        "start prod 2.0.0 #1 instead of 1.0.0
         prod request r1: bringing 2.0.0",
    );
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Succeeded\nrequest prod Retry - r1",
        "prod: AlreadyRan: 2.0.0 ran in prod before and was replaced; resolved by a newer revision or a request for 2.0.0
         prod request r1: refused: no promotion into prod has failed",
    );
    // A rollback replaced what had failed: bringing it again is a new decision.
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]
         promotion prod 2.0.0 Failed because DeployFailed merged 9m
         promotion prod 1.0.0 Succeeded back instead 2.0.0
         request prod Retry - r1",
        "prod: PromotionFailed: 2.0.0 failed in prod: it did not become ready; resolved by a newer revision or a request for 2.0.0
         prod request r1: refused: 2.0.0 failed in prod and was replaced since; to bring it again, request it (`sluice promote shop prod 2.0.0`)",
    );
    // The process ended before the status was written.
    check_plan(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Failed\npromotion prod 2.0.0 Running #1 asked r1\nrequest prod Retry - r1",
        "prod request r1: bringing 2.0.0",
    );
}

/// How many approvals a rollback after a failed check lacks where people approve.
#[test]
fn a_rollback_by_a_failed_check_needs_no_approval_of_what_was_approved_there() {
    let missing = |checked: &str, promotion: &str, needs_approval: bool| {
        let mut world = draw(&format!(
            "dev[2.0.0 ok] > prod{{manual}}[2.0.0 ok]\nchecked prod {checked}\npromotion prod 1.0.0 Running {promotion}"
        ));
        world.promotions[0].spec.needs_approval = needs_approval;
        let state = planner::approval_state(&world.promotions[0], Some(&world.pipeline), now());
        state.map(|state| state.missing())
    };
    assert_eq!(missing("2.0.0 1.0.0+", "cause x", false), None);
    assert_eq!(missing("2.0.0 1.0.0", "cause x", false), Some(1));
    assert_eq!(missing("2.0.0+ 1.0.0", "cause x", false), Some(1));
    assert_eq!(missing("2.0.0 1.0.0+", "cause x", true), Some(1));
    assert_eq!(missing("2.0.0 1.0.0+", "back", false), Some(1));
}

#[test]
fn who_approves_twice_counts_once() {
    let world = draw(
        "dev[2.0.0 ok] > prod{policy 2}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval by ann by ann",
    );
    let state = planner::approval_state(&world.promotions[0], Some(&world.pipeline), now());
    let state = state.unwrap();
    assert_eq!(
        (state.approved_by, state.needed),
        (vec!["ann".to_owned()], 2)
    );
}
