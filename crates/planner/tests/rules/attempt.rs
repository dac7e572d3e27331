//! The life of one promotion, step by step.

use std::time::Duration;

use api::{Time, promotion::PromotionStatus};
use planner::{
    AttemptInput, AttemptPlan, ExternalAction, Failure, ObservedPullRequest, Outcome,
    PullRequestLookup, Remedy, Timestamp, attempt, conclude, observed_after_failed_lookup,
    pull_request_lookup, status_after_failed_lookup,
};

use crate::drawing::{World, draw, now};

const URL: &str = "https://example.com/1";

fn pull_request(text: &str) -> ObservedPullRequest {
    let scheduled = text.strip_suffix(" scheduled");
    let open = |is_current, changed_by_others| ObservedPullRequest::Open {
        url: URL.to_owned(),
        is_current,
        changed_by_others,
        is_merge_scheduled: scheduled.is_some(),
    };
    let text = scheduled.unwrap_or(text);
    match text {
        "" => ObservedPullRequest::NotQueried,
        "missing" => ObservedPullRequest::Missing,
        "unanswered" => ObservedPullRequest::Unanswered,
        "open" => open(true, false),
        "open stale" => open(false, false),
        "open foreign" => open(true, true),
        "open foreign stale" => open(false, true),
        "merged" => ObservedPullRequest::Merged {
            url: URL.to_owned(),
            commit: Some("c0ffee".to_owned()),
        },
        "closed" => ObservedPullRequest::Closed {
            url: URL.to_owned(),
        },
        _ => panic!("{text:?} is not in the notation"),
    }
}

/// What comes next for the last promotion of the drawing.
pub(crate) fn next_of(world: &World, seen: &str) -> AttemptPlan {
    let around = AttemptInput {
        pipeline: Some(&world.pipeline),
        promotions: &world.promotions,
        pull_request: pull_request(seen),
        edited: false,
    };
    attempt(world.promotions.last().unwrap(), &around, now())
}

fn show(act: ExternalAction, status: &PromotionStatus, requeue_at: Option<Timestamp>) -> String {
    let act = match act {
        ExternalAction::Nothing => String::new(),
        act => format!("{act:?}, "),
    };
    let mut text = format!(
        "{act}{:?}/{}: {}",
        status.phase.unwrap(),
        status.reason.as_deref().unwrap_or("-"),
        status.message.as_deref().unwrap_or("-")
    );
    if let Some(requeue_at) = requeue_at {
        text += &format!(", again in {}s", requeue_at.as_second() - now().as_second());
    }
    text
}

#[track_caller]
pub(crate) fn check(drawing: &str, seen: &str, expected: &str) {
    let mut world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
    let next = next_of(&world, seen);
    assert_eq!(
        show(next.action, &next.status, next.requeue_at),
        expected,
        "{drawing}"
    );
    if next.action == ExternalAction::Nothing {
        world.promotions.last_mut().unwrap().status = Some(next.status.clone());
        let again = next_of(&world, seen);
        assert_eq!(again, next, "looking again changes nothing");
    }
}

#[test]
fn a_merge_is_asked_for_while_nothing_is_against_it() {
    let drawing = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";
    let ask = |drawing: &str, seen: &str, draft: bool| {
        let mut world = draw(drawing);
        let settings = world.pipeline.spec.promotion.as_mut().unwrap();
        let to = settings.strategy.pull_request.as_mut().unwrap();
        (to.auto_merge, to.draft) = (true, draft);
        let strategy = settings.strategy.clone();
        world.promotions.last_mut().unwrap().spec.strategy = strategy;
        let next = next_of(&world, seen);
        let promotion = world.promotions.last().unwrap().clone();
        (promotion, next)
    };
    let suspended = drawing.replace("ok]\n", "ok]\nsuspend\n");
    // The environment became manual after the pull request was opened.
    let mut manual = draw(drawing);
    let settings = manual.pipeline.spec.promotion.as_mut().unwrap();
    let to = settings.strategy.pull_request.as_mut().unwrap();
    to.auto_merge = true;
    settings.manual = true;
    manual.promotions[0].spec.strategy = settings.strategy.clone();
    assert_eq!(next_of(&manual, "open").action, ExternalAction::Nothing);
    let steps = format!("{:?}", manual.plan().steps);
    assert!(steps.contains("Supersede"), "it is proposed anew: {steps}");
    for (drawing, seen, draft, expected) in [
        (drawing, "open", false, ExternalAction::AskForMerge),
        (drawing, "open", true, ExternalAction::Nothing),
        (drawing, "open foreign", false, ExternalAction::Nothing),
        (drawing, "unanswered", false, ExternalAction::Nothing),
        (&suspended, "open", false, ExternalAction::Nothing),
    ] {
        assert_eq!(
            ask(drawing, seen, draft).1.action,
            expected,
            "{drawing}: {seen}"
        );
    }
    let answered = |because: Option<(&str, &str)>| {
        let (promotion, next) = ask(drawing, "open", false);
        let because = because.map(|(reason, message)| Failure {
            reason: reason.to_owned(),
            message: message.to_owned(),
            remedy: Remedy::Retry,
        });
        let outcome = Outcome::AskedForMerge { because };
        let status = conclude(&promotion, next, outcome, now(), 1);
        (
            show(ExternalAction::Nothing, &status, None),
            status.attempts,
        )
    };
    let (text, _) = answered(Some(("Forbidden", "the user may not merge")));
    assert_eq!(
        text,
        "WaitingForMerge/MergeNotAllowed: the user may not merge"
    );
    let (text, attempts) = answered(Some(("NotMergeable", "two reviews are missing")));
    assert_eq!(
        text,
        "WaitingForMerge/NotMergeable: two reviews are missing"
    );
    assert_eq!(attempts, 0, "asking is no attempt");
    let (text, _) = answered(None);
    let expected = "WaitingForMerge/WaitingForMerge: the pull request waits to be merged";
    assert_eq!(text, expected);
    let (promotion, next) = ask(drawing, "open", false);
    let status = conclude(&promotion, next, Outcome::Merged, now(), 1);
    let text = show(ExternalAction::Nothing, &status, None);
    assert_eq!(text, "Deploying/Deploying: the pull request was merged");
    assert!(status.merged_at.is_some());
}

