//! When a revision goes on by itself, and why not.

use crate::{
    drawing::{World, draw},
    show::{settle, show},
};

#[track_caller]
pub(crate) fn check(drawing: &str, expected: &str) {
    let mut world = draw(drawing);
    let plan = world.plan();
    let expected: Vec<_> = expected.trim().lines().map(str::trim).collect();
    assert_eq!(show(&world, &plan), expected.join("\n"), "{drawing}");
    settle(&mut world);
}

#[test]
fn a_verified_revision_goes_on() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0",
    );
    check("dev[2.0.0 ok] > prod[2.0.0 ok]", "nothing");
    check("dev[2.0.0 ok] > prod[2.0.0 broken]", "nothing");
    check(
        "dev[2.0.0 ok] > prod[1.0.0 broken]",
        "start prod 2.0.0 instead of 1.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[- broken]",
        "start prod 2.0.0 instead of nothing",
    );
    check(
        "dev[2.0.0 ok] > prod[2.0.0 ok, 1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0",
    );
}

#[test]
fn pairs_not_races() {
    check(
        "dev[3.0.0 ok] > staging[2.0.0 ok] > prod[1.0.0 ok]",
        "start staging 3.0.0 instead of 2.0.0
         start prod 2.0.0 instead of 1.0.0",
    );
    check(
        "dev[3.0.0 broken] > staging[2.0.0 ok] > prod[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0
         staging: SourceNotReady: dev target dev runs 3.0.0 and is not ready; resolved by readiness of all targets of dev",
    );
}

#[test]
fn all_targets_of_the_source_must_agree_and_be_ready() {
    check(
        "dev[2.0.0 ok, 1.0.0 ok] > prod[1.0.0 ok]",
        "prod: SourceTargetsDiffer: dev targets run 1.0.0 and 2.0.0; resolved by one revision on all targets of dev",
    );
    check(
        "dev[2.0.0 ok, 1.0.0 broken failed 2.0.0] > prod[1.0.0 ok]",
        "prod: SourceTargetsDiffer: dev targets run 1.0.0 and 2.0.0 (dev-2: 2.0.0 failed); resolved by one revision on all targets of dev",
    );
    check(
        "dev[2.0.0 ok, 2.0.0 broken] > prod[1.0.0 ok]",
        "prod: SourceNotReady: dev target dev-2 runs 2.0.0 and is not ready; resolved by readiness of all targets of dev",
    );
    check(
        "dev[2.0.0 ok, 2.0.0 unreachable on c1] > prod[1.0.0 ok]",
        "prod: SourceNotReady: dev target c1/dev-2: no answer; resolved by readiness of all targets of dev",
    );
    check(
        "dev[2.0.0 ok, - missing] > prod[1.0.0 ok]",
        "prod: SourceNotDeployed: dev target dev-2: not found; resolved by mending that, then one revision on all targets of dev",
    );
    check(
        "dev[2.0.0 ok, 2.0.0 ok] > prod[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0",
    );
}

#[test]
fn any_target_takes_the_most_recently_ready_one() {
    check(
        "dev[2.0.0 ok 10m, 3.0.0 ok 5m, 4.0.0 broken] > prod{any}[1.0.0 ok]",
        "start prod 3.0.0 instead of 1.0.0",
    );
    check(
        "dev[2.0.0 ok 5m, 3.0.0 ok 5m] > prod{any}[1.0.0 ok]",
        "start prod 3.0.0 instead of 1.0.0",
    );
    check(
        "dev[2.0.0 broken, - unreachable] > prod{any}[1.0.0 ok]",
        "prod: SourceNotReady: no target of dev is ready; resolved by one ready target of dev",
    );
}

#[test]
fn soak_is_counted_from_the_last_target_to_get_ready() {
    check(
        "dev[2.0.0 ok 40m, 2.0.0 ok 10m] > prod{soak 30m}[1.0.0 ok]",
        "prod: Soaking: 2.0.0 has not been ready in dev for long enough; resolved by waiting until 2027-01-15T08:20:00Z",
    );
    check(
        "dev[2.0.0 ok 40m, 2.0.0 ok 30m] > prod{soak 30m}[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0",
    );
    let plan = draw("dev[2.0.0 ok 10m] > prod{soak 30m}[1.0.0 ok]").plan();
    assert_eq!(
        plan.requeue_at,
        plan.environments["prod"].hold.as_ref().unwrap().opens_at
    );
    assert!(plan.requeue_at.is_some());
}

