//! What a person's request skips although it does not pass: the gate says so, and people who approve the promotion
//! read a caution.

use planner::GateVerdict;

use crate::drawing::{World, draw, now};

/// Staging checks what it runs; prod needs approvals.
const STAGES: &str =
    "staging{verify smoke}[1.0.0 ok] > prod{manual}[1.0.0 ok]\nfailed-check staging smoke 2.0.0";
const UNDER_WAY: &str = "promotion prod 2.0.0 AwaitingApproval asked r1 asker ann";

/// The gates of prod that a request skips although they do not pass, as the plan has them.
fn skipped(world: &World) -> Vec<String> {
    let plan = world.plan();
    let gates = &plan.environments["prod"].gates;
    let skipped = gates.iter().filter_map(|answer| {
        let skipped = answer.skipped()?;
        let (gate, state, hold) = (answer.gate, skipped.state(), &skipped.hold);
        Some(format!(
            "{gate}: {state}: {} [{}]",
            hold.sentence,
            hold.reason.word()
        ))
    });
    skipped.collect()
}

/// The caution in the status that prod gets.
fn caution(world: &World) -> Option<String> {
    let status = planner::apply(&world.plan(), &world.model(), now());
    status.environments["prod"].promotion.clone()?.caution
}

#[track_caller]
fn check(drawing: &str, expected: &[&str], expected_caution: Option<&str>) {
    let world = draw(drawing);
    assert_eq!(skipped(&world), expected, "{drawing}");
    assert_eq!(caution(&world).as_deref(), expected_caution, "{drawing}");
    for promotion in &world.promotions {
        let text = planner::promotion_caution(promotion, &world.pipeline, &world.promotions);
        let is_asked = promotion.spec.request.is_some();
        let expected = expected_caution.filter(|_| is_asked);
        assert_eq!(text.as_deref(), expected, "{drawing}");
    }
}

#[test]
fn a_failed_check_that_a_request_skips_is_a_caution() {
    let expected = "verified: failed, skipped by ann's request: 2.0.0 failed the check smoke in staging [VerificationFailed]";
    let text = "2.0.0 failed the check smoke in staging; ann's request skips that";
    check(&format!("{STAGES}\n{UNDER_WAY}"), &[expected], Some(text));
    // Before the promotion exists, while the check run is still there, and when the approvals are in.
    let by_ada = |text: &str| text.replace("ann", "ada");
    check(
        &format!("{STAGES}\nrequest prod Promote 2.0.0 r1"),
        &[&by_ada(expected)],
        Some(&by_ada(text)),
    );
    let runs = "staging{verify smoke}[2.0.0 ok] > prod{manual}[1.0.0 ok]\ncheck staging smoke 2.0.0 Failed";
    check(&format!("{runs}\n{UNDER_WAY}"), &[expected], Some(text));
    let approved = UNDER_WAY.replace("AwaitingApproval", "WaitingForMerge approved");
    check(&format!("{STAGES}\n{approved}"), &[expected], Some(text));
    // What passed since, and what nobody requested, needs none.
    let passed = "staging{verify smoke}[2.0.0 ok] > prod{manual}[1.0.0 ok]\ncheck staging smoke 2.0.0 Passed";
    check(&format!("{passed}\n{UNDER_WAY}"), &[], None);
    check(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
        &[],
        None,
    );
}

