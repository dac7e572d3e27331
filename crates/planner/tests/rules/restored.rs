//! A hub that is restored without any status: promotions tell what ran and what is not proposed again.

use api::promotion::Phase;
use planner::{ExternalAction, Plan, PullRequestLookup, pull_request_lookup};

use crate::drawing::{World, draw, now};

/// The drawing after its hub was restored and its pipeline was reconciled.
fn restored(drawing: &str) -> (World, Plan) {
    let mut world = draw(drawing);
    let mut observed = world.model();
    for environment in observed.environments.values_mut() {
        (environment.rejected, environment.ran) = (Vec::new(), Vec::new());
    }
    world.pipeline.status = None;
    world.promotions.iter_mut().for_each(|it| it.status = None);
    let model = planner::rebuild(&world.pipeline, observed, &world.promotions, now());
    let plan = planner::plan(&world.pipeline, &model, &world.promotions, now());
    world.pipeline.status = Some(planner::apply(&plan, &model, now()));
    (world, plan)
}

fn rejected(drawing: &str) -> Vec<String> {
    let (_, plan) = restored(drawing);
    plan.environments["prod"].rejected.clone()
}

#[test]
fn what_ended_is_not_proposed_again() {
    let rolled_back = "dev[2.0.0 ok] > prod[1.0.0 ok]
         promotion prod 2.0.0 Succeeded instead 1.0.0
         promotion prod 1.0.0 Succeeded asked r1 back instead 2.0.0";
    assert_eq!(rejected(rolled_back), ["2.0.0"]);
    let (world, plan) = restored(rolled_back);
    let starts = |plan: &Plan| format!("{:?}", plan.steps).contains("StartPromotion");
    assert!(!starts(&plan), "{:?}", plan.steps);
    let ran = world.model().environments["prod"].ran.clone();
    let ran: Vec<_> = ran.iter().map(|it| it.revision.as_str()).collect();
    assert_eq!(ran, ["2.0.0", "1.0.0"]);
    for (drawing, expected) in [
        // Its pull request may have been closed.
        (
            "promotion prod 2.0.0 Abandoned\npromotion prod 1.0.0 Succeeded asked r1",
            &["2.0.0"][..],
        ),
        // It was promoted again after the rollback, and may be under way.
        (
            "promotion prod 2.0.0 Succeeded\npromotion prod 1.0.0 Succeeded asked r1 back instead 2.0.0
             promotion prod 2.0.0 #1 WaitingForMerge asked r2",
            &[],
        ),
        // A rollback that was taken back leaves nothing.
        (
            "promotion prod 1.0.0 asked r1 back instead 2.0.0 cancelled",
            &[],
        ),
        (
            "promotion prod 1.0.0 asked r1 back instead 2.0.0 rejected-by ann",
            &[],
        ),
        ("promotion prod 2.0.0 WaitingForMerge instead 1.0.0", &[]),
        // What is older is not proposed anyway.
        (
            "promotion prod 0.9.0 Succeeded\npromotion prod 1.0.0 Succeeded instead 0.9.0",
            &[],
        ),
    ] {
        let drawing = format!("dev[2.0.0 ok] > prod[1.0.0 ok]\n{drawing}");
        assert_eq!(rejected(&drawing), expected, "{drawing}");
    }
}

/// Also if no promotion of that revision is left, and whatever runs now is known.
#[test]
fn what_a_rollback_left_is_not_proposed_again() {
    let drawing = |prod: &str, lines: &str| format!("dev[2.0.0 ok] > prod[{prod}]\n{lines}");
    let back = "promotion prod 1.0.0 Succeeded asked r1 back instead 2.0.0";
    assert_eq!(rejected(&drawing("1.0.0 ok", back)), ["2.0.0"]);
    let none: [&str; 0] = [];
    let newer = "promotion prod 3.0.0 Abandoned\npromotion prod 2.0.0 Succeeded";
    assert_eq!(rejected(&drawing("- broken", newer)), ["3.0.0"]);
    let older = "promotion prod 1.0.0 Succeeded\npromotion prod 2.0.0 Succeeded";
    assert_eq!(rejected(&drawing("- broken", older)), none);
}