#[test]
fn with_any_a_busy_target_does_not_keep_an_old_enough_revision_waiting() {
    check(
        "dev[2.0.0 ok 40m, 3.0.0 ok 10m] > prod{any, soak 30m}[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0
         prod: Soaking: 3.0.0 has not been ready in dev for long enough; resolved by waiting until 2027-01-15T08:20:00Z",
    );
    let drawing = "dev[2.0.0 ok 40m, 3.0.0 ok 10m] > prod{any, soak 30m}[2.0.0 ok]";
    check(
        drawing,
        "prod: Soaking: 3.0.0 has not been ready in dev for long enough; resolved by waiting until 2027-01-15T08:20:00Z",
    );
    assert!(draw(drawing).plan().requeue_at.is_some());
    check(
        "dev[2.0.0 ok 20m, 3.0.0 ok 10m] > prod{any, soak 30m}[1.0.0 ok]",
        "prod: Soaking: 2.0.0 has not been ready in dev for long enough; resolved by waiting until 2027-01-15T08:10:00Z",
    );
}

#[test]
fn at_most_one_promotion_per_place_before_merge() {
    for phase in ["", "AwaitingApproval", "Running", "WaitingForMerge"] {
        check(
            &format!("dev[3.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 {phase}"),
            "supersede prod 2.0.0\nstart prod 3.0.0 instead of 1.0.0",
        );
        check(
            &format!("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 {phase}"),
            "nothing",
        );
    }
    check(
        "dev[3.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge superseded",
        "start prod 3.0.0 instead of 1.0.0",
    );
}

#[test]
fn after_merge_a_promotion_no_longer_blocks() {
    check(
        "dev[3.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 5m",
        "supersede prod 2.0.0\nstart prod 3.0.0 instead of 1.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 5m",
        "nothing",
    );
}

#[test]
fn while_the_source_is_not_verified_what_is_under_way_goes_on() {
    check(
        "dev[3.0.0 broken] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "prod: SourceNotReady: dev target dev runs 3.0.0 and is not ready; resolved by readiness of all targets of dev",
    );
}

#[test]
fn a_pull_request_for_what_the_source_left_is_taken_back() {
    check(
        "dev[1.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "withdraw prod 2.0.0: NoLongerCandidate",
    );
    check(
        "dev[0.9.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "withdraw prod 2.0.0: NoLongerCandidate
         prod: OlderThanRunning: prod runs 1.0.0, which is newer than 0.9.0; resolved by a newer revision or a request for 0.9.0",
    );
}

#[test]
fn never_backwards_by_itself() {
    check(
        "dev[1.0.0 ok] > prod[2.0.0 ok]",
        "prod: OlderThanRunning: prod runs 2.0.0, which is newer than 1.0.0; resolved by a newer revision or a request for 1.0.0",
    );
    check(
        "dev[1.5.0 ok] > prod[1.0.0 ok, 2.0.0 ok]",
        "prod: OlderThanRunning: prod runs 2.0.0, which is newer than 1.5.0; resolved by a newer revision or a request for 1.5.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 3.0.0 Deploying merged 1m",
        "prod: OlderThanRunning: prod runs 3.0.0, which is newer than 2.0.0; resolved by a newer revision or a request for 2.0.0",
    );
    check(
        "dev[abc ok] > prod[def ok]\nran prod def abc",
        "prod: AlreadyRan: abc ran in prod before and was replaced; resolved by a newer revision or a request for abc",
    );
    check(
        "dev[abc ok] > prod[def ok]\nran prod def",
        "start prod abc instead of def",
    );
}

/// Somebody deployed something newer by hand while the promotion was under way.
#[test]
fn what_would_now_be_a_step_back_is_withdrawn() {
    for phase in ["", "Running", "WaitingForMerge"] {
        check(
            &format!("dev[2.0.0 ok] > prod[3.0.0 ok]\npromotion prod 2.0.0 {phase}"),
            "withdraw prod 2.0.0: OlderThanRunning: prod runs 3.0.0, which is newer than 2.0.0
             prod: OlderThanRunning: prod runs 3.0.0, which is newer than 2.0.0; resolved by a newer revision or a request for 2.0.0",
        );
    }
    check(
        "dev[2.0.0 broken] > prod[3.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "withdraw prod 2.0.0: OlderThanRunning: prod runs 3.0.0, which is newer than 2.0.0
         prod: SourceNotReady: dev target dev runs 2.0.0 and is not ready; resolved by readiness of all targets of dev",
    );
    check(
        "dev[2.0.0 ok] > prod[3.0.0 ok]\nsuspend\npromotion prod 2.0.0 WaitingForMerge",
        "prod: OlderThanRunning: prod runs 3.0.0, which is newer than 2.0.0; resolved by a newer revision or a request for 2.0.0",
    );
    // What is merged is followed.
    check(
        "dev[2.0.0 ok] > prod[3.0.0 ok]\npromotion prod 2.0.0 Deploying merged 1m",
        "nothing",
    );
    // People asked for it.
    check(
        "dev[2.0.0 ok] > prod[3.0.0 ok]\nhandled prod r1\npromotion prod 2.0.0 WaitingForMerge asked r1",
        "prod request r1: -",
    );
    check(
        "dev[2.0.0 ok] > prod[3.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge\nrequest prod Promote 2.0.0 r1",
        "supersede prod 2.0.0
         start prod 2.0.0 #1 instead of 3.0.0
         prod request r1: bringing 2.0.0",
    );
}