/// What comes next for a promotion whose pull request the forge is to merge.
fn automatic(drawing: &str, seen: &str) -> String {
    let mut world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
    let settings = world.pipeline.spec.promotion.as_mut().unwrap();
    let to = settings.strategy.pull_request.as_mut().unwrap();
    to.auto_merge = true;
    let strategy = settings.strategy.clone();
    world.promotions.last_mut().unwrap().spec.strategy = strategy;
    let next = next_of(&world, seen);
    show(next.action, &next.status, None)
}

/// A merge queue is used only after it was stored that it may be, and left when a gate closes.
#[test]
fn a_merge_queue_is_left_when_a_gate_closes() {
    let drawing = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";
    let mut world = draw(drawing);
    let settings = world.pipeline.spec.promotion.as_mut().unwrap();
    settings.strategy.pull_request.as_mut().unwrap().auto_merge = true;
    world.promotions[0].spec.strategy = settings.strategy.clone();
    let act = |world: &mut World, seen: &str, outcome: Outcome| {
        let next = next_of(world, seen);
        let (promotion, action) = (world.promotions[0].clone(), next.action);
        let status = conclude(&promotion, next, outcome, now(), 1);
        world.promotions[0].status = Some(status.clone());
        (action, status)
    };
    let unmerged = |reason: Option<&str>| Outcome::AskedForMerge {
        because: reason.map(|reason| Failure {
            reason: reason.to_owned(),
            message: "its base branch has a merge queue".to_owned(),
            remedy: Remedy::Retry,
        }),
    };
    let (action, status) = act(&mut world, "open", unmerged(Some("MergeQueueRequired")));
    assert_eq!(action, ExternalAction::AskForMerge);
    assert!(status.merge_scheduled, "stored before the forge is asked");
    let (action, status) = act(&mut world, "open", unmerged(None));
    assert_eq!(action, ExternalAction::ScheduleMerge);
    assert!(status.merge_scheduled);

    world.pipeline.spec.suspend = true;
    let failed = Outcome::Failed(Failure {
        reason: "ForgeUnreachable".to_owned(),
        message: "the forge cannot be reached".to_owned(),
        remedy: Remedy::Retry,
    });
    let (action, status) = act(&mut world, "open", failed);
    assert_eq!(action, ExternalAction::CancelScheduledMerge);
    assert!(status.merge_scheduled && status.next_attempt.is_some());
    let early = next_of(&world, "open");
    assert_eq!(
        early.action,
        ExternalAction::Nothing,
        "not before it is due"
    );
    assert_eq!(early.requeue_at, status.next_attempt.map(|due| due.0));
    world.promotions[0].status.as_mut().unwrap().next_attempt = None;
    let (action, status) = act(&mut world, "open", Outcome::ScheduledMergeCancelled);
    assert_eq!(action, ExternalAction::CancelScheduledMerge);
    assert!(!status.merge_scheduled);
    assert_eq!(next_of(&world, "open").action, ExternalAction::Nothing);

    world.pipeline.spec.suspend = false;
    assert_eq!(next_of(&world, "open").action, ExternalAction::AskForMerge);
}

