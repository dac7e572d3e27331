//! Every gate: when it passes, waits and fails, and what is asked again of a promotion under way.

use api::pipeline::FailedRelease;
use planner::{GateVerdict, HoldReason, Timestamp, gate_names, holds_requests};

use crate::{
    attempt::next_of,
    drawing::{World, ago, draw, now},
    plan::check as check_plan,
    show::show,
};

/// The answers about prod: the revision, then each gate that does not simply pass.
fn answers(world: &World) -> String {
    let plan = world.plan();
    let says = &plan.environments["prod"];
    if says.gates.is_empty() {
        return "nothing is asked".to_owned();
    }
    let names: Vec<_> = says.gates.iter().map(|answer| answer.gate).collect();
    assert_eq!(
        names,
        gate_names().collect::<Vec<_>>(),
        "every gate, in order"
    );
    let special = says
        .gates
        .iter()
        .filter(|it| it.verdict != GateVerdict::Pass);
    let special = special.map(|answer| {
        let reason = answer.hold().map(|hold| format!(" {}", hold.reason.word()));
        let (gate, word) = (answer.gate, answer.verdict.word());
        format!(", {gate} {word}{}", reason.unwrap_or_default())
    });
    let next = says.next.as_deref().unwrap_or("-");
    // The hold is of a gate in the list, or of a newer revision than the one under way.
    let is_listed = |hold| says.gates.iter().any(|it| it.hold() == Some(hold));
    let is_listed = says.hold.as_ref().is_none_or(is_listed);
    assert!(is_listed || says.promotion.is_some(), "{:?}", says.hold);
    format!("{next}{}", special.collect::<String>())
}

#[track_caller]
fn check(drawing: &str, expected: &str) {
    assert_eq!(answers(&draw(drawing)), expected);
}

#[test]
fn a_revision_that_passes_every_gate_starts() {
    check("dev[2.0.0 ok] > prod[1.0.0 ok]", "2.0.0");
    check("dev[2.0.0 ok] > prod[2.0.0 ok]", "nothing is asked");
}

/// The first question of a gate that is closed counts, also where another gate holds the environment.
#[test]
fn every_gate_that_is_closed_says_so() {
    check(
        "dev[2.0.0 broken] > prod{suspended}[1.0.0 ok]",
        "2.0.0, suspended wait Suspended, readiness wait SourceNotReady, soak unknown",
    );
}

#[test]
fn each_gate_waits_or_fails_for_its_own_reasons() {
    for (drawing, expected) in [
        (
            "dev[2.0.0 ok] > prod{no strategy}[1.0.0 ok]",
            "2.0.0, valid wait NoStrategy",
        ),
        (
            "dev[2.0.0 ok] > prod{suspended}[1.0.0 ok]",
            "2.0.0, suspended wait Suspended",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 missing]",
            "2.0.0, targets wait AppMissing",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 unreachable]",
            "2.0.0, targets wait TargetUnreachable",
        ),
        (
            "dev[2.0.0 broken] > prod[1.0.0 ok]",
            "2.0.0, readiness wait SourceNotReady, soak unknown",
        ),
        (
            "dev[2.0.0 ok, 3.0.0 ok] > prod[1.0.0 ok]",
            "3.0.0, readiness wait SourceTargetsDiffer, soak unknown",
        ),
        (
            "dev[2.0.0 ok 10m] > prod{soak 30m}[1.0.0 ok]",
            "2.0.0, soak wait Soaking",
        ),
        (
            "dev[2.0.0 ok] > prod[3.0.0 ok]",
            "2.0.0, order fail OlderThanRunning",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0",
            "2.0.0, order fail Rejected",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Failed",
            "2.0.0, order fail PromotionFailed",
        ),
        (
            "dev[a ok] > prod[b ok]\nran prod b a",
            "a, order fail AlreadyRan",
        ),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]",
            "2.0.0, approvals wait AwaitingApproval",
        ),
    ] {
        check(drawing, expected);
    }
}

#[test]
fn all_closed_gates_are_told_not_only_the_first() {
    check(
        "dev[2.0.0 ok 10m] > prod{soak 30m, manual, suspended}[3.0.0 unreachable]",
        "2.0.0, suspended wait Suspended, targets wait TargetUnreachable, soak wait Soaking, \
         order fail OlderThanRunning, approvals wait AwaitingApproval",
    );
    // Before a revision is known, what depends on it is not asked.
    check(
        "dev[- broken] > prod{suspended}[1.0.0 ok]",
        "-, suspended unknown, turn unknown, readiness wait SourceNotDeployed, \
         soak unknown, order unknown, signature unknown, freeze unknown, checks unknown, rollout unknown, approvals unknown",
    );
}