/// What nobody asked for is withdrawn where the site is to stay as it is; what a person asked for is not.
#[test]
fn what_leads_elsewhere_is_withdrawn_unless_a_person_asked_for_it() {
    let stays = "dev[1.0.0 ok] > prod[1.0.0 ok]";
    check(
        &format!("{stays}\npromotion prod 2.0.0 WaitingForMerge"),
        "withdraw prod 2.0.0: NoLongerCandidate",
    );
    check(
        &format!("{stays}\nhandled prod r1\npromotion prod 2.0.0 WaitingForMerge asked r1"),
        "prod request r1: -",
    );
    check(
        "dev[1.0.0 ok] > prod{suspended}[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "nothing",
    );
}

/// Cancelling a promotion rejects what it brings, and forgets no other rejection.
#[test]
fn a_cancelled_promotion_keeps_what_was_rejected() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 1.0.0 0.9.0
         promotion prod 2.0.0 WaitingForMerge instead 1.0.0\nrequest prod Cancel - r1",
        "withdraw prod 2.0.0: Cancelled by ada
         prod rejects 2.0.0 1.0.0 0.9.0
         prod request r1: cancelled 2.0.0; it is not promoted into prod again until somebody requests it",
    );
}

/// Somebody closed the pull request for one target; those for the others are left to people.
#[test]
fn what_was_rejected_meanwhile_is_held() {
    check(
        "dev[2.0.0 ok] > prod{per target}[1.0.0 ok on c1, 1.0.0 ok on c2]
         promotion prod 2.0.0 Abandoned at c1 prod-1
         promotion prod 2.0.0 WaitingForMerge at c2 prod-2",
        "prod: Rejected: the pull request of 2.0.0 into prod was closed without a merge; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0",
    );
}

#[test]
fn what_a_person_reverted_in_git_is_not_brought_back() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\nran prod 1.0.0 2.0.0\npromotion prod 2.0.0 Succeeded merged 1h",
        "prod: AlreadyRan: 2.0.0 ran in prod before and was replaced; resolved by a newer revision or a request for 2.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Superseded merged 1h",
        "prod: AlreadyRan: 2.0.0 ran in prod before and was replaced; resolved by a newer revision or a request for 2.0.0",
    );
}

#[test]
fn a_revision_that_reached_only_some_targets_has_not_been_left() {
    check(
        "dev[abc ok] > prod[abc ok, def ok]\nran prod abc def",
        "start prod abc instead of def",
    );
    check(
        "dev[abc ok] > prod[abc ok, def ok]\nran prod abc",
        "start prod abc instead of def",
    );
    check(
        "dev[abc ok] > prod[abc ok, def ok]\nran prod def abc",
        "prod: AlreadyRan: abc ran in prod before and was replaced; resolved by a newer revision or a request for abc",
    );
}

#[test]
fn rejected_revisions_wait_for_a_person() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Abandoned",
        "prod: Rejected: the pull request of 2.0.0 into prod was closed without a merge; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0",
    );
    check(
        "dev[3.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0\npromotion prod 2.0.0 Abandoned",
        "start prod 3.0.0 instead of 1.0.0
         prod rejects 2.0.0",
    );
}

#[test]
fn the_status_says_why_a_revision_was_rejected() {
    for (facts, expected) in [
        (
            "",
            "2.0.0 was rolled back, rejected or cancelled in prod, or its pull request was closed",
        ),
        (
            "promotion prod 1.0.0 Succeeded back asker ada instead 2.0.0",
            "ada rolled prod back from 2.0.0 to 1.0.0",
        ),
        (
            "promotion prod 1.0.0 Succeeded cause x instead 2.0.0",
            "2.0.0 failed a check in prod, which was rolled back to 1.0.0",
        ),
        (
            "promotion prod 1.0.0 Succeeded cause x instead 2.0.0\nfailed-check prod smoke 2.0.0",
            "2.0.0 failed the check smoke in prod, which was rolled back to 1.0.0",
        ),
        (
            "failed-check prod smoke 2.0.0",
            "2.0.0 failed the check smoke in prod",
        ),
        // The environment went on from what the rollback brought.
        (
            "promotion prod 0.9.0 Succeeded cause x instead 2.0.0\nfailed-check prod smoke 2.0.0",
            "2.0.0 failed the check smoke in prod",
        ),
        (
            "promotion prod 0.9.0 Succeeded back asker ada instead 2.0.0",
            "ada rolled prod back from 2.0.0",
        ),
    ] {
        let drawing = format!("dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0\n{facts}");
        let plan = draw(&drawing).plan();
        let hold = plan.environments["prod"].hold.clone().unwrap();
        assert_eq!(
            (hold.reason.word(), hold.sentence.as_str()),
            ("Rejected", expected),
            "{drawing}"
        );
    }
}