/// The forge must not merge what a gate holds back, nor what others or a successor push.
#[test]
fn what_the_forge_would_merge_by_itself_is_cancelled_while_a_gate_is_closed() {
    let older = "prod[3.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";
    let fits = "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";
    let action = |drawing: &str, seen: &str| {
        let shown = automatic(drawing, seen);
        shown.split(", ").next().unwrap().to_owned()
    };
    assert_eq!(action(fits, "open scheduled"), "AskForMerge");
    assert_eq!(action(older, "open scheduled"), "CancelScheduledMerge");
    assert_eq!(
        action(fits, "open foreign scheduled"),
        "CancelScheduledMerge"
    );
    // Where people merge, a scheduled merge is theirs.
    let mut world = draw(&format!("dev[2.0.0 ok] > {older}"));
    let next = next_of(&world, "open scheduled");
    assert_eq!(next.action, ExternalAction::Nothing);
    let withdrawn = |world: &mut World, is_ours: bool| {
        let promotion = &mut world.promotions[0];
        promotion.status.as_mut().unwrap().merge_scheduled = is_ours;
        let reason = "Superseded by prod-3.0.0".to_owned();
        promotion.spec.withdrawn = Some(api::promotion::Withdrawal { reason });
        next_of(world, "open").action
    };
    assert_eq!(withdrawn(&mut world, false), ExternalAction::Nothing);
    let action = withdrawn(&mut world, true);
    assert_eq!(action, ExternalAction::CancelScheduledMerge);
}

/// Somebody deployed something newer while the pull request was open.
#[test]
fn what_would_now_be_a_step_back_is_neither_merged_nor_pushed() {
    let why = "prod runs 3.0.0, which is newer than 2.0.0; resolved by a newer revision or a request for 2.0.0";
    let not_merged = format!("WaitingForMerge/OlderThanRunning: it is not merged now: {why}");
    let open = "prod[3.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";
    assert_eq!(automatic(open, "open"), not_merged);
    check(open, "open", &format!("{not_merged}, again in 60s"));
    check(
        "prod[3.0.0 ok]\npromotion prod 2.0.0 Running",
        "missing",
        &format!("Running/OlderThanRunning: {why}"),
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 3.0.0 Deploying merged 1m\npromotion prod 2.0.0 Running",
        "missing",
        &format!("Running/OlderThanRunning: {why}"),
    );
    assert_eq!(
        automatic(
            "prod[1.0.0 ok]\nrejected prod 2.0.0\npromotion prod 2.0.0 WaitingForMerge",
            "open"
        ),
        "WaitingForMerge/Rejected: it is not merged now: 2.0.0 was rolled back, rejected or cancelled in prod, or its pull request was closed; resolved by a newer revision or a request for 2.0.0"
    );
    // What people merged is followed.
    check(
        open,
        "merged",
        "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3600s",
    );
    // That it was there before and left is asked only before it starts.
    let merges =
        "AskForMerge, WaitingForMerge/WaitingForMerge: the pull request waits to be merged";
    assert_eq!(
        automatic(
            "prod[1.0.0 ok]\nran prod 1.0.0 2.0.0\npromotion prod 2.0.0 WaitingForMerge",
            "open"
        ),
        merges
    );
}

/// A hub that was restored without statuses has old promotions that look new.
#[test]
fn nothing_is_carried_out_before_it_is_known_what_the_site_runs() {
    let drawing = "dev[2.0.0 ok] > prod[3.0.0 ok]\npromotion prod 2.0.0 Succeeded";
    let mut world = draw(drawing);
    world.promotions[0].status = None;
    let observed = world.pipeline.status.take();
    let next = next_of(&world, "missing");
    assert_eq!(next.action, ExternalAction::Nothing);
    assert_eq!(next.status.phase, None, "{next:?}");
    world.pipeline.status = observed.clone();
    let next = next_of(&world, "missing");
    let shown = show(next.action, &next.status, next.requeue_at);
    assert!(shown.starts_with("Running/OlderThanRunning"), "{shown}");
    let status = world.pipeline.status.as_mut().unwrap();
    let target = &mut status.environments.get_mut("prod").unwrap().targets[0];
    target.revision = None;
    target.problem = Some(api::pipeline::TargetProblem::Unreachable);
    let next = next_of(&world, "missing");
    assert_eq!(next.action, ExternalAction::Nothing);
    assert_eq!(next.status.phase, None, "{next:?}");
    world.promotions[0].status = Some(PromotionStatus {
        phase: Some(api::promotion::Phase::Running),
        ..PromotionStatus::default()
    });
    let next = next_of(&world, "missing");
    assert_eq!(next.action, ExternalAction::CarryOut, "it has begun");
}

#[test]
fn what_a_person_asked_for_may_be_a_step_back() {
    let merges =
        "AskForMerge, WaitingForMerge/WaitingForMerge: the pull request waits to be merged";
    assert_eq!(
        automatic(
            "prod[3.0.0 ok]\nrejected prod 2.0.0\npromotion prod 2.0.0 WaitingForMerge asked r1",
            "open"
        ),
        merges
    );
    // The request found it under way.
    let drawing = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running\nrequest prod Promote 2.0.0 r1";
    let mut world = draw(drawing);
    crate::show::settle(&mut world);
    let status = world.pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    prod.targets[0].revision = Some("3.0.0".to_owned());
    assert_eq!(world.plan().steps, []);
    assert_eq!(next_of(&world, "missing").action, ExternalAction::CarryOut);
}

