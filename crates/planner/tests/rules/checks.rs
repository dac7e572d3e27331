//! Checks: when they start and end, what they hold, and the rollback when one fails.

use api::{
    CheckRun,
    check_run::CheckVerdict,
    pipeline::{Override, StoredOverride},
    promotion::Phase,
};
use planner::{measures_on, surplus_checks};

use crate::{
    attempt::next_of,
    drawing::{World, ago, draw, now},
    plan::check,
    show::{carry_out, show},
};

#[test]
fn a_revision_is_checked_where_it_arrived() {
    check(
        "dev{verify smoke errors}[2.0.0 ok] > prod[1.0.0 ok]",
        "check dev smoke 2.0.0 #0
         check dev errors 2.0.0 #0
         prod: Verifying: 2.0.0 has not passed the checks of dev: smoke has not started and errors has not started; \
         resolved by those checks, once they pass",
    );
    // Whether or not a promotion brought it, also in the last environment, and only once it is ready.
    check(
        "dev[1.0.0 ok] > prod{verify smoke}[1.0.0 ok]",
        "check prod smoke 1.0.0 #0",
    );
    check(
        "dev[1.0.0 ok] > prod{verify smoke}[1.0.0 broken]",
        "nothing",
    );
    // Where every site runs it, there is nothing to hold.
    check(
        "dev{verify smoke}[1.0.0 ok] > prod[1.0.0 ok]
         check dev smoke 1.0.0 Failed",
        "nothing",
    );
    check(
        "dev{verify smoke}[2.0.0 ok 30m, 1.0.0 ok] > prod{any}[2.0.0 ok]
         check dev smoke 1.0.0 Running
         check dev smoke 2.0.0 Failed",
        "nothing",
    );
    check(
        "dev{verify smoke}[2.0.0 ok 5m, 1.0.0 ok] > prod{any, soak 30m}[2.0.0 ok]
         check dev smoke 1.0.0 Failed
         check dev smoke 2.0.0 Passed",
        "nothing",
    );
    check(
        "dev{verify smoke}[2.0.0 ok, 1.0.0 ok] > prod[1.0.0 ok]",
        "prod: SourceTargetsDiffer: dev targets run 1.0.0 and 2.0.0; resolved by one revision on all targets of dev",
    );
}