#[test]
fn what_ran_is_known_once() {
    let (world, _) = restored(
        "dev[3.0.0 ok] > prod[3.0.0 ok]
         promotion prod 2.0.0 Abandoned instead 1.0.0
         promotion prod 3.0.0 Succeeded instead 1.0.0",
    );
    let ran = world.model().environments["prod"].ran.clone();
    let ran: Vec<_> = ran.iter().map(|it| it.revision.as_str()).collect();
    assert_eq!(ran, ["1.0.0"]);
}

/// Nobody knows which targets of a rollout were started.
#[test]
fn a_rollout_is_not_begun_again() {
    let drawing = "dev[2.0.0 ok] > prod[2.0.0 ok on c1, 1.0.0 ok on c2]
         promotion prod 2.0.0 Running instead 1.0.0";
    let (mut world, _) = restored(drawing);
    let input = |world: &World| {
        let input = planner::AttemptInput {
            pipeline: Some(&world.pipeline),
            promotions: &world.promotions,
            pull_request: planner::ObservedPullRequest::Missing,
            edited: false,
        };
        planner::attempt(&world.promotions[0], &input, now())
    };
    assert_eq!(input(&world).action, ExternalAction::CarryOut, "no rollout");
    world.promotions[0].spec.rollout = Some(api::pipeline::Rollout::default());
    let ended = input(&world);
    assert_eq!(ended.status.reason.as_deref(), Some("StatusLost"));
    assert_eq!(ended.action, ExternalAction::Nothing);
    let mut observed = world.model();
    observed
        .environments
        .get_mut("prod")
        .unwrap()
        .rejected
        .clear();
    world.pipeline.status = None;
    let rebuilt = planner::rebuild(&world.pipeline, observed, &world.promotions, now());
    assert_eq!(rebuilt.environments["prod"].rejected, ["2.0.0"]);
}

/// A rollout that a person requested does not give way to a newer revision because the hub was restored.
#[test]
fn a_lost_request_is_replaced_by_a_request_only() {
    let drawing = "dev[3.0.0 ok] > prod[2.0.0 ok on c1, 1.0.0 ok on c2]
         promotion prod 2.0.0 Running asked r1 instead 1.0.0";
    let (mut world, _) = restored(drawing);
    let end = |world: &mut World| {
        let status = world.promotions[0].status.get_or_insert_default();
        status.phase = Some(Phase::Superseded);
        status.reason = Some("StatusLost".to_owned());
    };
    end(&mut world);
    let plan = world.plan();
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    let hold = plan.environments["prod"].hold.clone().unwrap();
    assert_eq!(
        format!(
            "{}: {}; {}",
            hold.reason.word(),
            hold.sentence,
            hold.resolved_by
        ),
        "RequestUnderWay: 2.0.0, which a person requested, was in progress when its status was lost; \
         a request for 2.0.0 or 3.0.0"
    );
    let holds = |drawing: &str| {
        let (mut world, _) = restored(drawing);
        end(&mut world);
        world.plan().environments["prod"].hold.clone()
    };
    let same = holds(&drawing.replace("dev[3.0.0 ok]", "dev[2.0.0 ok]")).unwrap();
    assert_eq!(same.resolved_by, "a request for 2.0.0");
    // It got there by other means.
    assert_eq!(
        holds(&drawing.replace("1.0.0 ok on c2", "2.0.0 ok on c2")),
        None
    );
    let mut requested = draw(&format!("{drawing}\nrequest prod Promote 3.0.0 r2"));
    end(&mut requested);
    let steps = format!("{:?}", requested.plan().steps);
    assert!(steps.contains("StartPromotion"), "{steps}");
}

/// What ran without a rollback and was replaced at a person's request.
#[test]
fn what_was_replaced_stays_replaced() {
    let (_, plan) = restored(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 1.0.0 Succeeded asked r1 instead 2.0.0",
    );
    let prod = &plan.environments["prod"];
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    let ran: Vec<_> = prod.ran.iter().map(|it| it.revision.as_str()).collect();
    assert_eq!(ran, ["2.0.0"]);
}