#[test]
fn validity_and_requests_are_asked_again_before_a_merge() {
    let open = "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";
    // A request for something else that cannot be taken up yet still goes first.
    let waiting = format!("{open}\nrequest prod Rollback 0.9.0 r1");
    assert_eq!(
        automatic(&waiting, "open"),
        "WaitingForMerge/RequestUnderWay: it is not merged now: a person requested 0.9.0, which goes first; resolved by the end of that promotion"
    );
    assert_eq!(
        automatic(&format!("{open}\nsuspend"), "open"),
        "WaitingForMerge/Suspended: it is not merged now: the pipeline is suspended, 2.0.0 waits; resolved by resuming the pipeline"
    );
    let mut world = draw("dev[1.0.0 ok]\nsource HelmChart 2.0.0\npromotion dev 2.0.0 Running");
    world.pipeline.spec.source.as_mut().unwrap().name = None;
    let next = next_of(&world, "missing");
    assert_eq!(
        show(next.action, &next.status, next.requeue_at),
        "Running/InvalidSource: the source names no HelmChart; resolved by an edit of the pipeline's source"
    );
}

#[test]
fn waits_for_the_approval_it_needs() {
    let awaiting = "AwaitingApproval/AwaitingApproval: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0";
    check("prod{manual}[1.0.0 ok]\npromotion prod 2.0.0", "", awaiting);
    check(
        "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval approved",
        "",
        "CarryOut, Running/Running: the strategy is being carried out",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0",
        "",
        "CarryOut, Running/Running: the strategy is being carried out",
    );
    // One that claims to need none does not get past a pipeline that asks for it.
    let mut world = draw("dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 Running");
    world.promotions[0].spec.needs_approval = false;
    let next = next_of(&world, "");
    assert_eq!(show(next.action, &next.status, next.requeue_at), awaiting);
}

#[test]
fn a_pull_request_is_followed_to_its_end() {
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "open",
        "WaitingForMerge/WaitingForMerge: the pull request waits to be merged, again in 60s",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "merged",
        "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3600s",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "closed",
        "Abandoned/Closed: its pull request was closed without being merged",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge because WaitingForMerge",
        "",
        "WaitingForMerge/WaitingForMerge: -, again in 60s",
    );
    for gone in ["missing", "open stale"] {
        check(
            "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
            gone,
            "CarryOut, Running/Running: the strategy is being carried out",
        );
    }
}

#[test]
fn somebody_elses_push_is_not_overwritten() {
    for seen in ["open foreign", "open foreign stale"] {
        check(
            "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
            seen,
            "WaitingForMerge/BranchChangedByOthers: somebody else pushed to the branch; it is followed and not pushed to any more, again in 60s",
        );
        // Also where that is found out while pushing.
        check(
            "prod[1.0.0 ok]\npromotion prod 2.0.0 Running because BranchChangedByOthers until 30m",
            seen,
            "WaitingForMerge/BranchChangedByOthers: somebody else pushed to the branch; it is followed and not pushed to any more, again in 60s",
        );
    }
}

#[test]
fn a_forge_that_does_not_answer_is_asked_again_before_anything_ends() {
    check(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "unanswered",
        "ClosePullRequest, Succeeded/Deployed: prod runs 2.0.0",
    );
    check(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge because ForgeDown until 20s",
        "unanswered",
        "WaitingForMerge/ForgeDown: -, again in 20s",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge because WaitingForMerge",
        "unanswered",
        "WaitingForMerge/WaitingForMerge: -, again in 60s",
    );
}

#[test]
fn what_keeps_a_pull_request_from_being_seen_is_said_once() {
    let drawing = "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge because WaitingForMerge";
    let world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
    let Outcome::Failed(mut failure) = failure(Remedy::WaitForEdit) else {
        panic!("it is a failure");
    };
    let status = next_of(&world, "").status;
    let said = status_after_failed_lookup(status, &failure, now());
    assert_eq!(said.reason.as_ref(), Some(&failure.reason));
    assert_eq!(said.message.as_ref(), Some(&failure.message));
    failure.message = "a second later".to_owned();
    assert_eq!(
        status_after_failed_lookup(said.clone(), &failure, now()),
        said
    );
    let running = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 1m");
    let status = next_of(&running, "").status;
    assert_eq!(
        status_after_failed_lookup(status.clone(), &failure, now()),
        status
    );
}