/// The second try is older than the first, by a clock that was set back between them.
#[test]
fn tries_are_told_apart_by_number() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Abandoned #1\npromotion prod 2.0.0 Withdrawn",
        "prod: Rejected: the pull request of 2.0.0 into prod was closed without a merge; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Failed because DeployFailed #1\npromotion prod 2.0.0 Withdrawn",
        "prod: PromotionFailed: 2.0.0 failed in prod: it did not become ready; resolved by a newer revision or a request for 2.0.0",
    );
}

#[test]
fn a_failed_revision_is_not_tried_again_by_itself() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 broken failed 2.0.0]\npromotion prod 2.0.0 Failed because DeployFailed merged 1h",
        "prod: PromotionFailed: 2.0.0 failed in prod: it did not become ready; resolved by a newer revision or a request for 2.0.0",
    );
    check(
        "dev[3.0.0 ok] > prod[1.0.0 broken]\npromotion prod 2.0.0 Failed because DeployFailed merged 1h",
        "start prod 3.0.0 instead of 1.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Failed because StrategyChanged",
        "start prod 2.0.0 #1 instead of 1.0.0",
    );
    for phase in ["Withdrawn", "Superseded"] {
        check(
            &format!("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 {phase}"),
            "start prod 2.0.0 #1 instead of 1.0.0",
        );
    }
}

#[test]
fn manual_waits_for_an_approval() {
    check(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0, needs approval
         prod: AwaitingApproval: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
        "prod: AwaitingApproval: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 Running approved",
        "nothing",
    );
}

#[test]
fn a_superseded_approval_does_not_carry_over() {
    check(
        "dev[3.0.0 ok] > prod{manual}[1.0.0 ok]
         promotion prod 2.0.0 Running approved
         request prod Promote 3.0.0 r1",
        "supersede prod 2.0.0
         start prod 3.0.0 instead of 1.0.0, needs approval
         prod: AwaitingApproval: 3.0.0 waits for approval to enter prod; resolved by an approval of 3.0.0
         prod request r1: waits for an approval of 3.0.0",
    );
}

#[test]
fn waiting_approval_names_the_revision() {
    let plan = draw("dev[2.0.0 ok] > prod{manual}[1.0.0 ok]").plan();
    assert_eq!(
        plan.environments["prod"].waiting_approval.as_deref(),
        Some("2.0.0")
    );
    let drawing =
        "dev[3.0.0 broken] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval";
    let plan = draw(drawing).plan();
    assert_eq!(
        plan.environments["prod"].waiting_approval.as_deref(),
        Some("2.0.0")
    );
}

#[test]
fn a_target_that_cannot_be_read_holds_its_own_environment() {
    check(
        "dev[2.0.0 ok] > staging[1.0.0 ok, 1.0.0 unreachable on c1] > prod[1.0.0 ok]",
        "staging: TargetUnreachable: staging target c1/staging-2: no answer; resolved by making the target readable again
         prod: SourceNotReady: staging target c1/staging-2: no answer; resolved by readiness of all targets of staging",
    );
    check(
        "dev[2.0.0 ok] > prod[- missing]",
        "prod: AppMissing: prod target prod: not found; resolved by creating the app",
    );
    check(
        "dev[2.0.0 ok] > staging[1.0.0 ok] > prod[1.0.0 unreachable]",
        "start staging 2.0.0 instead of 1.0.0",
    );
}

#[test]
fn environments_without_targets_are_skipped() {
    check(
        "dev[2.0.0 ok] > staging[] > prod[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0",
    );
    check(
        "dev[] > staging[2.0.0 ok] > prod[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0",
    );
    check("dev[]", "nothing");
}

