//! A rollback that a person takes back rejects nothing: neither what runs nor what it would have gone back to.

use crate::{
    attempt::check as check_attempt,
    drawing::{draw, now},
    plan::check,
};

/// What a request for the rollback left in the status, before the rollback ended as the last line says.
const REQUESTED: &str = "dev[2.0.0 ok] > prod{manual}[2.0.0 ok]
     ran prod 2.0.0 1.0.0
     rejected prod 2.0.0
     promotion prod 1.0.0";

#[test]
fn a_rollback_that_is_taken_back_rejects_nothing() {
    for end in [
        "AwaitingApproval rejected-by ann",
        "Abandoned rejected-by ann",
        "Abandoned",
        "Withdrawn cancelled",
    ] {
        let drawing = format!("{REQUESTED} {end} asked r0 back instead 2.0.0");
        let world = draw(&drawing);
        let prod = &world.plan().environments["prod"];
        assert_eq!(prod.rejected, Vec::<String>::new(), "{end}");
        let model = planner::apply(&world.plan(), &world.model(), now());
        let earlier = planner::rollback_targets(&model, "prod");
        let earlier: Vec<_> = earlier.iter().map(|it| (it.revision, it.caution)).collect();
        assert_eq!(earlier, [("1.0.0", None)], "{end}");
    }
    // While it waits, what it leaves stays rejected.
    let waits = format!("{REQUESTED} AwaitingApproval asked r0 back instead 2.0.0");
    assert_eq!(draw(&waits).plan().environments["prod"].rejected, ["2.0.0"]);
}

#[test]
fn a_rollback_can_be_requested_again_after_it_was_rejected() {
    let rejected = format!("{REQUESTED} Abandoned rejected-by ann asked r0 back instead 2.0.0");
    check(
        &format!("{rejected}\nrequest prod Rollback 1.0.0 r1"),
        "start prod 1.0.0 #1 instead of 2.0.0, needs approval
         prod: AwaitingApproval: 1.0.0 waits for approval to enter prod; ada requested this rollback; resolved by an approval of 1.0.0
         prod rejects 2.0.0
         prod request r1: waits for an approval of 1.0.0",
    );
    // That one counts now.
    check(
        &format!("{rejected}\nhandled prod r1\npromotion prod 1.0.0 #1 Succeeded merged 5m asked r1 asker ada back instead 2.0.0")
            .replace("dev[2.0.0 ok] > prod{manual}[2.0.0 ok]", "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]"),
        "prod: Rejected: ada rolled prod back from 2.0.0 to 1.0.0; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0
         prod request r1: -",
    );
}

/// What the rollback was to replace is good again, and nothing else.
#[test]
fn what_other_rollbacks_rejected_stays_rejected() {
    let rejected = |targets: &str, rollback: &str| {
        let world = draw(&format!(
            "dev[2.0.0 ok] > prod{targets}
             ran prod 2.0.0 1.5.0 1.0.0
             rejected prod 2.0.0 1.5.0
             promotion prod 1.0.0 Abandoned rejected-by ann asked r0 back instead 2.0.0 {rollback}"
        ));
        world.plan().environments["prod"].rejected.clone()
    };
    assert_eq!(rejected("[2.0.0 ok]", ""), ["1.5.0"]);
    // Of a whole environment, whatever its targets run; of one target, only what that ran.
    assert_eq!(rejected("[2.0.0 ok, 1.5.0 ok]", ""), Vec::<String>::new());
    let per_target = "{per target}[2.0.0 ok, 1.5.0 ok]";
    assert_eq!(rejected(per_target, "at - prod-1"), ["1.5.0"]);
}

/// Nobody who approves it the second time is told that it was rejected.
#[test]
fn a_rollback_that_was_rejected_brings_no_caution() {
    let rejected = format!("{REQUESTED} Abandoned rejected-by ann asked r0 back instead 2.0.0");
    let world = draw(&format!(
        "{rejected}\nhandled prod r1\npromotion prod 1.0.0 #1 AwaitingApproval asked r1 asker ada back instead 2.0.0"
    ));
    let again = &world.promotions[1];
    let caution = planner::promotion_caution(again, &world.pipeline, &world.promotions);
    assert_eq!(caution, None);
}

#[test]
fn what_comes_next_goes_on_after_a_rollback_was_rejected() {
    let newer = REQUESTED.replace("dev[2.0.0 ok] > prod{manual}", "dev[3.0.0 ok] > prod");
    check(
        &format!("{newer} Abandoned rejected-by ann asked r0 back instead 2.0.0"),
        "start prod 3.0.0 instead of 2.0.0",
    );
}