#[test]
fn the_pull_request_is_looked_at_where_it_matters() {
    for (drawing, expected) in [
        // Nothing was pushed yet, or nothing more will be.
        (
            "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0",
            PullRequestLookup::Skip,
        ),
        (
            "prod{manual}[2.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval withdrawn",
            PullRequestLookup::Skip,
        ),
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 5m",
            PullRequestLookup::Skip,
        ),
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 Succeeded",
            PullRequestLookup::Skip,
        ),
        // A crash may have left anything.
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0",
            PullRequestLookup::Fresh,
        ),
        (
            "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval approved",
            PullRequestLookup::Fresh,
        ),
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 Running",
            PullRequestLookup::Fresh,
        ),
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 Running until 90s",
            PullRequestLookup::Skip,
        ),
        (
            "prod[1.0.0 ok]\nsuspend\npromotion prod 2.0.0 Running",
            PullRequestLookup::Skip,
        ),
        // It is open.
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 Running because BranchChangedByOthers until 90s",
            PullRequestLookup::Cached,
        ),
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
            PullRequestLookup::Cached,
        ),
        (
            "prod[1.0.0 ok]\nsuspend\npromotion prod 2.0.0 WaitingForMerge",
            PullRequestLookup::Cached,
        ),
        // It is about to be closed.
        (
            "prod[2.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
            PullRequestLookup::Fresh,
        ),
        (
            "prod[2.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge until 90s",
            PullRequestLookup::Postponed,
        ),
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge withdrawn",
            PullRequestLookup::Fresh,
        ),
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge withdrawn until 90s",
            PullRequestLookup::Postponed,
        ),
        // Nothing is known to be open: what the next attempt waits for does not matter.
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 Running withdrawn until 30m",
            PullRequestLookup::Fresh,
        ),
        (
            "prod[2.0.0 ok]\npromotion prod 2.0.0 Running because SecretMissing until 30m",
            PullRequestLookup::Fresh,
        ),
    ] {
        let world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
        let around = AttemptInput {
            pipeline: Some(&world.pipeline),
            promotions: &world.promotions,
            pull_request: ObservedPullRequest::NotQueried,
            edited: false,
        };
        let promotion = world.promotions.last().unwrap();
        assert_eq!(
            pull_request_lookup(promotion, &around, now()),
            expected,
            "{drawing}"
        );
    }
}

#[test]
fn what_a_crash_left_unwritten_is_found_again() {
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 Running",
        "open",
        "WaitingForMerge/WaitingForMerge: the pull request waits to be merged, again in 60s",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 Running",
        "merged",
        "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3600s",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 Running",
        "closed",
        "Abandoned/Closed: its pull request was closed without being merged",
    );
}

#[test]
fn deploying_ends_when_the_place_runs_it_fails_or_takes_too_long() {
    check(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 Deploying merged 5m",
        "merged",
        "Succeeded/Deployed: prod runs 2.0.0",
    );
    check(
        "prod[2.0.0 ok, 2.0.0 broken]\npromotion prod 2.0.0 Deploying merged 5m",
        "",
        "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3300s",
    );
    check(
        "prod[1.0.0 broken failed 2.0.0]\npromotion prod 2.0.0 Deploying merged 5m",
        "",
        "Failed/DeployFailed: 2.0.0 failed on prod",
    );
    check(
        "prod[1.0.0 broken failed 1.5.0]\npromotion prod 2.0.0 Deploying merged 5m",
        "",
        "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3300s",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 60m",
        "",
        "Failed/DeployFailed: prod did not run 2.0.0 in time",
    );
    check(
        "prod{timeout 10m}[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 10m",
        "",
        "Failed/DeployFailed: prod did not run 2.0.0 in time",
    );
}

#[test]
fn a_late_success_counts() {
    check(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 Failed because DeployFailed merged 2h",
        "",
        "Succeeded/Deployed: prod runs 2.0.0",
    );
    check(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 Failed because StrategyChanged",
        "",
        "Failed/StrategyChanged: -",
    );
    check(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 Abandoned",
        "",
        "Abandoned/-: -",
    );
}

#[test]
fn a_place_that_got_there_by_other_means_needs_no_pull_request() {
    check(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "open",
        "ClosePullRequest, Succeeded/Deployed: prod runs 2.0.0",
    );
    check(
        "prod{manual}[2.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
        "",
        "Succeeded/Deployed: prod runs 2.0.0",
    );
}

#[test]
fn a_place_that_is_about_to_move_has_not_arrived() {
    let before = "prod[1.0.0 ok]\npromotion prod 2.0.0 Superseded merged 1m";
    check(
        &format!("{before}\npromotion prod 1.0.0 asked r1"),
        "",
        "CarryOut, Running/Running: the strategy is being carried out",
    );
    check(
        &format!("{before}\npromotion prod 1.0.0 Deploying merged 10s asked r1"),
        "",
        "Succeeded/Deployed: prod runs 1.0.0",
    );
}

#[test]
fn one_target_is_a_place_of_its_own() {
    check(
        "prod{per target}[2.0.0 ok on c1, 1.0.0 ok on c2]\npromotion prod 2.0.0 Deploying merged 5m at c1 prod-1",
        "",
        "Succeeded/Deployed: prod runs 2.0.0",
    );
    check(
        "prod{per target}[1.0.0 ok on c1, 2.0.0 ok on c2]\npromotion prod 2.0.0 Deploying merged 5m at c1 prod-1",
        "",
        "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3300s",
    );
}