#[test]
fn a_selector_that_matches_nothing_holds() {
    check(
        "dev[2.0.0 ok] > prod[selector]",
        "prod: NoTargetsMatch: no cluster matches the selector of prod for namespace prod; resolved by a cluster with matching labels",
    );
    check(
        "dev[selector] > prod[1.0.0 ok]",
        "dev: NoTargetsMatch: no cluster matches the selector of dev for namespace dev; resolved by a cluster with matching labels
         prod: SourceNotReady: no cluster matches the selector of dev for namespace dev; resolved by a cluster that matches and is ready in dev",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok on c1 selected, selector]",
        "prod: NoTargetsMatch: no cluster matches the selector of prod for namespace prod-2; resolved by a cluster with matching labels",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok on c1 selected]",
        "start prod 2.0.0 instead of 1.0.0",
    );
}

#[test]
fn an_environment_without_promotion_is_shown_and_feeds_the_next() {
    check(
        "dev[3.0.0 ok] > staging[2.0.0 ok] > prod{manual}[1.0.0 ok]\nwithout promotion",
        "start prod 2.0.0 instead of 1.0.0, needs approval
         prod: AwaitingApproval: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0",
    );
    check(
        "dev[3.0.0 ok] > prod{no strategy}[1.0.0 ok]",
        "prod: NoStrategy: the promotion settings of prod name no strategy: its own `promotion` replaces the pipeline's; resolved by repeating `strategy` there",
    );
    check(
        "dev[3.0.0 ok] > prod{no strategy}[1.0.0 ok]\nwithout promotion",
        "prod: NoStrategy: the promotion settings of prod name no strategy; resolved by a strategy in the pipeline",
    );
    check(
        "dev[3.0.0 ok] > prod{manual}[1.0.0 ok]\nwithout appRef",
        "prod: NoAppRef: without appRef the apps are shown but not promoted; resolved by an appRef in the pipeline",
    );
}

#[test]
fn per_target_each_has_its_own_promotion() {
    check(
        "dev[2.0.0 ok] > prod{per target}[1.0.0 ok on c1, 2.0.0 ok on c2, 1.0.0 unreachable on c3, 1.0.0 ok]",
        "start prod/c1/prod-1 2.0.0 instead of 1.0.0
         start prod/-/prod-4 2.0.0 instead of 1.0.0
         prod: TargetUnreachable: prod target c3/prod-3: no answer; resolved by making the target readable again",
    );
    check(
        "dev[3.0.0 ok] > prod{per target}[1.0.0 ok on c1, 1.0.0 ok on c2]
         promotion prod 2.0.0 WaitingForMerge at c1 prod-1",
        "supersede prod/c1/prod-1 2.0.0
         start prod/c1/prod-1 3.0.0 instead of 1.0.0
         start prod/c2/prod-2 3.0.0 instead of 1.0.0",
    );
    check(
        "dev[abc ok] > prod{per target}[abc ok on c1, def ok on c2]\nran prod abc def",
        "start prod/c2/prod-2 abc instead of def",
    );
}

#[test]
fn promotions_into_places_that_are_gone_are_taken_back() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion test 2.0.0 WaitingForMerge",
        "withdraw test 2.0.0: PlaceGone\nstart prod 2.0.0 instead of 1.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod{per target}[1.0.0 ok on c1]\npromotion prod 2.0.0 WaitingForMerge",
        "withdraw prod 2.0.0: PlaceGone\nstart prod/c1/prod 2.0.0 instead of 1.0.0",
    );
}

#[test]
fn a_change_of_strategy_starts_again() {
    let mut world =
        draw("dev[2.0.0 ok] > prod{labelled a}[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge");
    let promotion = world.pipeline.spec.environments[1]
        .promotion
        .as_mut()
        .unwrap();
    let settings = promotion.strategy.pull_request.as_mut().unwrap();
    settings.labels = vec!["b".to_owned()];
    let plan = world.plan();
    assert_eq!(
        show(&world, &plan),
        "supersede prod 2.0.0\nstart prod 2.0.0 #1 instead of 1.0.0"
    );
    settle(&mut world);
    let mut world =
        draw("dev[2.0.0 ok] > prod{url a}[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge");
    let promotion = world.pipeline.spec.environments[1]
        .promotion
        .as_mut()
        .unwrap();
    promotion.strategy.pull_request.as_mut().unwrap().url = "b".to_owned();
    let plan = world.plan();
    assert_eq!(
        show(&world, &plan),
        "withdraw prod 2.0.0: StrategyChanged\nstart prod 2.0.0 #1 instead of 1.0.0"
    );
}