#[test]
fn what_failed_to_deploy_or_was_rejected_is_a_caution() {
    for (facts, gate, sentence, reason) in [
        (
            "dev[1.0.0 broken failed 2.0.0] > prod{manual}[1.0.0 ok]",
            "readiness",
            "2.0.0 failed to deploy in dev",
            "SourceFailed",
        ),
        (
            "dev[1.0.0 ok] > prod{manual}[1.0.0 ok]\nfails dev 2.0.0 1h",
            "readiness",
            "2.0.0 failed to deploy in dev",
            "SourceFailed",
        ),
        (
            "dev[1.0.0 ok] > prod{manual}[1.0.0 ok]\nrejected dev 2.0.0",
            "readiness",
            "2.0.0 was rolled back or rejected in dev",
            "SourceFailed",
        ),
        // That another revision failed a check says nothing.
        (
            "dev{verify smoke}[1.0.0 ok] > prod{manual}[1.0.0 ok]\nrejected dev 2.0.0\nchecked dev 2.0.0\nfailed-check dev smoke 1.9.0",
            "readiness",
            "2.0.0 was rolled back or rejected in dev",
            "SourceFailed",
        ),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\nfails prod 2.0.0 1h",
            "order",
            "2.0.0 failed in prod before",
            "PromotionFailed",
        ),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 Failed",
            "order",
            "2.0.0 failed in prod before",
            "PromotionFailed",
        ),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 Withdrawn cancelled",
            "order",
            "2.0.0 was cancelled in prod by ada",
            "Rejected",
        ),
        // Also if another revision has succeeded since.
        (
            "dev[2.0.0 ok] > prod{manual}[1.5.0 ok]\npromotion prod 2.0.0 Withdrawn cancelled\npromotion prod 1.5.0 Succeeded merged 5m",
            "order",
            "2.0.0 was cancelled in prod by ada",
            "Rejected",
        ),
    ] {
        let hold = format!("{gate}: failed, skipped by ann's request: {sentence} [{reason}]");
        let text = format!("{sentence}; ann's request skips that");
        let under_way = UNDER_WAY.replace("2.0.0", "2.0.0 #1");
        check(&format!("{facts}\n{under_way}"), &[&hold], Some(&text));
    }
}

/// What one target skips is told although another one skips nothing; of two, the first is told.
#[test]
fn what_any_target_skips_is_told() {
    let order = |c1: &str, c2: &str| {
        let world = draw(&format!(
            "dev[2.0.0 ok] > prod{{per target, manual}}[{c1} ok on c1, {c2} ok on c2]\n\
             request prod Promote 2.0.0 r1"
        ));
        let told = skipped(&world).join(", ");
        let told = told.strip_prefix("order: not passed, skipped by ada's request: ");
        told.unwrap_or("nothing").to_owned()
    };
    let newer = "prod runs 3.0.0, which is newer than 2.0.0 [OlderThanRunning]";
    assert_eq!(order("1.0.0", "1.0.0"), "nothing");
    assert_eq!(order("1.0.0", "3.0.0"), newer);
    assert_eq!(order("3.0.0", "1.0.0"), newer);
    assert_eq!(order("3.0.0", "4.0.0"), newer);
}

/// Of several source environments, the one where it failed is told of.
#[test]
fn a_failed_check_is_told_before_an_open_one() {
    let sources = "eu{verify smoke}[2.0.0 ok] > us{after, verify smoke}[2.0.0 ok] > prod{after eu us, manual}[1.0.0 ok]
         check eu smoke 2.0.0 Running
         check us smoke 2.0.0 Failed";
    check(
        &format!("{sources}\n{UNDER_WAY}"),
        &[
            "verified: failed, skipped by ann's request: 2.0.0 failed the check smoke in us [VerificationFailed]",
        ],
        Some("2.0.0 failed the check smoke in us; ann's request skips that"),
    );
}