/// A rollback that nobody requested goes back from what failed its checks: that is still not promoted again, and the
/// rollback is not derived again.
#[test]
fn what_failed_its_checks_stays_rejected() {
    let drawing = "dev[2.0.0 ok] > prod{verify smoke, back}[2.0.0 ok]
         checked prod 2.0.0 1.0.0
         rejected prod 2.0.0
         check prod smoke 2.0.0 Failed
         promotion prod 2.0.0 Failed because CheckFailed merged 9m
         promotion prod 1.0.0 Abandoned rejected-by ann cause x instead 2.0.0";
    check(drawing, "prod rejects 2.0.0");
    // Neither the rejected rollback nor a later request that is taken back changes that.
    check(
        &format!(
            "{drawing}\nran prod 2.0.0 1.0.0 0.9.0\npromotion prod 0.9.0 Abandoned rejected-by ann asked r0 back instead 2.0.0"
        ),
        "prod rejects 2.0.0",
    );
    // Where it runs no more, nobody claims that it was rolled back.
    let elsewhere = drawing.replace("back}[2.0.0 ok]", "back}[1.5.0 ok]");
    let elsewhere = elsewhere.replace("checked prod 2.0.0 1.0.0", "checked prod 1.0.0");
    let plan = draw(&format!("{elsewhere}\nfailed-check prod smoke 2.0.0")).plan();
    let hold = plan.environments["prod"].hold.clone().unwrap();
    assert_eq!(hold.sentence, "2.0.0 failed the check smoke in prod");
}

#[test]
fn of_two_sites_the_one_that_goes_back_keeps_it_rejected() {
    let drawing = "dev[2.0.0 ok] > prod{per target}[2.0.0 ok, 2.0.0 ok]
         ran prod 2.0.0 1.0.0
         rejected prod 2.0.0
         promotion prod 1.0.0 Abandoned rejected-by ann asked r0 back instead 2.0.0 at - prod-1
         promotion prod 1.0.0";
    let rejected = |end: &str| {
        let world = draw(&format!(
            "{drawing} {end} asked r0 back instead 2.0.0 at - prod-2"
        ));
        world.plan().environments["prod"].rejected.clone()
    };
    assert_eq!(rejected("WaitingForMerge"), ["2.0.0"]);
    assert_eq!(rejected("Succeeded merged 5m"), ["2.0.0"]);
    let nothing: [&str; 0] = [];
    assert_eq!(rejected("Abandoned rejected-by ann"), nothing);
}

/// What a merged rollback left stays rejected until it is merged again.
#[test]
fn what_a_merged_rollback_left_stays_rejected() {
    let rejected = |lines: &str| {
        let world = draw(&format!("dev[2.0.0 ok] > prod{lines}"));
        let model = planner::apply(&world.plan(), &world.model(), now());
        let next = planner::plan(&world.pipeline, &model, &world.promotions, now());
        next.environments["prod"].rejected.clone()
    };
    let back = "promotion prod 2.0.0 Succeeded merged 20m instead 1.0.0
         promotion prod 1.0.0 #1 Succeeded merged 10m asked r1 back instead 2.0.0";
    // A request to go to it again, taken up or taken back.
    for (end, expected) in [
        ("AwaitingApproval", &[][..]),
        ("AwaitingApproval rejected-by bob", &["2.0.0"]),
        ("Abandoned rejected-by bob", &["2.0.0"]),
        ("Withdrawn cancelled", &["2.0.0"]),
    ] {
        let drawing = format!(
            "{{manual}}[1.0.0 ok]\nran prod 1.0.0 2.0.0\n{back}
             promotion prod 2.0.0 #1 {end} asked r2 back instead 1.0.0"
        );
        assert_eq!(rejected(&drawing), expected, "{end}");
    }
    // It was merged while a person took it back: it was restored until that was seen.
    for late in ["rejected-by bob", "cancelled"] {
        let merged = format!("\nran prod 2.0.0 1.0.0\n{back} {late}");
        assert_eq!(rejected(&format!("[1.0.0 ok]{merged}")), ["2.0.0"]);
        let deploying = merged.replace("#1 Succeeded", "#1 Deploying");
        assert_eq!(rejected(&format!("[2.0.0 ok]{deploying}")), ["2.0.0"]);
        let again = "promotion prod 2.0.0 #1 WaitingForMerge asked r2 instead 1.0.0";
        let nothing: [&str; 0] = [];
        assert_eq!(rejected(&format!("[1.0.0 ok]{merged}\n{again}")), nothing);
    }
    // A target that cannot be read is recorded at it, and a second rollback is taken back.
    assert_eq!(
        rejected(&format!(
            "[1.0.0 ok, 2.0.0 unreachable]\nran prod 2.0.0 1.0.0 0.9.0\nrejected prod 2.0.0\n{back}
             promotion prod 0.9.0 Abandoned rejected-by bob asked r2 back instead 2.0.0"
        )),
        ["2.0.0"]
    );
}