/// A correction is no reason to forget what a person asked for, whatever dev runs by then.
#[test]
fn a_change_of_strategy_starts_a_request_again() {
    for (dev, request, rest) in [
        (
            "dev[2.0.0 ok]",
            "request prod Promote 1.5.0 r1",
            "prod request r1: bringing 1.5.0",
        ),
        ("dev[2.0.0 ok]", "handled prod r1", "prod request r1: -"),
        ("dev[2.0.0 broken]", "handled prod r1", "prod request r1: -"),
    ] {
        for phase in [
            "Running",
            "Running because NoMarker until 20m",
            "WaitingForMerge",
        ] {
            let mut world = draw(&format!(
                "{dev} > prod{{labelled a}}[1.0.0 ok]\n{request}
                 promotion prod 1.5.0 {phase} asked r1"
            ));
            let settings = world.pipeline.spec.environments[1].promotion.as_mut();
            let strategy = &mut settings.unwrap().strategy;
            strategy.pull_request.as_mut().unwrap().labels = vec!["b".to_owned()];
            let text = show(&world, &world.plan());
            let expected = "supersede prod 1.5.0\nstart prod 1.5.0 #1 instead of 1.0.0\n";
            assert!(
                text.starts_with(expected),
                "{dev} {request} {phase}: {text}"
            );
            assert!(text.ends_with(rest), "{text}");
            settle(&mut world);
        }
    }
}

#[test]
fn a_repository_without_encryption_is_told_at_once() {
    for (url, expected) in [
        ("http://example.com/a", "http"),
        ("HTTP://example.com/a", "HTTP"),
        ("git://example.com/a", "git"),
        ("file:///a", "file"),
    ] {
        let text = "the promotion of prod has a url that starts with";
        let world = draw(&format!("dev[2.0.0 ok] > prod{{url {url}}}[1.0.0 ok]"));
        let plan = world.plan();
        assert!(plan.steps.is_empty(), "{url}");
        let status = planner::apply(&plan, &world.model(), crate::drawing::now());
        let ready = api::conditions::find(&status.conditions, "Ready").unwrap();
        assert_eq!((&*ready.status, &*ready.reason), ("False", "InvalidSpec"));
        let expected = format!("{text} {expected}://; use https:// or ssh://");
        assert_eq!(ready.message, expected);
        let complaints = planner::lint(&world.pipeline.spec);
        assert!(
            complaints
                .iter()
                .any(|it| it.is_error && it.text == expected)
        );
    }
    for url in [
        "https://example.com/a",
        "ssh://git@example.com/a",
        "git@example.com:a/b",
    ] {
        check(
            &format!("dev[2.0.0 ok] > prod{{url {url}}}[1.0.0 ok]"),
            "start prod 2.0.0 instead of 1.0.0",
        );
    }
}

#[test]
fn suspended_starts_nothing() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\nsuspend",
        "prod: Suspended: the pipeline is suspended, 2.0.0 waits; resolved by resuming the pipeline",
    );
    check(
        "dev[3.0.0 ok] > staging{suspended}[2.0.0 ok] > prod[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0
         staging: Suspended: staging is suspended, 3.0.0 waits; resolved by resuming staging",
    );
    check(
        "dev[3.0.0 ok] > prod[1.0.0 ok]\nsuspend\npromotion prod 2.0.0 WaitingForMerge",
        "prod: Suspended: the pipeline is suspended, 3.0.0 waits; resolved by resuming the pipeline",
    );
    check("dev[2.0.0 ok] > prod[2.0.0 ok]\nsuspend", "nothing");
}

#[test]
fn a_source_moves_the_first_environment() {
    check("dev[1.0.0 ok]", "nothing");
    check(
        "dev[1.0.0 ok]\nsource HelmChart 2.0.0",
        "start dev 2.0.0 instead of 1.0.0",
    );
    check(
        "dev[1.0.0 ok]\nsource Hook 2.0.0",
        "start dev 2.0.0 instead of 1.0.0",
    );
    check("dev[1.0.0 ok]\nsource Hook", "nothing");
    check(
        "dev[2.0.0 ok]\nsource HelmChart 1.0.0",
        "dev: OlderThanRunning: dev runs 2.0.0, which is newer than 1.0.0; resolved by a newer revision or a request for 1.0.0",
    );
    check(
        "dev[2.0.0 ok]\nsource HelmChart unreadable",
        "dev: SourceUnreadable: the HelmChart shop proposes nothing: no answer; resolved by its next revision",
    );
    check(
        "dev[1.0.0 ok] > prod[0.9.0 ok]\nsource GitRepository 2.0.0",
        "start prod 1.0.0 instead of 0.9.0
         dev: InvalidSource: a GitRepository proposes nothing for a HelmRelease; one of [HelmChart, OCIRepository, Hook] does; resolved by an edit of the pipeline's source",
    );
}