#[test]
fn what_a_request_need_not_wait_for_is_told_without_a_caution() {
    let waits = "not passed, skipped by ann's request";
    check(
        &format!("dev[2.0.0 ok 10m] > prod{{soak 30m, manual}}[3.0.0 ok]\n{UNDER_WAY}"),
        &[
            &format!("soak: {waits}: 2.0.0 has not been ready in dev for long enough [Soaking]"),
            &format!(
                "order: {waits}: prod runs 3.0.0, which is newer than 2.0.0 [OlderThanRunning]"
            ),
        ],
        None,
    );
    check(
        &format!("dev{{verify smoke}}[2.0.0 broken] > prod{{manual}}[1.0.0 ok]\n{UNDER_WAY}"),
        &[
            &format!("readiness: {waits}: dev is not ready at 2.0.0 [SourceNotReady]"),
            &format!(
                "verified: {waits}: 2.0.0 has not passed the checks of dev: smoke has not started [Verifying]"
            ),
        ],
        None,
    );
    // One ready target is enough, if the pipeline says so.
    for targets in ["2.0.0 ok, 2.0.0 broken", "2.0.0 ok, 2.0.0 ok 1m"] {
        let any = format!("dev[{targets}] > prod{{any, soak 30m, manual}}[1.0.0 ok]");
        check(&format!("{any}\n{UNDER_WAY}"), &[], None);
    }
    check(
        &format!("dev[2.0.0 broken] > prod{{any, manual}}[1.0.0 ok]\n{UNDER_WAY}"),
        &[&format!(
            "readiness: {waits}: dev is not ready at 2.0.0 [SourceNotReady]"
        )],
        None,
    );
    check(
        &format!("dev[2.0.0 ok 10m] > prod{{any, soak 30m, manual}}[1.0.0 ok]\n{UNDER_WAY}"),
        &[&format!(
            "soak: {waits}: 2.0.0 has not been ready in dev for long enough [Soaking]"
        )],
        None,
    );
    // It fails on another target, but one that is ready vouches for it.
    let elsewhere = "dev[2.0.0 ok, 1.0.0 broken failed 2.0.0] > prod{any, manual}[1.0.0 ok]";
    check(&format!("{elsewhere}\n{UNDER_WAY}"), &[], None);
    // What this very promotion failed at.
    check(
        &format!("dev[2.0.0 ok] > prod{{manual}}[1.0.0 ok]\nfails prod 2.0.0 5m\n{UNDER_WAY}"),
        &[],
        None,
    );
    // That its strategy was edited says nothing about a revision.
    check(
        &format!(
            "dev[2.0.0 ok] > prod{{manual}}[1.0.0 ok]\npromotion prod 2.0.0 Failed because StrategyChanged\n{}",
            UNDER_WAY.replace("2.0.0", "2.0.0 #1")
        ),
        &[],
        None,
    );
    // A rollback goes back by intent, to what may have been checked long ago.
    check(
        &format!("dev{{verify smoke}}[3.0.0 ok] > prod{{manual}}[3.0.0 ok]\n{UNDER_WAY} back"),
        &[],
        None,
    );
    check(
        &format!("{STAGES}\n{UNDER_WAY} back"),
        &[
            "verified: failed, skipped by ann's request: 2.0.0 failed the check smoke in staging [VerificationFailed]",
        ],
        Some("2.0.0 failed the check smoke in staging; ann's request skips that"),
    );
}

#[test]
fn programs_and_people_read_what_is_skipped() {
    let world = draw(&format!("{STAGES}\n{UNDER_WAY}"));
    let plan = world.plan();
    let gates = &plan.environments["prod"].gates;
    let verified = gates.iter().find(|it| it.gate == "verified").unwrap();
    let document = verified.document();
    assert_eq!(document["verdict"], "skipped");
    assert_eq!(document["reason"], "VerificationFailed");
    assert_eq!(document["skippedBy"], "ann");
    let message = "2.0.0 failed the check smoke in staging; ann's request skips that";
    assert_eq!(document["message"], message);
    assert!(verified.hold().is_none(), "it keeps nothing out");
    let text = planner::explain(&world.pipeline, &world.model(), &plan);
    for line in [
        "  promotion of 2.0.0: AwaitingApproval",
        "  caution: 2.0.0 failed the check smoke in staging; ann's request skips that",
        "  gates for 2.0.0: 8 of 13 pass; waiting: approvals; passed by request: readiness, soak, order; \
         skipped by request: verified (2.0.0 failed the check smoke in staging)",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let diff = planner::promotion_diff(&world.pipeline, "prod", &world.promotions);
    assert_eq!(diff[0].caution.as_deref(), Some(message));
}

/// Whatever its phase, the gates that a promotion skipped are known.
#[test]
fn skipped_gates_are_known_once_the_change_is_in_git() {
    for phase in [
        "AwaitingApproval",
        "WaitingForMerge approved",
        "Deploying merged 1m",
    ] {
        let promotion = UNDER_WAY.replace("AwaitingApproval", phase);
        let world = draw(&format!("{STAGES}\n{promotion}"));
        let gates = planner::skipped_gates(
            &world.promotions[0],
            &world.pipeline,
            &world.promotions,
            now(),
        );
        let names: Vec<_> = gates.iter().map(|it| it.gate).collect();
        assert_eq!(names, ["readiness", "verified", "soak", "order"], "{phase}");
        let words = gates.iter().map(|it| it.verdict.word());
        let words: Vec<_> = words.collect();
        assert_eq!(
            words,
            ["requested", "skipped", "requested", "requested"],
            "{phase}"
        );
        assert!(matches!(gates[1].verdict, GateVerdict::Skipped(_)));
    }
}