#[test]
fn a_request_passes_readiness_soak_and_order_and_says_so() {
    check(
        "dev[2.0.0 broken 10m] > prod{soak 30m, manual}[3.0.0 ok]\nrequest prod Promote 2.0.0 r1",
        "2.0.0, readiness skipped, verified requested, soak requested, order skipped, \
         approvals wait AwaitingApproval",
    );
    let world =
        draw("dev[2.0.0 broken] > prod{suspended}[3.0.0 ok]\nrequest prod Rollback 2.0.0 r1");
    let plan = world.plan();
    let gates = &plan.environments["prod"].gates;
    let order = gates.iter().find(|answer| answer.gate == "order").unwrap();
    assert_eq!(order.message().unwrap(), "passed by request of ada");
    assert!(plan.steps.is_empty(), "a request does not pass `suspended`");
}

#[test]
fn a_promotion_under_way_is_asked_again() {
    let under_way = |environments: &str, promotion: &str| {
        draw(&format!("{environments}\npromotion prod 2.0.0 {promotion}"))
    };
    for (environments, promotion, expected, then) in [
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]",
            "Running approved",
            "2.0.0",
            "Running",
        ),
        (
            "dev[2.0.0 ok] > prod{suspended}[1.0.0 ok]",
            "Running",
            "2.0.0, suspended wait Suspended",
            "Suspended",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 unreachable]",
            "Running",
            "2.0.0",
            "Running",
        ),
        (
            "dev[2.0.0 ok 1m] > prod{soak 30m}[1.0.0 ok]",
            "Running",
            "2.0.0",
            "Running",
        ),
        (
            "dev[2.0.0 broken failed 2.0.0] > prod[1.0.0 ok]",
            "Running",
            "2.0.0, readiness fail SourceFailed",
            "SourceFailed",
        ),
        (
            "dev[2.0.0 broken] > prod[1.0.0 ok]",
            "Running",
            "2.0.0",
            "Running",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 1.5.0 WaitingForMerge withdrawn",
            "Running",
            "2.0.0, turn wait WaitingForPredecessor",
            "WaitingForPredecessor",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0",
            "Running",
            "2.0.0, order fail Rejected",
            "Rejected",
        ),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]",
            "AwaitingApproval",
            "2.0.0, approvals wait AwaitingApproval",
            "AwaitingApproval",
        ),
    ] {
        let world = under_way(environments, promotion);
        assert_eq!(answers(&world), expected, "{environments}");
        let next = next_of(&world, "missing");
        assert_eq!(next.status.reason.as_deref(), Some(then), "{environments}");
    }
}

/// A source that fails at the revision stops its promotion; one that moves on does not.
#[test]
fn a_busy_source_does_not_starve_the_next_environment() {
    let drawing = "dev[3.0.0 ok 1m] > prod{soak 30m}[1.0.0 ok]\npromotion prod 2.0.0 Running";
    let mut world = draw(drawing);
    world.promotions[0].spec.verified_at = Some(ago("20m"));
    let reason = |world: &World| next_of(world, "missing").status.reason;
    assert_eq!(reason(&world).as_deref(), Some("Running"));

    let mut fails = |age: &str| {
        let status = world.pipeline.status.as_mut().unwrap();
        status.environments.get_mut("dev").unwrap().failures = vec![FailedRelease {
            revision: "2.0.0".to_owned(),
            at: Some(ago(age)),
            message: Some("crashes".to_owned()),
            ..FailedRelease::default()
        }];
        reason(&world)
    };
    assert_eq!(
        fails("40m").as_deref(),
        Some("Running"),
        "before it was verified"
    );
    assert_eq!(fails("10m").as_deref(), Some("SourceFailed"));
    world.promotions[0].spec.request = Some(Default::default());
    assert_eq!(
        reason(&world).as_deref(),
        Some("Running"),
        "a person requested it"
    );
}

#[test]
fn one_ready_target_is_enough_where_one_vouches() {
    for (when, expected) in [("any", "Running"), ("all", "SourceFailed")] {
        let world = draw(&format!(
            "dev[2.0.0 ok, 1.0.0 broken failed 2.0.0] > prod{{{when}}}[1.0.0 ok]
             promotion prod 2.0.0 Running"
        ));
        let next = next_of(&world, "missing");
        assert_eq!(next.status.reason.as_deref(), Some(expected), "{when}");
    }
}