#[test]
fn what_follows_the_same_source_moves_by_itself() {
    let drawing =
        "dev[main@sha1:b ok from git/main] > prod[main@sha1:a ok from git/main]\nkustomization";
    check(
        drawing,
        "prod: SharedSource: this environment and its source environment both follow git/main; resolved by `track` with the image's name, or a source of its own",
    );
    check(
        &format!("{drawing}\ntrack acme/shop"),
        "start prod main@sha1:b instead of main@sha1:a",
    );
    check(
        "dev[main@sha1:b ok from git/main] > prod[main@sha1:a ok from git/prod]\nkustomization",
        "start prod main@sha1:b instead of main@sha1:a",
    );
}

/// A tag that both environments follow need not move; that it did is seen by what they run.
#[test]
fn what_follows_the_same_tag_is_held_only_if_the_tag_moves() {
    let follow = |dev: &str, prod: &str| {
        let target =
            |name: &str, digest: &str| format!("{name}[stable@sha256:{digest} ok from tag-stable]");
        let mut world = draw(&format!(
            "{} > {}\nkustomization",
            target("dev", dev),
            target("prod", prod)
        ));
        let status = world.pipeline.status.as_mut().unwrap();
        let targets = status.environments.values_mut();
        for target in targets.flat_map(|environment| &mut environment.targets) {
            target.follows = Some("oci://registry.example/fleet (tag stable)".to_owned());
        }
        show(&world, &world.plan())
    };
    assert_eq!(follow("b", "b"), "nothing");
    assert_eq!(
        follow("b", "a"),
        "prod: SharedSource: this environment and its source environment both follow \
         oci://registry.example/fleet (tag stable); resolved by `track` with the image's name, or a source of its \
         own"
    );
}

#[test]
fn reports_without_a_target_satisfy_any_and_never_all() {
    check(
        "dev[- broken told, - broken told] > prod[1.0.0 ok]\nreported dev 2.0.0",
        "start prod 2.0.0 instead of 1.0.0",
    );
    check(
        "dev[- broken told, - broken told] > prod{all}[1.0.0 ok]\nreported dev 2.0.0",
        "prod: TargetsNotDistinguishable: reports say that dev runs 2.0.0, but not on which of its targets; resolved by the metadata field `cluster` on the alerts, or `when: AnyTargetReady`",
    );
    check(
        "dev[2.0.0 ok told, 1.0.0 ok told 2h] > prod[1.0.0 ok]",
        "start prod 2.0.0 instead of 1.0.0",
    );
}

#[track_caller]
fn check_conditions(drawing: &str, expected: &str) {
    let mut world = draw(drawing);
    settle(&mut world);
    let conditions: Vec<_> = world
        .model()
        .conditions
        .iter()
        .map(|one| {
            format!(
                "{}={} {}: {}",
                one.type_, one.status, one.reason, one.message
            )
        })
        .collect();
    let expected: Vec<_> = expected.trim().lines().map(str::trim).collect();
    assert_eq!(conditions, expected, "{drawing}");
}

#[test]
fn conditions_have_the_texts_of_the_weave_pipeline_controller() {
    let ready = "Ready=True ReconciliationSucceeded: All clusters checked";
    check_conditions("dev[2.0.0 ok] > prod[2.0.0 ok]", ready);
    check_conditions(
        "dev[2.0.0 ok, 1.0.0 ok] > prod[1.0.0 ok]",
        &format!(
            "{ready}\nPromotionPending=True EnvironmentNotReady: Waiting for all targets to have the same revision"
        ),
    );
    check_conditions(
        "dev[2.0.0 ok, 2.0.0 broken] > prod[1.0.0 ok]",
        &format!(
            "{ready}\nPromotionPending=True EnvironmentNotReady: Waiting for all targets to be ready"
        ),
    );
    check_conditions(
        "dev[2.0.0 ok] > prod[- missing]",
        "Ready=False TargetNotReadable: One or more targets was not reachable or not present
         PromotionPending=True AppMissing: prod target prod: not found; resolved by creating the app",
    );
}