#[test]
fn superseded_leaves_the_pull_request_to_its_successor() {
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge superseded",
        "open",
        "Superseded/Superseded: Superseded by x",
    );
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 5m superseded",
        "merged",
        "Superseded/Superseded: Superseded by x",
    );
    // A person closed it before the successor was known, which rejects the revision.
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge superseded",
        "closed",
        "Abandoned/Closed: its pull request was closed without being merged",
    );
    let world =
        draw("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge superseded");
    let merged = next_of(&world, "merged").status;
    assert!(
        merged.merged_at.is_some(),
        "a merge in the meantime is not forgotten"
    );
}

/// A pull request that was opened is not forgotten because a Secret is gone, unless nobody will need
/// that Secret any more.
#[test]
fn what_cannot_be_looked_at_is_closed_later_or_named() {
    let drawing = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge withdrawn";
    let mut world = draw(drawing);
    let lost = Failure {
        reason: "NoSecret".to_owned(),
        message: "the Secret git is gone".to_owned(),
        remedy: Remedy::WaitForEdit,
    };
    let unseen =
        |world: &World| observed_after_failed_lookup(&world.promotions[0], &world.pipeline, &lost);
    assert_eq!(
        unseen(&world),
        ObservedPullRequest::NotQueried,
        "nothing was opened"
    );
    world.promotions[0].status.as_mut().unwrap().url = Some(URL.to_owned());
    assert_eq!(unseen(&world), ObservedPullRequest::Unanswered);
    assert_eq!(
        next_of(&world, "unanswered").action,
        ExternalAction::ClosePullRequest
    );
    let settings = world.pipeline.spec.promotion.as_mut().unwrap();
    settings.strategy.pull_request.as_mut().unwrap().url = "https://example.com/other".to_owned();
    assert_eq!(unseen(&world), ObservedPullRequest::NotQueried);
    // A forge that was mistyped never answers, and nothing was opened there.
    let down = Failure {
        remedy: Remedy::Retry,
        ..lost.clone()
    };
    let later = |world: &World| {
        planner::observed_after_failed_lookup(&world.promotions[0], &world.pipeline, &down)
    };
    assert_eq!(later(&world), ObservedPullRequest::Unanswered);
    let mut unopened = draw(drawing);
    assert_eq!(later(&unopened), ObservedPullRequest::Unanswered);
    unopened.pipeline = world.pipeline.clone();
    assert_eq!(later(&unopened), ObservedPullRequest::NotQueried);
    let next = next_of(&world, "");
    let text = show(next.action, &next.status, next.requeue_at);
    assert!(
        text.ends_with("may still be open, close it: https://example.com/1"),
        "{text}"
    );
}

/// Its Secret is missing, so that the next attempt is half an hour away.
#[test]
fn a_promotion_that_cannot_be_tried_ends_when_its_place_arrives() {
    let drawing = "prod[2.0.0 ok]\npromotion prod 2.0.0 Running because SecretMissing until 30m";
    let world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
    let missing = Failure {
        reason: "SecretMissing".to_owned(),
        message: "the Secret git is missing".to_owned(),
        remedy: Remedy::WaitForEdit,
    };
    let around = |pull_request| AttemptInput {
        pipeline: Some(&world.pipeline),
        promotions: &world.promotions,
        pull_request,
        edited: false,
    };
    let promotion = &world.promotions[0];
    let looked = pull_request_lookup(promotion, &around(ObservedPullRequest::NotQueried), now());
    assert_eq!(looked, PullRequestLookup::Fresh);
    let seen = observed_after_failed_lookup(promotion, &world.pipeline, &missing);
    let next = attempt(promotion, &around(seen), now());
    assert_eq!(
        show(next.action, &next.status, next.requeue_at),
        "Succeeded/Deployed: prod runs 2.0.0"
    );
}

#[test]
fn a_merged_pull_request_is_not_called_open() {
    let drawing = "dev[2.0.0 ok] > prod[2.0.0 ok]\npromotion prod 2.0.0 Deploying merged 5m";
    for late in ["Deploying", "Failed because DeployFailed"] {
        let mut world = draw(&drawing.replace("Deploying", late));
        world.promotions[0].status.as_mut().unwrap().url = Some(URL.to_owned());
        let next = next_of(&world, "");
        let text = show(next.action, &next.status, next.requeue_at);
        assert_eq!(text, "Succeeded/Deployed: prod runs 2.0.0");
    }
}

#[test]
fn withdrawn_closes_the_pull_request() {
    check(
        "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge withdrawn",
        "open",
        "ClosePullRequest, Withdrawn/Withdrawn: withdrawn: it is no longer the next revision of prod",
    );
    check(
        "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval withdrawn",
        "",
        "Withdrawn/Withdrawn: withdrawn: it is no longer the next revision of prod",
    );
    check(
        "prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval cancelled",
        "",
        "Withdrawn/Withdrawn: cancelled by ada",
    );
    check(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 Deploying merged 5m withdrawn",
        "merged",
        "Succeeded/Deployed: prod runs 2.0.0",
    );
}