/// Revisions without an order: what came there last is what to go back from.
#[test]
fn a_rollback_to_what_came_later_rejects_it() {
    let rejected = |targets: &str, ran: &str, lines: &str| {
        let world = draw(&format!(
            "dev[b ok] > prod[{targets}]\nran prod {ran}
             {lines}promotion prod b #1 Abandoned rejected-by ann asked r0 back instead a"
        ));
        world.plan().environments["prod"].rejected.clone()
    };
    let nothing: [&str; 0] = [];
    assert_eq!(rejected("a ok", "a b", ""), nothing);
    // Somebody deployed it to a target after the rollback was requested.
    assert_eq!(rejected("b ok, a ok", "b a", ""), ["b"]);
    // Somebody rolled back from it before.
    let left = "promotion prod b Succeeded instead a
         promotion prod a Succeeded merged 10m asked r1 back instead b\n";
    assert_eq!(rejected("a ok", "a b", left), ["b"]);
}

/// A cancellation rejects what it will have rejected once the promotion has ended.
#[test]
fn a_cancellation_rejects_what_it_rejects_later() {
    let rejected = |drawing: &str| {
        let prod = &draw(drawing).plan().environments["prod"];
        (!prod.last_request.as_ref().unwrap().refused).then(|| prod.rejected.clone())
    };
    // One target goes back: what it left stays rejected.
    let rollbacks = "dev[2.0.0 ok] > prod{per target}[2.0.0 ok, 1.0.0 ok]
         ran prod 1.0.0 2.0.0
         rejected prod 2.0.0
         promotion prod 1.0.0 WaitingForMerge asked r0 back instead 2.0.0 at - prod-1
         promotion prod 1.0.0";
    let cancel = "asked r0 back instead 2.0.0 at - prod-2\nrequest prod Cancel - r1";
    let stays = Some(vec!["2.0.0".to_owned()]);
    let merged = format!("{rollbacks} Succeeded merged 5m {cancel}");
    assert_eq!(rejected(&merged), stays);
    let both = format!("{rollbacks} WaitingForMerge {cancel}");
    assert_eq!(rejected(&both), Some(Vec::new()));
    // What every target runs is not rejected.
    assert_eq!(
        rejected(
            "dev[2.0.0 ok] > prod[2.0.0 broken]\npromotion prod 2.0.0 Running\nrequest prod Cancel - r1"
        ),
        Some(Vec::new())
    );
}

/// Nobody can go back to what never ran there.
#[test]
fn what_never_ran_is_rejected_whatever_the_request_is_called() {
    check(
        "dev[3.0.0 ok] > prod[2.0.0 ok]
         ran prod 2.0.0
         promotion prod 3.0.0 Abandoned rejected-by ann asked r0 back instead 2.0.0",
        "prod: Rejected: ann rejected 3.0.0 in prod: it loses orders; resolved by a newer revision or a request for 3.0.0
         prod rejects 3.0.0",
    );
}

#[test]
fn the_promotion_and_the_person_who_rejects_read_that_it_is_a_rollback() {
    let drawing =
        format!("{REQUESTED} AwaitingApproval rejected-by ann asked r0 back instead 2.0.0");
    let prod = drawing.strip_prefix("dev[2.0.0 ok] > ").unwrap();
    check_attempt(
        prod,
        "missing",
        "Abandoned/Rejected: ann rejected this rollback: it loses orders",
    );
    // The status of the pipeline says no more: nothing is to be resolved.
    let mut ended = draw(&drawing.replace("AwaitingApproval", "Abandoned because Rejected"));
    let status = ended.promotions[0].status.as_mut().unwrap();
    status.message = Some("ann rejected this rollback".to_owned());
    let summary = ended.plan().environments["prod"].promotion.clone();
    let message = summary.unwrap().message;
    assert_eq!(message.as_deref(), Some("ann rejected this rollback"));
    let effect = |drawing: &str| {
        let world = draw(drawing);
        planner::rejection_effect(&world.pipeline, &world.promotions[0])
    };
    assert_eq!(
        effect(&drawing),
        "prod stays as it is, and 1.0.0 can be requested again"
    );
    assert_eq!(
        effect("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval"),
        "2.0.0 is not promoted into prod again until somebody requests it"
    );
}
