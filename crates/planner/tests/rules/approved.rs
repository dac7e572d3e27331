//! What people read who approve what is approved already.

use api::{freeze::FreezeTimes, pipeline::CoveringFreeze};

use crate::drawing::{draw, now};

#[track_caller]
fn check(promotion: &str, revision: Option<&str>, is_frozen: bool, expected: &str) {
    let drawing = "dev[2.0.0 ok] > prod{policy 1}[1.0.0 ok]\npromotion prod 2.0.0";
    let mut world = draw(&format!("{drawing} {promotion}"));
    let freeze = CoveringFreeze {
        name: "weekend".to_owned(),
        environments: vec!["prod".to_owned()],
        times: FreezeTimes::default(),
        ..CoveringFreeze::default()
    };
    world.pipeline.status.as_mut().unwrap().freezes =
        is_frozen.then_some(freeze).into_iter().collect();
    let (pipeline, promotions) = (&world.pipeline, &world.promotions);
    let found = planner::approved_promotion(promotions, pipeline, "prod", revision, now());
    let text = found.map(|it| planner::approved_already(it, pipeline, now()));
    assert_eq!(
        text.as_deref().unwrap_or("nothing"),
        expected,
        "{promotion}"
    );
}

#[test]
fn who_approved_and_what_it_waits_for() {
    let approved = "2.0.0 is approved for prod already, by ann";
    let frozen = format!("{approved}; prod is frozen by weekend: it waits for that to end");
    check("Running by ann~1m", None, true, &frozen);
    check("AwaitingApproval by ann", None, true, &frozen);
    check("AwaitingApproval by ann", Some("2.0.0"), false, approved);
    check(
        "WaitingForMerge by ann~1m",
        None,
        false,
        &format!("{approved}; its pull request waits to be merged"),
    );
}

#[test]
fn nothing_else_is_approved_already() {
    for promotion in [
        "AwaitingApproval",
        "Running by ann~1m rejected-by bob",
        "Running by ann~1m withdrawn",
        "Deploying by ann~1m merged 1m",
        "Succeeded by ann~1m",
    ] {
        check(promotion, None, true, "nothing");
    }
    check("Running by ann~1m", Some("3.0.0"), true, "nothing");
}

/// What people read who approve a promotion of prod once more, whose status has this message.
fn told(promotion: &str, message: &str) -> String {
    let drawing = "dev[2.0.0 ok] > prod{policy 1 expires:30m}[1.0.0 ok]\npromotion prod 2.0.0";
    let mut world = draw(&format!("{drawing} {promotion}"));
    let status = world.promotions[0].status.as_mut().unwrap();
    status.message = Some(message.to_owned());
    planner::approved_already(&world.promotions[0], &world.pipeline, now())
}

#[test]
fn the_message_of_a_promotion_under_way_says_what_it_waits_for() {
    let approved = "2.0.0 is approved for prod already, by ann";
    let running = "Running by ann~1m";
    assert_eq!(told(running, "it soaks"), format!("{approved}; it soaks"));
    assert_eq!(told(running, ""), approved);
    // What an approval resolves is said until the controller has recorded it.
    assert_eq!(
        told("AwaitingApproval by ann~1m", "it needs an approval"),
        approved
    );
    assert_eq!(
        told("AwaitingApproval by ann", "it needs an approval"),
        approved
    );
    // One that does not count is not named.
    let expired = "AwaitingApproval by ann~1m by bob~31m";
    assert_eq!(told(expired, ""), approved);
}

#[test]
fn a_promotion_of_another_pipeline_or_environment_is_not_approved_here() {
    let world = draw(
        "dev[2.0.0 ok] > qa{policy 1}[1.0.0 ok] > prod{policy 1}[1.0.0 ok]
         promotion prod 2.0.0 Running by ann~1m",
    );
    let find = |environment: &str| {
        let (pipeline, promotions) = (&world.pipeline, &world.promotions);
        planner::approved_promotion(promotions, pipeline, environment, None, now()).is_some()
    };
    assert!(find("prod") && !find("qa"));
    let mut bakery = world.pipeline.clone();
    bakery.metadata.name = Some("bakery".to_owned());
    let found = planner::approved_promotion(&world.promotions, &bakery, "prod", None, now());
    assert_eq!(found, None);
}