#[test]
fn a_status_that_was_not_lost_is_left_alone() {
    let world = draw(
        "dev[2.0.0 ok] > prod[1.0.0 ok]
         promotion prod 2.0.0 Succeeded
         promotion prod 1.0.0 Succeeded asked r1 back instead 2.0.0",
    );
    let (pipeline, model) = (&world.pipeline, world.model());
    let rebuilt = planner::rebuild(pipeline, model.clone(), &world.promotions, now());
    assert_eq!(rebuilt, model);
    let mut fresh = world.pipeline.clone();
    fresh.status = None;
    let rebuilt = planner::rebuild(&fresh, model.clone(), &[], now());
    assert_eq!(rebuilt, model, "a pipeline without promotions is new");
}

/// The rollback that a person requested long ago passes the gate `order`.
#[test]
fn only_the_last_promotion_of_a_site_goes_on() {
    let (world, _) = restored(
        "dev[3.0.0 ok] > prod[2.0.0 ok]
         promotion prod 1.0.0 Succeeded asked r1 back instead 1.5.0
         promotion prod 3.0.0 WaitingForMerge instead 2.0.0",
    );
    let next = |index: usize| {
        let input = planner::AttemptInput {
            pipeline: Some(&world.pipeline),
            promotions: &world.promotions,
            pull_request: planner::ObservedPullRequest::Missing,
            edited: false,
        };
        let promotion = &world.promotions[index];
        let lookup = pull_request_lookup(promotion, &input, now());
        (lookup, planner::attempt(promotion, &input, now()))
    };
    let (lookup, ended) = next(0);
    assert_eq!(lookup, PullRequestLookup::Skip);
    assert_eq!(ended.action, ExternalAction::Nothing);
    assert_eq!(ended.status.phase, Some(Phase::Superseded));
    assert_eq!(ended.status.reason.as_deref(), Some("StatusLost"));
    let (lookup, last) = next(1);
    assert_eq!(
        lookup,
        PullRequestLookup::Skip,
        "the other one has to end first"
    );
    assert_eq!(last.status.phase, Some(Phase::Running));
}

/// A promotion that is created after the restore begins even if the clock was set back.
#[test]
fn a_promotion_that_is_newer_than_the_restore_begins() {
    let (mut world, _) = restored(
        "dev[3.0.0 ok] > prod[2.0.0 ok]
         promotion prod 3.0.0 WaitingForMerge instead 2.0.0
         promotion prod 2.0.0 Succeeded instead 1.0.0",
    );
    let status = world.pipeline.status.as_mut().unwrap();
    status.rebuilt_at = Some(crate::drawing::ago("2h"));
    status
        .environments
        .get_mut("prod")
        .unwrap()
        .rejected
        .clear();
    let ended = world.promotions.last_mut().unwrap();
    ended.status.get_or_insert_default().phase = Some(Phase::Succeeded);
    let input = planner::AttemptInput {
        pipeline: Some(&world.pipeline),
        promotions: &world.promotions,
        pull_request: planner::ObservedPullRequest::Missing,
        edited: false,
    };
    let next = planner::attempt(&world.promotions[0], &input, now());
    assert_eq!(next.action, ExternalAction::CarryOut);
}

/// Timestamps have whole seconds, and the pass that rebuilds the status also creates promotions.
#[test]
fn a_rollout_that_is_created_with_the_rebuilt_status_begins() {
    let (mut world, _) = restored(
        "dev[3.0.0 ok] > prod[2.0.0 ok on c1, 2.0.0 ok on c2]
         promotion prod 3.0.0 Running instead 2.0.0",
    );
    world.promotions[0].spec.rollout = Some(api::pipeline::Rollout::default());
    let rebuilt_at = world.pipeline.status.as_ref().unwrap().rebuilt_at.clone();
    let mut reason_when_created = |second: i64| {
        let mut created = rebuilt_at.clone().unwrap();
        created.0 += jiff::SignedDuration::from_secs(second);
        world.promotions[0].metadata.creation_timestamp = Some(created);
        let input = planner::AttemptInput {
            pipeline: Some(&world.pipeline),
            promotions: &world.promotions,
            pull_request: planner::ObservedPullRequest::Missing,
            edited: false,
        };
        let next = planner::attempt(&world.promotions[0], &input, now());
        next.status.reason
    };
    assert_eq!(reason_when_created(-1).as_deref(), Some("StatusLost"));
    assert_ne!(reason_when_created(0).as_deref(), Some("StatusLost"));
}