#[test]
fn a_successor_waits_for_its_predecessors() {
    for phase in [
        "",
        "Running",
        "WaitingForMerge",
        "WaitingForMerge superseded",
    ] {
        let world = format!("prod[1.0.0 ok]\npromotion prod 1.5.0 {phase}\npromotion prod 2.0.0");
        let mut drawn = draw(&format!("dev[2.0.0 ok] > {world}"));
        drawn.promotions[0].metadata.name = Some("earlier".to_owned());
        let next = next_of(&drawn, "");
        assert_eq!(
            show(next.action, &next.status, next.requeue_at),
            "Running/WaitingForPredecessor: the earlier promotion earlier has not ended; resolved by its end"
        );
    }
    for phase in [
        "Deploying merged 1m",
        "Superseded",
        "Failed",
        "Succeeded merged 1m",
    ] {
        check(
            &format!("prod[1.0.0 ok]\npromotion prod 1.5.0 {phase}\npromotion prod 2.0.0"),
            "",
            "CarryOut, Running/Running: the strategy is being carried out",
        );
    }
    check(
        "prod{per target}[1.0.0 ok on c1, 1.0.0 ok on c2]
         promotion prod 1.5.0 WaitingForMerge at c2 prod-2
         promotion prod 2.0.0 at c1 prod-1",
        "",
        "CarryOut, Running/Running: the strategy is being carried out",
    );
}

#[test]
fn suspended_it_is_followed_and_not_carried_out() {
    check(
        "prod{suspended}[1.0.0 ok]\npromotion prod 2.0.0 Running",
        "",
        "Running/Suspended: prod is suspended, 2.0.0 waits; resolved by resuming prod",
    );
    check(
        "prod[1.0.0 ok]\nsuspend\npromotion prod 2.0.0 Running",
        "missing",
        "Running/Suspended: the pipeline is suspended, 2.0.0 waits; resolved by resuming the pipeline",
    );
    check(
        "prod[1.0.0 ok]\nsuspend\npromotion prod 2.0.0 WaitingForMerge",
        "merged",
        "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3600s",
    );
}

#[test]
fn what_the_pipeline_does_not_ask_for_is_refused() {
    let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running");
    let strategy = &mut world.promotions[0].spec.strategy;
    strategy.pull_request.as_mut().unwrap().secret_ref.name = "other".to_owned();
    let next = next_of(&world, "");
    assert_eq!(
        show(next.action, &next.status, next.requeue_at),
        "Running/StrategyChanged: the pipeline's strategy was edited; it is started again with that"
    );
    assert_eq!(next.action, ExternalAction::Nothing);
    check(
        "prod[1.0.0 ok]\npromotion test 2.0.0 Running",
        "",
        "Failed/StrategyChanged: the pipeline promotes nothing into test",
    );
}

#[test]
fn without_its_pipeline_nothing_is_done() {
    let world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running");
    let mut leaving = world.pipeline.clone();
    leaving.metadata.deletion_timestamp = Some(crate::drawing::ago("1m"));
    for pipeline in [None, Some(&leaving)] {
        let around = AttemptInput {
            pipeline,
            promotions: &world.promotions,
            pull_request: ObservedPullRequest::NotQueried,
            edited: false,
        };
        let next = attempt(&world.promotions[0], &around, now());
        assert_eq!(next.action, ExternalAction::Nothing);
        assert_eq!(next.status, world.promotions[0].status.clone().unwrap());
    }
}

fn failure(remedy: Remedy) -> Outcome {
    Outcome::Failed(Failure {
        reason: "ForgeDown".to_owned(),
        message: "the forge answered 503".to_owned(),
        remedy,
    })
}

/// The status after the act that the drawing leads to.
fn concluded(drawing: &str, seen: &str, outcome: Outcome) -> PromotionStatus {
    let world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
    let next = next_of(&world, seen);
    assert_ne!(next.action, ExternalAction::Nothing);
    conclude(world.promotions.last().unwrap(), next, outcome, now(), 7)
}

#[test]
fn every_strategy_says_what_it_did() {
    let text = |outcome| {
        let status = concluded("prod[1.0.0 ok]\npromotion prod 2.0.0", "", outcome);
        assert_eq!(status.merged_at, Some(Time(now())));
        (show(ExternalAction::Nothing, &status, None), status)
    };
    let (said, status) = text(Outcome::Pushed {
        branch: "main".to_owned(),
        commit: "c0ffee".to_owned(),
    });
    assert_eq!(said, "Deploying/Deploying: the change was pushed");
    assert_eq!(status.branch.as_deref(), Some("main"));
    assert_eq!(status.commit.as_deref(), Some("c0ffee"));
    let reference = "example.com/shop:prod".to_owned();
    let (said, _) = text(Outcome::Tagged { reference });
    assert_eq!(
        said,
        "Deploying/Deploying: example.com/shop:prod points to the revision"
    );
    let (said, _) = text(Outcome::Published);
    let expected = "the revision was published; clusters get it when they next ask";
    assert_eq!(said, format!("Deploying/Deploying: {expected}"));
    let url = Some(URL.to_owned());
    let (said, status) = text(Outcome::Delivered { url: url.clone() });
    assert_eq!(said, "Deploying/Deploying: the promotion was handed over");
    assert_eq!(status.url, url);
}