#[test]
fn what_a_promotion_brings_shows_how_its_checks_stand() {
    let drawing = "dev{verify smoke errors}[2.0.0 ok] > prod{checks ticket}[1.0.0 ok]
        ran dev 2.0.0
        check dev smoke 2.0.0 Passed
        promotion prod 2.0.0 Running";
    let shown = |drawing: &str| {
        let mut world = draw(drawing);
        world.fold_checks();
        let diffs = planner::promotion_diff(&world.pipeline, "prod", &world.promotions);
        let checks = diffs.iter().flat_map(|it| &it.checks);
        let shown = checks.map(|it| {
            let verdict = it.verdict.word();
            format!(
                "{} {} {} {verdict}",
                it.environment,
                it.cause.word(),
                it.check
            )
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        shown(drawing),
        "dev Verify smoke Passed, dev Verify errors Pending, prod Promotion ticket Pending"
    );
    // Once dev runs another revision its check runs are gone, and its history says what passed.
    let moved_on = "dev{verify smoke}[3.0.0 ok] > prod[1.0.0 ok]
        checked dev 3.0.0 2.0.0
        promotion prod 2.0.0 Running";
    assert_eq!(shown(moved_on), "dev Verify smoke Passed");
}

#[test]
fn one_ready_target_is_checked_where_one_is_enough() {
    check(
        "dev{verify smoke}[2.0.0 ok, 1.0.0 ok] > prod{any}[1.0.0 ok]
         check dev smoke 1.0.0 Passed",
        "check dev smoke 2.0.0 #0",
    );
    check(
        "dev{verify smoke}[2.0.0 ok 30m, 1.0.0 ok] > prod{any}[1.0.0 ok]
         check dev smoke 1.0.0 Passed
         check dev smoke 2.0.0 Passed",
        "start prod 2.0.0 instead of 1.0.0",
    );
}

#[test]
fn nothing_goes_on_without_its_checks() {
    let world = "dev{verify smoke errors}[2.0.0 ok] > prod[1.0.0 ok]";
    let holds = |checks: &str| {
        let world = draw(&format!("{world}\n{checks}"));
        let plan = world.plan();
        assert!(plan.steps.iter().all(|step| !show_is_start(step)));
        plan.environments["prod"]
            .hold
            .clone()
            .unwrap()
            .reason
            .word()
    };
    let smoke = "check dev smoke 2.0.0 Passed";
    assert_eq!(holds(smoke), "Verifying");
    for (verdict, reason) in [
        ("Pending", "Verifying"),
        ("Running", "Verifying"),
        ("Error", "Verifying"),
        ("Failed", "VerificationFailed"),
    ] {
        let errors = format!("{smoke}\ncheck dev errors 2.0.0 {verdict}");
        assert_eq!(holds(&errors), reason, "{verdict}");
    }
    // The checks of another revision do not count.
    let other = format!("{smoke}\ncheck dev errors 1.0.0 Passed");
    assert_eq!(holds(&other), "Verifying");
    check(
        &format!("{world}\n{smoke}\ncheck dev errors 2.0.0 Passed"),
        "start prod 2.0.0 instead of 1.0.0",
    );
}

/// What is done to a CheckRun, and how that is called.
type Tampering = (&'static str, fn(&mut CheckRun));

#[test]
fn a_passed_check_run_counts_only_if_it_is_ours() {
    let changes: [Tampering; 5] = [
        ("without an owner", |run| {
            run.metadata.owner_references = None;
        }),
        ("of another pipeline", |run| {
            run.metadata.owner_references.as_mut().unwrap()[0].uid = "another".to_owned();
        }),
        ("with a name of its own", |run| {
            run.metadata.name = Some("by-hand".to_owned());
        }),
        ("that is being deleted", |run| {
            run.metadata.deletion_timestamp = Some(api::Time(now()));
        }),
        ("of another definition", |run| {
            run.spec.check.interval = Some("30s".parse().unwrap());
            run.metadata.name = Some(api::names::check_run_name(&run.spec));
        }),
    ];
    for (what, change) in changes {
        let mut world = draw(
            "dev{verify smoke}[2.0.0 ok] > prod[1.0.0 ok]
             check dev smoke 2.0.0 Passed",
        );
        assert!(world.plan().steps.iter().any(show_is_start), "{what}");
        change(&mut world.runs[0]);
        world.fold_checks();
        assert!(!world.plan().steps.iter().any(show_is_start), "{what}");
    }
}

fn show_is_start(step: &planner::Step) -> bool {
    matches!(step, planner::Step::StartPromotion(_))
}

#[test]
fn checks_come_before_soak_and_a_later_failure_takes_eligibility_back() {
    let world = |checks: &str| {
        let text = "dev{verify smoke}[2.0.0 ok 5m] > prod{soak 30m}[1.0.0 ok]";
        draw(&format!("{text}\n{checks}"))
    };
    let reason = |world: &World| {
        let plan = world.plan();
        plan.environments["prod"]
            .hold
            .clone()
            .unwrap()
            .reason
            .word()
    };
    assert_eq!(reason(&world("check dev smoke 2.0.0 Passed")), "Soaking");
    assert_eq!(
        reason(&world("check dev smoke 2.0.0 Failed")),
        "VerificationFailed"
    );
}

#[test]
fn a_check_with_an_interval_is_measured_while_the_revision_soaks() {
    let measured = |drawing: &str| {
        let mut world = draw(drawing);
        world.pipeline.spec.checks[0].interval = Some("30s".parse().unwrap());
        world.runs[0].spec.check.interval = Some("30s".parse().unwrap());
        let name = api::names::check_run_name(&world.runs[0].spec);
        world.runs[0].metadata.name = Some(name);
        measures_on(&world.pipeline, &world.runs[0], now())
    };
    let soaking = "dev{verify smoke}[2.0.0 ok 5m] > prod{soak 30m}[1.0.0 ok]";
    assert!(measured(&format!(
        "{soaking}\ncheck dev smoke 2.0.0 Passed"
    )));
    assert!(!measured(&format!(
        "{soaking}\ncheck dev smoke 1.0.0 Passed"
    )));
    let soaked = "dev{verify smoke}[2.0.0 ok 31m] > prod{soak 30m}[1.0.0 ok]";
    assert!(!measured(&format!(
        "{soaked}\ncheck dev smoke 2.0.0 Passed"
    )));
    let last = "dev[2.0.0 ok] > prod{verify smoke}[2.0.0 ok 1m]";
    assert!(!measured(&format!("{last}\ncheck prod smoke 2.0.0 Passed")));
}

#[test]
fn a_request_overrides_the_checks_of_the_source_and_not_those_before_the_environment() {
    check(
        "dev{verify smoke}[2.0.0 ok] > prod{checks ticket}[1.0.0 ok]
         check dev smoke 2.0.0 Failed
         request prod Promote 2.0.0 r1",
        "start prod 2.0.0 instead of 1.0.0
         check prod ticket 2.0.0 #0 before it enters
         prod request r1: 2.0.0 has not passed the checks before prod: ticket has not started",
    );
}

const ENTERING: &str = "dev[2.0.0 ok] > prod{checks ticket}[1.0.0 ok]
    promotion prod 2.0.0 Running";

/// The phase of the promotion, its reason, and whether it is carried out.
fn attempted(world: &World) -> String {
    let next = next_of(world, "missing");
    let status = &next.status;
    let (phase, reason) = (
        status.phase.unwrap(),
        status.reason.clone().unwrap_or_default(),
    );
    format!("{phase:?} {reason} {:?}", next.action)
}

#[test]
fn a_promotion_waits_for_the_checks_before_its_environment() {
    check(
        ENTERING,
        "check prod ticket 2.0.0 #0 before it enters
         prod: CheckPending: 2.0.0 has not passed the checks before prod: ticket has not started; \
         resolved by those checks, once they pass",
    );
    for (verdict, expected) in [
        ("Pending", "Running CheckPending Nothing"),
        ("Running", "Running CheckPending Nothing"),
        ("Error", "Running CheckPending Nothing"),
        ("Failed", "Running CheckFailed Nothing"),
        ("Passed", "Running Running CarryOut"),
    ] {
        let world = draw(&format!(
            "{ENTERING}\ncheck prod ticket 2.0.0 {verdict} before"
        ));
        assert_eq!(attempted(&world), expected, "{verdict}");
    }
    // The same check after arrival, or for another revision, is another one.
    for other in ["2.0.0 Passed", "1.0.0 Passed before"] {
        let world = draw(&format!("{ENTERING}\ncheck prod ticket {other}"));
        assert_eq!(attempted(&world), "Running CheckPending Nothing", "{other}");
    }
}

#[test]
fn an_open_pull_request_is_asked_only_whether_a_check_failed_since() {
    let open = "dev[2.0.0 ok] > prod{checks ticket, merged by the forge}[1.0.0 ok]
        promotion prod 2.0.0 WaitingForMerge";
    for (verdict, expected) in [
        ("Passed", "WaitingForMerge WaitingForMerge AskForMerge"),
        ("Pending", "WaitingForMerge WaitingForMerge AskForMerge"),
        ("Failed", "WaitingForMerge CheckFailed Nothing"),
    ] {
        let world = draw(&format!("{open}\ncheck prod ticket 2.0.0 {verdict} before"));
        let next = next_of(&world, "open");
        let status = &next.status;
        let (phase, reason) = (status.phase.unwrap(), status.reason.clone().unwrap());
        assert_eq!(format!("{phase:?} {reason} {:?}", next.action), expected);
    }
    let source = "dev{verify smoke}[2.0.0 ok] > prod{merged by the forge}[1.0.0 ok]
        promotion prod 2.0.0 WaitingForMerge";
    for (verdict, action) in [("Pending", "AskForMerge"), ("Failed", "Nothing")] {
        let world = draw(&format!("{source}\ncheck dev smoke 2.0.0 {verdict}"));
        assert_eq!(format!("{:?}", next_of(&world, "open").action), action);
    }
}

#[test]
fn a_failure_is_remembered_after_the_source_moved_on() {
    let mut world = draw(
        "dev{verify smoke}[2.0.0 ok] > prod{merged by the forge}[1.0.0 ok]
         ran dev 2.0.0
         promotion prod 2.0.0 WaitingForMerge
         check dev smoke 2.0.0 Failed",
    );
    let plan = world.plan();
    carry_out(&mut world, &plan);
    let dev = world
        .pipeline
        .status
        .as_mut()
        .unwrap()
        .environments
        .get_mut("dev")
        .unwrap();
    assert_eq!(dev.ran[0].failed_check.as_deref(), Some("smoke"));
    dev.targets[0].revision = Some("3.0.0".to_owned());
    world.runs.clear();
    world.fold_checks();
    let next = next_of(&world, "open");
    assert_eq!(next.status.reason.as_deref(), Some("VerificationFailed"));
    assert_eq!(next.action, planner::ExternalAction::Nothing);
}

#[test]
fn an_override_passes_the_checks_that_it_names() {
    let overridden = |passes: &str| {
        let mut world = draw(&format!(
            "{ENTERING}\ncheck prod ticket 2.0.0 Failed before"
        ));
        let promotion = world.promotions[0].metadata.name.clone().unwrap();
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        prod.overrides.push(StoredOverride {
            promotion,
            by: Some("ada".to_owned()),
            passes: vec![passes.to_owned()],
            at: Some(ago("5m")),
            ..StoredOverride::default()
        });
        attempted(&world)
    };
    assert_eq!(overridden("check/ticket"), "Running Running CarryOut");
    assert_eq!(overridden("check/other"), "Running CheckFailed Nothing");
    let names = |pass: &str| {
        planner::refuse_override(&Override {
            reason: "outage".to_owned(),
            passes: vec![pass.to_owned()],
        })
    };
    assert_eq!(names("check/ticket"), None);
    assert!(names("check/").is_some());
    assert!(names("approvals").is_some());
}

/// The answer of the gate about a promotion with an override.
fn answer_with_override(phase: &str, verdict: &str, passes: &str) -> Option<String> {
    let drawing = ENTERING.replace("Running", phase);
    let mut world = draw(&format!(
        "{drawing}\ncheck prod ticket 2.0.0 {verdict} before"
    ));
    let promotion = world.promotions[0].metadata.name.clone().unwrap();
    let status = world.pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    prod.overrides.push(StoredOverride {
        promotion,
        by: Some("ada".to_owned()),
        passes: vec![passes.to_owned()],
        reason: "outage".to_owned(),
        at: Some(ago("5m")),
        ..StoredOverride::default()
    });
    let plan = world.plan();
    let mut gates = plan.environments["prod"].gates.iter();
    gates.find(|it| it.gate == "checks").unwrap().message()
}

#[test]
fn an_override_is_named_only_where_it_was_needed() {
    let named = Some("passed by override of ada: outage".to_owned());
    assert_eq!(
        answer_with_override("Running", "Failed", "check/ticket"),
        named
    );
    assert_eq!(
        answer_with_override("Running", "Passed", "check/ticket"),
        None
    );
    assert_eq!(
        answer_with_override("WaitingForMerge", "Running", "check/other"),
        None
    );
}

/// The promotion that brought what prod runs, and how it goes on.
fn brought(settings: &str, runs: &str, checks: &str) -> String {
    let world = draw(&format!(
        "dev[2.0.0 ok] > prod{{{settings}}}[{runs}]
         promotion prod 2.0.0 Deploying merged 5m
         {checks}"
    ));
    let status = next_of(&world, "").status;
    let reason = status.reason.unwrap_or_default();
    format!(
        "{:?} {reason}: {}",
        status.phase.unwrap(),
        status.message.unwrap_or_default()
    )
}

#[test]
fn what_arrived_is_verifying_until_its_checks_decide() {
    let smoke = |verdict: &str| {
        let check = format!("check prod smoke 2.0.0 {verdict}");
        brought("verify smoke", "2.0.0 ok", &check)
    };
    assert_eq!(
        smoke("Pending"),
        "Verifying Verifying: prod runs 2.0.0; smoke has not started"
    );
    assert_eq!(
        smoke("Error"),
        "Verifying Verifying: prod runs 2.0.0; smoke cannot be measured"
    );
    assert_eq!(smoke("Passed"), "Succeeded Deployed: prod runs 2.0.0");
    assert_eq!(
        smoke("Failed"),
        "Failed CheckFailed: 2.0.0 failed in prod: the check smoke failed: it was slow"
    );
    assert_eq!(
        brought("", "2.0.0 ok", "suspend"),
        "Succeeded Deployed: prod runs 2.0.0"
    );
}

#[test]
fn a_verifying_promotion_ends_when_its_revision_left_and_is_never_a_late_success() {
    let last = |phase: &str, runs: &str, verdict: &str| {
        let world = draw(&format!(
            "dev[2.0.0 ok] > prod{{verify smoke}}[{runs}]
             promotion prod 2.0.0 {phase} merged 5m
             check prod smoke 2.0.0 {verdict}"
        ));
        next_of(&world, "").status.phase.unwrap()
    };
    // The result of what has left does nothing.
    for verdict in ["Failed", "Passed", "Pending"] {
        assert_eq!(last("Verifying", "1.5.0 ok", verdict), Phase::Superseded);
    }
    assert_eq!(
        last("Verifying", "2.0.0 broken", "Pending"),
        Phase::Verifying
    );
    assert_eq!(
        last("Verifying superseded", "2.0.0 ok", "Pending"),
        Phase::Superseded
    );
    assert_eq!(
        last("Verifying superseded", "2.0.0 ok", "Failed"),
        Phase::Failed
    );
    assert_eq!(
        last("Failed because CheckFailed", "2.0.0 ok", "Passed"),
        Phase::Failed
    );
    assert_eq!(
        last("Failed because DeployFailed", "2.0.0 ok", "Passed"),
        Phase::Succeeded
    );
    assert_eq!(
        last("Failed because DeployFailed", "2.0.0 ok", "Pending"),
        Phase::Failed
    );
}

#[test]
fn a_newer_revision_supersedes_what_is_verifying() {
    check(
        "dev[3.0.0 ok] > prod{verify smoke}[2.0.0 ok]
         promotion prod 2.0.0 Verifying merged 5m asked r0
         check prod smoke 2.0.0 Running",
        "supersede prod 2.0.0
         start prod 3.0.0 instead of 2.0.0",
    );
}

const FAILED: &str = "dev[2.0.0 ok] > prod{verify smoke, back, manual}[2.0.0 ok]
    check prod smoke 2.0.0 Failed";

#[test]
fn a_failed_check_rolls_back_to_the_last_good_revision_once() {
    let drawing = format!(
        "{FAILED}
         promotion prod 2.0.0 Verifying merged 5m approved
         checked prod 2.0.0 1.5.0+ 1.0.0"
    );
    // It was approved once, and that counts again.
    check(
        &drawing,
        "start prod 1.5.0 instead of 2.0.0
         prod rejects 2.0.0",
    );
    let mut world = draw(&drawing);
    let plan = world.plan();
    carry_out(&mut world, &plan);
    let back = world.promotions.last().unwrap();
    let cause = world.promotions[0].metadata.uid.clone();
    assert_eq!(back.spec.cause, cause);
    assert!(!back.spec.needs_approval);
    // A status that was not written, after a crash, leads to no second one.
    let status = world.pipeline.status.as_mut().unwrap();
    status
        .environments
        .get_mut("prod")
        .unwrap()
        .rejected
        .clear();
    assert_eq!(show(&world, &world.plan()), "prod rejects 2.0.0");
}

#[test]
fn a_rollback_that_nobody_approved_before_needs_approval() {
    check(
        &format!(
            "{FAILED}
             promotion prod 2.0.0 Failed because CheckFailed merged 5m approved
             checked prod 2.0.0 1.5.0"
        ),
        "start prod 1.5.0 instead of 2.0.0, needs approval
         prod: AwaitingApproval: 1.5.0 waits for approval to enter prod; a failed check led to this rollback; resolved by an approval of 1.5.0
         prod rejects 2.0.0",
    );
}

#[test]
fn there_is_no_rollback_without_a_promotion_an_entry_or_of_a_rollback() {
    for (facts, because) in [
        ("checked prod 2.0.0 1.0.0", "no promotion brought it"),
        (
            "promotion prod 1.0.0 Succeeded merged 5m
             checked prod 2.0.0 1.0.0",
            "no promotion brought it",
        ),
        (
            "promotion prod 2.0.0 Failed merged 5m
             ran prod 2.0.0 1.0.0",
            "no other revision has passed the checks there",
        ),
        (
            "promotion prod 2.0.0 Failed merged 5m asked r1 back
             checked prod 2.0.0 1.0.0",
            "a rollback brought it",
        ),
        (
            "promotion prod 2.0.0 Failed merged 5m cause other
             checked prod 2.0.0 1.0.0",
            "a rollback brought it",
        ),
    ] {
        check(
            &format!("{FAILED}\n{facts}"),
            &format!(
                "prod: RollbackNotPossible: 2.0.0 failed its checks in prod and is not rolled back: {because}; \
                 resolved by a newer revision, a request for another one, or a retry of the checks of prod"
            ),
        );
    }
}

#[test]
fn nothing_else_is_rolled_back() {
    let promotion = "promotion prod 2.0.0 Verifying merged 5m
        checked prod 2.0.0 1.0.0";
    for (drawing, expected) in [
        // onFailure: Hold
        (
            format!(
                "dev[2.0.0 ok] > prod{{verify smoke}}[2.0.0 ok]
                 check prod smoke 2.0.0 Failed
                 {promotion}"
            ),
            "nothing",
        ),
        // It could not be measured.
        (
            format!(
                "dev[2.0.0 ok] > prod{{verify smoke, back}}[2.0.0 ok]
                 check prod smoke 2.0.0 Error
                 {promotion}"
            ),
            "nothing",
        ),
        // The deployment took too long.
        (
            "dev[2.0.0 ok] > prod{verify smoke, back}[2.0.0 broken]
             promotion prod 2.0.0 Failed because DeployFailed merged 5m
             checked prod 2.0.0 1.0.0"
                .to_owned(),
            "nothing",
        ),
        // It was rejected before.
        (
            format!("{FAILED}\n{promotion}\nrejected prod 2.0.0"),
            "prod rejects 2.0.0",
        ),
        // Another revision runs.
        (
            format!(
                "dev[3.0.0 ok] > prod{{verify smoke, back}}[3.0.0 ok]
                 check prod smoke 3.0.0 Passed
                 check prod smoke 2.0.0 Failed
                 {promotion}"
            ),
            "nothing",
        ),
    ] {
        let world = draw(&drawing);
        assert_eq!(show(&world, &world.plan()), expected, "{drawing}");
    }
}

#[test]
fn what_failed_does_not_come_again_while_the_rollback_is_under_way() {
    let world = draw(
        "dev[2.0.0 ok] > prod{verify smoke, back}[2.0.0 ok]
         rejected prod 2.0.0
         promotion prod 2.0.0 Failed because CheckFailed merged 9m
         promotion prod 1.0.0 WaitingForMerge cause x
         checked prod 2.0.0 1.0.0",
    );
    assert!(world.plan().steps.iter().all(|step| !show_is_start(step)));
    let next = draw(
        "dev[3.0.0 ok] > prod{verify smoke, back}[2.0.0 ok]
         rejected prod 2.0.0
         promotion prod 1.0.0 WaitingForMerge cause x
         check prod smoke 2.0.0 Failed",
    );
    let plan = next.plan();
    assert_eq!(plan.steps, []);
    let hold = plan.environments["prod"].hold.clone().unwrap();
    assert_eq!(hold.reason.word(), "RequestUnderWay");
}

#[test]
fn a_cancelled_rollback_is_not_derived_again() {
    check(
        "dev[2.0.0 ok] > prod{verify smoke, back}[2.0.0 ok]
         rejected prod 2.0.0
         check prod smoke 2.0.0 Failed
         promotion prod 2.0.0 Failed because CheckFailed merged 9m
         promotion prod 1.0.0 WaitingForMerge cause x
         checked prod 2.0.0 1.0.0
         request prod Cancel - r1",
        "withdraw prod 1.0.0: Cancelled by ada
         prod rejects 2.0.0
         prod request r1: cancelled 1.0.0",
    );
}

#[test]
fn a_retry_starts_failed_checks_again() {
    check(
        "dev{verify smoke errors}[2.0.0 ok] > prod[1.0.0 ok]
         check dev smoke 2.0.0 Failed
         check dev errors 2.0.0 Passed
         request dev Retry - r1",
        "check dev smoke 2.0.0 #1
         dev request r1: checking again: smoke
         prod: VerificationFailed: 2.0.0 failed in dev: the check smoke failed: it was slow; \
         resolved by a newer revision, a retry of the checks of dev, or a request for 2.0.0",
    );
    check(
        &format!(
            "{ENTERING}
             check prod ticket 2.0.0 Error before #2
             request prod Retry - r1"
        ),
        "check prod ticket 2.0.0 #3 before it enters
         prod request r1: checking again: ticket",
    );
    // A pass that started it and could not write its status.
    check(
        "dev{verify smoke}[2.0.0 ok] > prod[1.0.0 ok]
         check dev smoke 2.0.0 Failed
         check dev smoke 2.0.0 Pending #1
         request dev Retry - r1",
        "dev request r1: checking again: smoke
         prod: Verifying: 2.0.0 has not passed the checks of dev: smoke has not started; \
         resolved by those checks, once they pass",
    );
    // After a rollback the failed check is kept to say why, and is not measured again.
    check(
        "dev[2.0.0 ok] > prod{verify smoke}[1.0.0 ok]
         check prod smoke 2.0.0 Failed
         rejected prod 2.0.0
         promotion prod 2.0.0 Failed because CheckFailed merged 9m
         promotion prod 1.0.0 Succeeded back instead 2.0.0
         request prod Retry - r1",
        "check prod smoke 1.0.0 #0
         prod: Rejected: somebody rolled prod back from 2.0.0 to 1.0.0; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0
         prod request r1: refused: 2.0.0 failed in prod and was replaced since; to bring it again, request it \
         (`sluice promote shop prod 2.0.0`)",
    );
    // The promotion that a check failed is not started again where it runs.
    check(
        "dev[2.0.0 ok] > prod{verify smoke}[2.0.0 ok]
         check prod smoke 2.0.0 Passed
         promotion prod 2.0.0 Failed because CheckFailed merged 5m
         request prod Retry - r1",
        "prod request r1: refused: no promotion into prod has failed",
    );
}

/// The CheckRuns that are deleted, as their check, revision and attempt.
fn removed(world: &World) -> String {
    let steps = surplus_checks(
        &world.pipeline,
        &world.model(),
        (&world.promotions, &[]),
        &world.runs,
    );
    let is_removed = |name: &Option<String>| {
        steps.iter().any(|step| match step {
            planner::Step::RemoveCheckRun { name: removed } => Some(removed) == name.as_ref(),
            _ => false,
        })
    };
    let runs = world
        .runs
        .iter()
        .filter(|run| is_removed(&run.metadata.name));
    let runs = runs.map(|run| {
        let spec = &run.spec;
        format!("{} {} #{}", spec.check.name, spec.revision, spec.attempt)
    });
    runs.collect::<Vec<_>>().join(", ")
}

#[test]
fn what_failed_is_kept_for_as_long_as_its_revision_is_rejected() {
    let left = |facts: &str| {
        removed(&draw(&format!(
            "dev[2.0.0 ok] > prod{{verify smoke}}[1.0.0 ok]
             check prod smoke 2.0.0 Failed
             check prod smoke 1.5.0 Passed
             {facts}"
        )))
    };
    assert_eq!(left("rejected prod 2.0.0"), "smoke 1.5.0 #0");
    assert_eq!(left(""), "smoke 2.0.0 #0, smoke 1.5.0 #0");
    // It is checked anew when somebody brings it again.
    assert_eq!(
        left("rejected prod 2.0.0\npromotion prod 2.0.0 Running"),
        "smoke 2.0.0 #0, smoke 1.5.0 #0"
    );
}

#[test]
fn only_the_checks_of_what_runs_and_of_what_enters_are_kept() {
    let mut world = draw(
        "dev{verify smoke}[2.0.0 ok] > prod{checks ticket}[1.0.0 ok]
         promotion prod 2.0.0 Running
         promotion prod 1.5.0 Superseded
         check dev smoke 2.0.0 Passed
         check dev smoke 1.0.0 Passed
         check prod ticket 2.0.0 Running before
         check prod ticket 1.5.0 Running before
         check prod ticket 1.0.0 Failed before
         check prod ticket 1.0.0 Passed before #1",
    );
    assert_eq!(
        removed(&world),
        "smoke 1.0.0 #0, ticket 1.5.0 #0, ticket 1.0.0 #0"
    );
    // Neither a check that is defined differently now nor one that somebody else made counts.
    world.pipeline.spec.checks[0].timeout = Some("1h".parse().unwrap());
    world.runs[2].metadata.owner_references = None;
    world.fold_checks();
    assert!(removed(&world).contains("smoke 2.0.0 #0"));
    assert!(removed(&world).contains("ticket 2.0.0 #0"));
    let model = world.model();
    assert!(model.environments["dev"].checks.is_empty());
    let verdicts = model.environments["prod"].checks.iter();
    let verdicts: Vec<_> = verdicts
        .map(|it| (it.revision.as_str(), it.verdict))
        .collect();
    let passed = ("1.0.0", CheckVerdict::Passed);
    assert_eq!(verdicts, [passed, ("1.5.0", CheckVerdict::Running)]);
}

#[test]
fn the_history_says_which_revisions_passed() {
    let ran = |verdict: &str| {
        let mut world = draw(&format!(
            "dev{{verify smoke}}[2.0.0 ok] > prod[1.0.0 ok]
             checked dev 2.0.0
             check dev smoke 2.0.0 {verdict}"
        ));
        world
            .pipeline
            .status
            .as_mut()
            .unwrap()
            .environments
            .get_mut("dev")
            .unwrap()
            .ran[0]
            .checked_at = (verdict == "Failed").then(|| ago("2h"));
        let plan = world.plan();
        carry_out(&mut world, &plan);
        let entry = world.model().environments["dev"].ran[0].clone();
        (entry.checked_at.is_some(), entry.failed_check)
    };
    assert_eq!(ran("Running"), (false, None));
    assert_eq!(ran("Passed"), (true, None));
    assert_eq!(ran("Failed"), (false, Some("smoke".to_owned())));
}

#[test]
fn the_status_of_a_promotion_sums_its_checks_up() {
    let world = draw(
        "dev[2.0.0 ok] > prod{checks ticket, verify smoke}[2.0.0 ok]
         promotion prod 2.0.0 Verifying merged 5m
         check prod ticket 2.0.0 Passed before
         check prod smoke 2.0.0 Running",
    );
    let checks = next_of(&world, "").status.checks;
    let checks: Vec<_> = checks
        .iter()
        .map(|it| format!("{} {:?} {:?}", it.check, it.cause, it.verdict))
        .collect();
    assert_eq!(checks, ["ticket Promotion Passed", "smoke Verify Running"]);
}

#[test]
fn checks_that_cannot_work_hold_the_pipeline() {
    for (edit, text) in [
        (
            "unknown",
            "verify of dev names the check \"smoke\", which is not in spec.checks",
        ),
        ("twice", "two checks are called smoke"),
        (
            "kinds",
            "the check smoke: it must be one of prometheus, http, job and external",
        ),
        (
            "none",
            "the check smoke: it must be one of prometheus, http, job and external",
        ),
    ] {
        let mut world = draw("dev{verify smoke}[2.0.0 ok] > prod[1.0.0 ok]");
        let checks = &mut world.pipeline.spec.checks;
        match edit {
            "unknown" => checks.clear(),
            "twice" => checks.push(checks[0].clone()),
            "kinds" => checks[0].job = Some(api::pipeline::JobCheck::default()),
            _ => checks[0].external = None,
        }
        let plan = world.plan();
        let hold = plan.environments["prod"].hold.clone().unwrap();
        assert_eq!(
            (hold.reason.word(), hold.sentence.as_str()),
            ("InvalidSpec", text)
        );
        assert_eq!(plan.steps, []);
    }
    let mut spec = draw("dev{verify smoke, back}[2.0.0 ok] > prod[1.0.0 ok]")
        .pipeline
        .spec;
    spec.promotion = None;
    spec.checks.push(api::pipeline::Check {
        name: "idle".to_owned(),
        external: Some(api::pipeline::ExternalCheck::default()),
        ..api::pipeline::Check::default()
    });
    let found: Vec<_> = planner::lint(&spec).into_iter().map(|it| it.text).collect();
    assert!(
        found.contains(&"no environment uses the check idle".to_owned()),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|text| text.starts_with("dev is never rolled back")),
        "{found:?}"
    );
}

#[test]
fn the_forecast_names_checks_as_what_time_does_not_bring() {
    let world = draw(
        "dev{verify smoke}[2.0.0 ok] > prod[1.0.0 ok]
         check dev smoke 2.0.0 Running",
    );
    let forecast = planner::forecast(&world.pipeline, &world.model(), &[], now());
    let prod = forecast.iter().find(|it| it.environment == "prod").unwrap();
    assert_eq!(
        prod.text(),
        "prod: 2.0.0 after those checks, once they pass"
    );
}