#[test]
fn what_can_never_work_is_said() {
    let invalid = |text: &str| format!("Ready=False InvalidSpec: {text}");
    check_conditions("", &invalid("the pipeline has no environments"));
    check_conditions(
        "dev[1.0.0 ok] > dev[1.0.0 ok]",
        &format!(
            "{}\nPromotionPending=True InvalidSpec: {}",
            invalid("two environments are called dev"),
            "two environments are called dev; resolved by an edit of the pipeline"
        ),
    );
    let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 1.5.0 WaitingForMerge");
    let settings = world.pipeline.spec.promotion.as_mut().unwrap();
    settings.strategy.notification = Some(Default::default());
    let plan = world.plan();
    assert_eq!(plan.steps, [], "an edit by mistake closes no pull request");
    let hold = plan.environments["prod"].hold.as_ref().unwrap();
    assert_eq!(
        hold.sentence,
        "the promotion of the pipeline has several strategies: pull-request, notification"
    );
    let settings = world.pipeline.spec.promotion.as_mut().unwrap();
    settings.strategy.notification = None;
    settings.webhook = Some(Default::default());
    let hold = world.plan().environments["prod"].hold.clone().unwrap();
    assert_eq!(
        (hold.reason.word(), hold.sentence.as_str()),
        (
            "InvalidSpec",
            "the promotion of the pipeline has strategies in both spellings: \
             move pullRequest or webhook into strategy"
        )
    );
    world.pipeline.spec.promotion = None;
    world.pipeline.spec.app_ref.as_mut().unwrap().api_version = "v1".to_owned();
    let status = planner::apply(&world.plan(), &world.model(), crate::drawing::now());
    assert_eq!(
        status.conditions[0].message,
        "appRef names the core kind HelmRelease, which is never an app"
    );
}

#[test]
fn history_is_kept_by_environment() {
    let lines: Vec<_> = (1..6)
        .map(|n| format!("promotion prod {n}.0.0 Succeeded"))
        .collect();
    let world = draw(&format!(
        "dev[5.0.0 ok] > prod[5.0.0 ok]\n{}\npromotion prod 0.1.0 Running\npromotion dev 1.0.0 Failed",
        lines.join("\n")
    ));
    let steps = planner::surplus(&world.pipeline, &world.promotions, 3, crate::drawing::now());
    let mut plan = world.plan();
    plan.steps = steps;
    let shown = show(&world, &plan);
    assert!(
        shown.starts_with("remove prod 1.0.0\nremove prod 2.0.0"),
        "{shown}"
    );
    assert_eq!(plan.steps.len(), 2);
}

/// Otherwise the same signed call could approve the next attempt.
#[test]
fn what_a_signature_has_approved_is_kept_while_the_signature_is_accepted() {
    let mut world = draw(
        "dev[3.0.0 ok] > prod[3.0.0 ok]
        promotion prod 1.0.0 Succeeded approved
        promotion prod 2.0.0 Succeeded approved
        promotion prod 3.0.0 Succeeded approved",
    );
    let removed = |world: &World, now| {
        let steps = planner::surplus(&world.pipeline, &world.promotions, 1, now);
        steps.len()
    };
    let now = crate::drawing::now();
    assert_eq!(removed(&world, now), 2);
    let approval = &mut world.promotions[1].spec.approvals[0];
    approval.at = Some(api::Time(now));
    approval.signature = Some("a5".to_owned());
    assert_eq!(removed(&world, now), 1);
    let minutes = |count: i64| jiff::SignedDuration::from_mins(count);
    assert_eq!(removed(&world, now + minutes(9)), 1);
    assert_eq!(removed(&world, now + minutes(10)), 2);
}

/// Otherwise what failed there would be tried for ever, once more for each that is removed.
#[test]
fn the_last_promotion_of_each_place_is_kept() {
    let targets = |place: &str, revision: &str| {
        let names = (1..6).map(|n| format!("{place} c{n} prod-{n}").replace("REVISION", revision));
        names.collect::<Vec<_>>().join("\n")
    };
    let old = targets("promotion prod 1.5.0 Failed at", "");
    let new = targets("promotion prod 2.0.0 Failed at", "");
    let running: Vec<_> = (1..6).map(|n| format!("1.0.0 ok on c{n}")).collect();
    let world = draw(&format!(
        "dev[2.0.0 ok] > prod{{per target}}[{}]\n{old}\n{new}",
        running.join(", ")
    ));
    let steps = planner::surplus(&world.pipeline, &world.promotions, 2, crate::drawing::now());
    assert_eq!(steps.len(), 5, "{steps:?}");
    let mut plan = world.plan();
    assert!(plan.steps.is_empty(), "{}", show(&world, &plan));
    plan.steps = steps;
    assert!(
        !show(&world, &plan).contains("2.0.0\nremove"),
        "{}",
        show(&world, &plan)
    );
}

#[test]
fn a_pipeline_that_is_being_deleted_starts_nothing() {
    let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]");
    world.pipeline.metadata.deletion_timestamp = Some(crate::drawing::ago("1m"));
    assert_eq!(world.plan().steps, []);
}

#[test]
fn a_thousand_places_are_planned_together() {
    let targets: Vec<_> = (0..1000).map(|n| format!("1.0.0 ok on c{n}")).collect();
    let mut world = draw(&format!(
        "dev[2.0.0 ok] > prod{{per target}}[{}]",
        targets.join(", ")
    ));
    settle(&mut world);
    assert_eq!(world.promotions.len(), 1000);
}