#[test]
fn the_branch_is_polled_where_an_edit_of_the_repository_resolves_it() {
    for (reason, expected) in [
        ("BranchChangedByOthers", true),
        ("NoMarker", true),
        ("SharedManifest", true),
        ("TargetsShareField", true),
        ("UneditableFile", true),
        ("NoBaseBranch", true),
        ("TooManyFiles", true),
        ("ForgeUnreachable", false),
        ("InvalidTag", false),
    ] {
        let found = planner::is_resolved_by_repository_edit(reason);
        assert_eq!(found, expected, "{reason}");
    }
}

#[test]
fn what_was_done_is_recorded() {
    let drawing = "prod[1.0.0 ok]\npromotion prod 2.0.0";
    let opened = Outcome::Opened {
        url: URL.to_owned(),
        branch: "b".to_owned(),
        commit: None,
        notes: Vec::new(),
    };
    let status = concluded(drawing, "", opened);
    assert_eq!(
        show(ExternalAction::Nothing, &status, None),
        "WaitingForMerge/WaitingForMerge: the pull request waits to be merged"
    );
    assert_eq!((status.attempts, status.url.as_deref()), (1, Some(URL)));
    // What was left out is said for as long as the pull request is open.
    let opened = Outcome::Opened {
        url: URL.to_owned(),
        branch: "b".to_owned(),
        commit: None,
        notes: vec!["zoe was not asked".to_owned()],
    };
    let mut world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
    world.promotions[0].status = Some(concluded(drawing, "", opened));
    let message = next_of(&world, "open").status.message;
    let expected = "the pull request waits to be merged; zoe was not asked";
    assert_eq!(message.as_deref(), Some(expected));
    assert_eq!(status.conditions[0].status, "Unknown");
    let pushed = Outcome::Pushed {
        branch: "main".to_owned(),
        commit: "c0ffee".to_owned(),
    };
    for outcome in [
        pushed,
        Outcome::AlreadyThere,
        Outcome::Delivered { url: None },
    ] {
        let status = concluded(drawing, "", outcome);
        assert_eq!(status.phase, Some(crate::drawing::phase("Deploying")));
        assert!(status.merged_at.is_some());
    }
    let status = concluded(
        "prod[2.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "open",
        Outcome::Closed,
    );
    assert_eq!(
        show(ExternalAction::Nothing, &status, None),
        "Succeeded/Deployed: prod runs 2.0.0"
    );
    assert_eq!(status.conditions[0].status, "True");
}

#[test]
fn failures_are_tried_again_visibly() {
    let drawing = "prod[1.0.0 ok]\npromotion prod 2.0.0 Running tried 3";
    let wait = |status: &PromotionStatus| {
        status.next_attempt.as_ref().unwrap().0.as_second() - now().as_second()
    };
    let status = concluded(drawing, "", failure(Remedy::Retry));
    assert_eq!(
        show(ExternalAction::Nothing, &status, None),
        "Running/ForgeDown: the forge answered 503"
    );
    assert_eq!(status.attempts, 4);
    assert!((31..=48).contains(&wait(&status)), "{}", wait(&status));
    let asked = Remedy::RetryAfter(Duration::from_secs(3000));
    assert_eq!(wait(&concluded(drawing, "", failure(asked))), 3000);
    let slow = wait(&concluded(drawing, "", failure(Remedy::WaitForEdit)));
    assert!((1440..=2160).contains(&slow), "{slow}");
    // A pull request that could not be closed keeps the promotion where it was.
    let drawing = "prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge withdrawn";
    let status = concluded(drawing, "open", failure(Remedy::Retry));
    assert_eq!(status.phase, Some(crate::drawing::phase("WaitingForMerge")));
    assert_eq!(status.finished_at, None);
}

#[test]
fn an_attempt_waits_for_its_time_or_an_edit() {
    let drawing = "prod[1.0.0 ok]\npromotion prod 2.0.0 Running because ForgeDown until 90s";
    check(drawing, "", "Running/ForgeDown: -, again in 90s");
    let world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
    let around = AttemptInput {
        pipeline: Some(&world.pipeline),
        promotions: &world.promotions,
        pull_request: ObservedPullRequest::NotQueried,
        edited: true,
    };
    assert_eq!(
        attempt(&world.promotions[0], &around, now()).action,
        ExternalAction::CarryOut
    );
}