#[test]
fn what_has_its_approvals_is_not_superseded_by_a_newer_candidate() {
    let check = |facts: &str, expected: &str| {
        let world = draw(&format!(
            "dev[3.0.0 ok] > prod{{manual}}[1.0.0 ok]\n{facts}"
        ));
        assert_eq!(show(&world, &world.plan()), expected, "{facts}");
    };
    check(
        "promotion prod 2.0.0 WaitingForMerge approved",
        "prod: ApprovedUnderWay: 3.0.0 waits for 2.0.0, which has its approvals and is in progress; \
         resolved by the end of promotion shop-prod-37755c7dc220, or a request",
    );
    check(
        "promotion prod 2.0.0 AwaitingApproval",
        "supersede prod 2.0.0\nstart prod 3.0.0 instead of 1.0.0, needs approval\n\
         prod: AwaitingApproval: 3.0.0 waits for approval to enter prod; resolved by an approval of 3.0.0",
    );
    check(
        "promotion prod 2.0.0 WaitingForMerge approved\nrequest prod Promote 3.0.0 r1",
        "supersede prod 2.0.0\nstart prod 3.0.0 instead of 1.0.0, needs approval\n\
         prod: AwaitingApproval: 3.0.0 waits for approval to enter prod; resolved by an approval of 3.0.0\n\
         prod request r1: waits for an approval of 3.0.0",
    );
    check(
        "promotion prod 2.0.0 WaitingForMerge approved\nrejected prod 2.0.0",
        "supersede prod 2.0.0\nstart prod 3.0.0 instead of 1.0.0, needs approval\n\
         prod: AwaitingApproval: 3.0.0 waits for approval to enter prod; resolved by an approval of 3.0.0\n\
         prod rejects 2.0.0",
    );
    check(
        "promotion prod 4.0.0 WaitingForMerge approved",
        "supersede prod 4.0.0\nstart prod 3.0.0 instead of 1.0.0, needs approval\n\
         prod: AwaitingApproval: 3.0.0 waits for approval to enter prod; resolved by an approval of 3.0.0",
    );
}

/// The status has what is closed, and planning again at the same time changes nothing.
#[test]
fn the_status_has_the_gates_that_are_closed() {
    let world = draw("dev[2.0.0 ok 10m] > prod{soak 30m, manual}[1.0.0 ok]");
    let status = planner::apply(&world.plan(), &world.model(), now());
    let gates = &status.environments["prod"].gates;
    let told: Vec<_> = gates
        .iter()
        .map(|gate| {
            (
                gate.gate.as_str(),
                gate.reason.as_str(),
                gate.opens_at.is_some(),
            )
        })
        .collect();
    let expected = [
        ("soak", "Soaking", true),
        ("approvals", "AwaitingApproval", false),
    ];
    assert_eq!(told, expected);
    let plan = planner::plan(&world.pipeline, &status, &world.promotions, now());
    assert_eq!(planner::apply(&plan, &status, now()), status);
}

/// What prod runs has been there for longer, and comes no more.
#[test]
fn the_hold_is_about_the_revision_that_comes() {
    let world = draw("dev[2.0.0 ok 10m, 1.0.0 ok 15m] > prod{any, soak 1h}[1.0.0 ok]");
    assert_eq!(answers(&world), "2.0.0, soak wait Soaking");
    let plan = world.plan();
    let prod = &plan.environments["prod"];
    let hold = prod.hold.clone().unwrap();
    let minutes = |at: Timestamp| (at - now()).total(jiff::Unit::Minute).unwrap();
    assert_eq!(
        (hold.sentence.as_str(), hold.opens_at.map(minutes)),
        (
            "2.0.0 has not been ready in dev for long enough",
            Some(50.0)
        )
    );
    // What is under way may end when the other one has soaked.
    assert_eq!(prod.requeue_at.map(minutes), Some(45.0));
}

/// What prod runs does not wait for anything: neither to soak in dev, nor for approvals.
#[test]
fn no_gate_waits_for_what_every_target_runs() {
    check_plan("dev[2.0.0 ok 5m] > prod{soak 30m}[2.0.0 ok]", "nothing");
    check_plan(
        "dev[2.0.0 ok 5m] > prod{soak 30m}[2.0.0 ok, 1.0.0 ok]",
        "prod: Soaking: 2.0.0 has not been ready in dev for long enough; resolved by waiting until 2027-01-15T08:25:00Z",
    );
    let world = draw("dev[2.0.0 broken] > prod{manual}[2.0.0 ok]");
    let prod = world.plan().environments["prod"].clone();
    assert!(prod.hold.is_some(), "{prod:?}");
    let waiting = prod.gates.iter().filter_map(|it| it.hold());
    let waiting: Vec<_> = waiting.map(|it| it.reason.gate()).collect();
    assert_eq!(waiting, ["readiness"]);
    assert_eq!(prod.next, None);
}

#[test]
fn requests_wait_while_the_environment_itself_is_held() {
    let all = HoldReason::ALL.iter();
    let holding = all.filter(|it| holds_requests(it.word()));
    let mut gates: Vec<_> = holding.map(|it| it.gate()).collect();
    gates.dedup();
    assert_eq!(gates, ["valid", "targets", "suspended"]);
    assert!(!holds_requests("of a later version"));
}
