//! What goes on, starts again or waits beside other promotions and requests.

use api::pipeline::RequestKind;
use planner::Step;

use crate::{
    drawing::{World, ago, draw},
    plan::check,
    show::show,
};

#[test]
fn checks_of_the_source_hold_nothing_that_a_person_brings() {
    let dev = "dev{verify smoke}[2.0.0 ok] > prod[1.0.0 ok]\ncheck dev smoke 2.0.0 Running";
    check(
        &format!("{dev}\npromotion prod 2.0.0 Deploying merged 1m asked r0"),
        "nothing",
    );
    check(
        &format!("{dev}\npromotion prod 1.5.0 Deploying merged 1m"),
        "prod: Verifying: 2.0.0 has not passed the checks of dev: smoke is running; \
         resolved by those checks, once they pass",
    );
}

#[test]
fn a_check_before_the_environment_says_nothing_about_what_is_in_git() {
    check(
        "dev[2.0.0 ok] > prod{checks smoke}[1.0.0 ok]
         promotion prod 2.0.0 Deploying merged 1m
         check prod smoke 2.0.0 Failed before",
        "nothing",
    );
}

#[test]
fn where_nothing_is_promoted_a_failed_check_says_why_nothing_is_rolled_back() {
    check(
        "dev{verify smoke, back}[2.0.0 ok] > prod[2.0.0 ok]\nwithout promotion\ncheck dev smoke 2.0.0 Failed",
        "dev: RollbackNotPossible: 2.0.0 failed its checks in dev and is not rolled back: no promotion brought it; \
         resolved by a newer revision, a request for another one, or a retry of the checks of dev",
    );
}

#[test]
fn a_newer_revision_goes_on_where_nothing_can_be_rolled_back() {
    let prod = "prod{verify smoke, back}[2.0.0 ok]\ncheck prod smoke 2.0.0 Failed";
    let planned = |dev: &str| {
        let world = draw(&format!("dev[{dev}] > {prod}"));
        show(&world, &world.plan())
    };
    assert_eq!(planned("3.0.0 ok"), "start prod 3.0.0 instead of 2.0.0");
    let broken = planned("3.0.0 broken");
    assert!(broken.starts_with("prod: SourceNotReady"), "{broken}");
    let stays = planned("2.0.0 ok");
    assert!(stays.starts_with("prod: RollbackNotPossible"), "{stays}");
}

/// It is rejected once every site that runs it has its rollback.
#[test]
fn a_site_that_cannot_be_rolled_back_yet_is_rolled_back_later() {
    let world = draw(
        "dev[2.0.0 ok] > prod{per target, verify smoke, back}[2.0.0 ok on c1, 2.0.0 unreachable on c2]
         checked prod 2.0.0 1.0.0
         check prod smoke 2.0.0 Failed
         promotion prod 2.0.0 Verifying merged 9m at c1 prod-1
         promotion prod 2.0.0 Verifying merged 9m at c2 prod-2",
    );
    assert_eq!(
        show(&world, &world.plan()),
        "start prod/c1/prod-1 1.0.0 instead of 2.0.0\n\
         prod: TargetUnreachable: prod target c2/prod-2: no answer; \
         resolved by making the target readable again"
    );
}

fn starts(world: &World) -> Vec<api::promotion::PromotionSpec> {
    let steps = world.plan().steps;
    let starts = steps.iter().filter_map(|step| match step {
        Step::StartPromotion(promotion) => Some(promotion.spec.clone()),
        _ => None,
    });
    starts.collect()
}

/// A promotion that a person requested, and that was superseded by one that was never created; `others` are
/// further promotions into the site and when they were created.
fn without_successor(others: &[(&str, &str)]) -> World {
    let mut drawing = "dev[2.0.0 ok] > prod[1.0.0 ok]\nhandled prod r1\n\
         promotion prod 1.5.0 WaitingForMerge superseded asked r1 asker ann back"
        .to_owned();
    for (revision, _) in others {
        drawing += &format!("\npromotion prod {revision} Succeeded");
    }
    let mut world = draw(&drawing);
    let ages = ["1h"].into_iter().chain(others.iter().map(|it| it.1));
    for (promotion, age) in world.promotions.iter_mut().zip(ages) {
        promotion.metadata.creation_timestamp = Some(ago(age));
    }
    let site = api::names::PromotionSite::environment("prod");
    let name = api::names::promotion_name("shop", &site, "1.5.0", 1);
    let withdrawn = world.promotions[0].spec.withdrawn.as_mut().unwrap();
    withdrawn.reason = planner::superseded_by(&name);
    world
}

#[test]
fn a_request_that_starts_again_is_still_that_request() {
    let started = starts(&without_successor(&[]));
    let request = started[0].request.clone().unwrap();
    assert_eq!(request.id, "r1");
    assert_eq!(request.by.as_deref(), Some("ann"));
    assert_eq!(request.kind, RequestKind::Rollback);
}

#[test]
fn a_request_starts_again_only_if_nothing_came_after_it() {
    for (others, expected) in [
        (&[("1.0.0", "2h")][..], true),
        (&[("1.0.0", "30m")], false),
        (&[("1.0.0", "1h")], false),
        (&[("1.0.0", "2h"), ("1.6.0", "30m")], false),
    ] {
        let started = starts(&without_successor(others));
        let again = started.iter().any(|it| it.revision == "1.5.0");
        assert_eq!(again, expected, "{others:?}");
    }
}

#[test]
fn a_request_whose_promotion_failed_is_not_carried_out_twice() {
    let prod = "dev[1.0.0 ok] > prod[1.0.0 ok]\nrequest prod Promote 2.0.0 r1 unseen";
    for (failed, expected) in [("DeployFailed", 0), ("StrategyChanged", 1)] {
        let drawing = format!("{prod}\npromotion prod 2.0.0 Failed because {failed} asked r1");
        assert_eq!(starts(&draw(&drawing)).len(), expected, "{failed}");
    }
    let succeeded =
        format!("{prod}\npromotion prod 2.0.0 Succeeded because StrategyChanged asked r1");
    assert_eq!(starts(&draw(&succeeded)).len(), 0);
}

#[test]
fn a_rollback_that_is_retried_is_still_a_rollback() {
    let world = draw(
        "dev[3.0.0 ok] > prod[3.0.0 ok]
         ran prod 3.0.0 2.0.0
         promotion prod 2.0.0 Failed because DeployFailed asked r0 back instead 3.0.0
         request prod Retry - r1",
    );
    let request = starts(&world)[0].request.clone().unwrap();
    assert_eq!(
        (request.id.as_str(), request.kind),
        ("r1", RequestKind::Rollback)
    );
    assert_eq!(world.plan().environments["prod"].rejected, ["3.0.0"]);
}

#[test]
fn the_promotion_under_way_is_shown() {
    for (drawing, expected) in [
        (
            "promotion prod 2.0.0 Deploying merged 1m\npromotion prod 3.0.0 Withdrawn withdrawn",
            "2.0.0",
        ),
        (
            "promotion prod 2.0.0 Verifying merged 1m\npromotion prod 3.0.0 Withdrawn withdrawn",
            "2.0.0",
        ),
        (
            "promotion prod 2.0.0 Succeeded merged 1m\npromotion prod 3.0.0 Withdrawn withdrawn",
            "3.0.0",
        ),
    ] {
        let world = draw(&format!(
            "dev[2.0.0 ok] > prod{{suspended}}[1.0.0 ok]\n{drawing}"
        ));
        let shown = world.plan().environments["prod"].promotion.clone().unwrap();
        assert_eq!(shown.revision, expected, "{drawing}");
    }
}

#[test]
fn each_revision_counts_by_its_own_last_promotion() {
    let rejected = |lines: &str| {
        let world = draw(&format!("dev[1.0.0 ok] > prod[1.0.0 ok]\n{lines}"));
        world.plan().environments["prod"].rejected.clone()
    };
    assert_eq!(
        rejected("promotion prod 2.0.0 Abandoned\npromotion prod 3.0.0 #1 Succeeded merged 1m"),
        ["2.0.0"]
    );
}

#[test]
fn who_cancels_says_why() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge\nrequest prod Cancel - r1",
    );
    for (note, expected) in [
        (Some("not yet"), "Cancelled by ada: not yet"),
        (Some(""), "Cancelled by ada"),
        (None, "Cancelled by ada"),
    ] {
        let model = world.pipeline.status.as_mut().unwrap();
        model.requests.get_mut("prod").unwrap().note = note.map(str::to_owned);
        let steps = world.plan().steps;
        let [Step::WithdrawPromotion { reason, .. }] = &steps[..] else {
            panic!("it is withdrawn: {steps:?}");
        };
        assert_eq!(reason, expected);
    }
}

#[test]
fn a_target_on_a_cluster_of_the_same_namespace_is_the_same_site() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{per target}[1.0.0 ok on c1]\npromotion prod 2.0.0 WaitingForMerge at c1 prod",
    );
    let home = Some("default".to_owned());
    let target = world.promotions[0].spec.target.as_mut().unwrap();
    target.cluster_namespace = home.clone();
    let status = world.pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    let app = prod.targets[0].cluster_app_ref.as_mut().unwrap();
    app.cluster_ref.as_mut().unwrap().namespace = home;
    assert_eq!(show(&world, &world.plan()), "nothing");
}

#[test]
fn a_cluster_that_is_named_is_no_match_of_a_selector() {
    let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok on c1, selector]");
    let targets = &mut world.pipeline.spec.environments[1].targets;
    targets[1].namespace = targets[0].namespace.clone();
    let hold = world.plan().environments["prod"].hold.clone().unwrap();
    assert_eq!(hold.reason.word(), "NoTargetsMatch", "{}", hold.message());
}

/// A request is taken up although a gate fails its promotion since.
#[test]
fn a_request_is_answered_although_its_promotion_is_held() {
    let world = draw(
        "dev[2.0.0 ok] > prod{checks smoke}[1.0.0 ok]
         request prod Promote 2.0.0 r1
         promotion prod 2.0.0 Running asked r1
         check prod smoke 2.0.0 Failed before",
    );
    let shown = show(&world, &world.plan());
    assert!(shown.contains("prod request r1: "), "{shown}");
}

/// Once people see its pull request, approvals matter only where Sluice merges it.
#[test]
fn a_policy_that_was_edited_later_replaces_what_would_be_merged_without_people() {
    let planned = |settings: &str| {
        let mut world = draw(&format!(
            "dev[2.0.0 ok] > prod{{{settings}}}[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge"
        ));
        world.promotions[0].spec.needs_approval = false;
        show(&world, &world.plan())
    };
    assert!(
        !planned("manual").contains("start"),
        "{}",
        planned("manual")
    );
    let automatic = planned("manual, merged by the forge");
    assert!(automatic.contains("supersede prod 2.0.0"), "{automatic}");
}

#[test]
fn a_rollback_rejects_what_it_leaves_and_nothing_else() {
    let rejected = |prod: &str, lines: &str| {
        let world = draw(&format!(
            "dev[2.0.0 ok] > prod[{prod} ok]\nran prod 2.0.0 1.0.0\nrequest prod Rollback 1.0.0 r1\n{lines}"
        ));
        world.plan().environments["prod"].rejected.join(" ")
    };
    // The process ended before the status said so.
    let own = "promotion prod 1.0.0 #1 Deploying merged 1m asked r1 back instead 2.0.0";
    let earlier = "promotion prod 1.0.0 Succeeded merged 9h asked r0 instead 0.9.0";
    assert_eq!(rejected("1.0.0", own), "2.0.0");
    assert_eq!(rejected("1.0.0", &format!("{earlier}\n{own}")), "2.0.0");
    // What is on its way is replaced; it did not come.
    assert_eq!(
        rejected("2.0.0", "promotion prod 3.0.0 WaitingForMerge"),
        "2.0.0"
    );
    assert_eq!(
        rejected("1.0.0", "promotion prod 3.0.0 WaitingForMerge"),
        "3.0.0"
    );
    assert_eq!(
        rejected("1.0.0", "promotion prod 3.0.0 Succeeded merged 9h"),
        ""
    );
}

#[test]
fn what_is_proposed_says_itself_what_it_waits_for() {
    let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge");
    let freeze = api::pipeline::CoveringFreeze {
        name: "stop".to_owned(),
        environments: vec!["prod".to_owned()],
        ..Default::default()
    };
    world.pipeline.status.as_mut().unwrap().freezes = vec![freeze];
    assert_eq!(world.plan().environments["prod"].hold, None);
    world.promotions[0].status.as_mut().unwrap().phase = Some(api::promotion::Phase::Running);
    let hold = world.plan().environments["prod"].hold.clone().unwrap();
    assert_eq!(hold.reason.word(), "Frozen");
}

/// What failed its checks ends so, and what was to follow it makes way.
#[test]
fn a_derived_rollback_supersedes_what_is_on_its_way() {
    let world = draw(
        "dev[3.0.0 ok] > prod{verify smoke, back}[2.0.0 ok]
         checked prod 1.0.0
         check prod smoke 2.0.0 Failed
         promotion prod 2.0.0 Verifying merged 9m
         promotion prod 3.0.0 Running",
    );
    let shown = show(&world, &world.plan());
    let steps: Vec<_> = shown.lines().take(2).collect();
    assert_eq!(
        steps,
        ["supersede prod 3.0.0", "start prod 1.0.0 instead of 2.0.0"],
        "{shown}"
    );
}

/// What is in git is followed until its successor takes over, wherever its strategy led.
#[test]
fn what_is_in_git_is_superseded_whatever_its_strategy_was() {
    for (phase, expected) in [
        ("Deploying merged 1m", "supersede prod 2.0.0"),
        ("Verifying merged 1m", "supersede prod 2.0.0"),
        ("WaitingForMerge", "withdraw prod 2.0.0: StrategyChanged"),
    ] {
        let mut world = draw(&format!(
            "dev[3.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 {phase}"
        ));
        let to = world.promotions[0]
            .spec
            .strategy
            .pull_request
            .as_mut()
            .unwrap();
        to.url = "https://example.com/elsewhere.git".to_owned();
        let shown = show(&world, &world.plan());
        assert_eq!(shown.lines().next(), Some(expected), "{shown}");
    }
}
