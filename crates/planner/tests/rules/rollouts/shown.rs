//! A rollout as people and programs see it, and what its promotion says meanwhile.

use api::{
    pipeline::{Check, ExternalCheck, RequestKind},
    promotion::{Phase, ShownFeedback},
};
use planner::{ExternalAction, ObservedPullRequest, RolloutState, RolloutView};
use serde_json::{Value, json};

use super::{fleet::Fleet, rollout};

fn view(fleet: &Fleet) -> RolloutView {
    let world = &fleet.world;
    planner::rollout_view(&world.pipeline, &world.promotions, "prod", fleet.now).unwrap()
}

fn document(fleet: &Fleet) -> Value {
    view(fleet).document(&fleet.world.promotions)
}

/// The canary c0, then one after the other of two, then the rest.
fn waves() -> api::pipeline::Rollout {
    rollout(json!({"waves": [
        {"selector": {"matchLabels": {"ring": "canary"}}, "soak": "30m"},
        {"percent": 40, "maxConcurrent": 1, "soak": "3h"},
    ]}))
}

/// The targets of a wave whose number counts from 0.
fn targets(fleet: &Fleet, wave: usize) -> Vec<Value> {
    let document = document(fleet);
    document["waves"][wave]["targets"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn programs_read_every_wave_and_target() {
    let mut fleet = Fleet::new(5, waves());
    fleet.settle();
    fleet.deploy_all();
    let name = fleet.world.promotions[0].metadata.name.clone().unwrap();
    let end = fleet.now + std::time::Duration::from_secs(30 * 60);
    let mut rollout = document(&fleet);
    let waiting = rollout["waves"][1]["targets"].take();
    rollout["waves"][2]["targets"].take();
    let message = rollout["waitsFor"]["message"].take();
    let canary = json!({
        "target": "c0/prod", "state": "ready", "batch": 1, "url": null, "runs": "2.0.0", "message": null,
    });
    let expected = json!({
        "promotion": name, "revision": "2.0.0", "state": "in progress", "stopped": null,
        "waitsFor": {"reason": "WaveSoaking", "message": null},
        "waves": [
            {
                "number": 1, "takes": "ring=canary", "state": "in progress", "maxConcurrent": null,
                "doneAt": null, "soaksUntil": end.to_string(), "counts": {"ready": 1}, "targets": [canary],
            },
            {
                "number": 2, "takes": "40 % of the targets", "state": "waiting", "maxConcurrent": 1,
                "doneAt": null, "soaksUntil": null, "counts": {"waiting": 2}, "targets": null,
            },
            {
                "number": 3, "takes": "the rest", "state": "waiting", "maxConcurrent": null,
                "doneAt": null, "soaksUntil": null, "counts": {"waiting": 2}, "targets": null,
            },
        ],
    });
    assert_eq!(rollout, expected);
    assert!(
        message
            .as_str()
            .unwrap()
            .starts_with("wave 1 of 3 must stay ready")
    );
    assert_eq!(waiting[0]["runs"], "1.0.0");
    assert_eq!(view(&fleet).count(RolloutState::Waiting), 4);
    assert_eq!(view(&fleet).count(RolloutState::Failed), 0);
}

#[test]
fn each_target_has_the_pull_request_of_its_batch() {
    let mut fleet = Fleet::new(5, waves());
    fleet.settle();
    fleet.deploy_all();
    fleet.wait_minutes(31);
    let promotion = fleet.world.promotions.last_mut().unwrap();
    let rollout = promotion.status.as_mut().unwrap().rollout.as_mut().unwrap();
    for batch in &mut rollout.batches {
        batch.url = Some(format!("https://example.com/{}", batch.number));
    }
    assert_eq!(targets(&fleet, 0)[0]["url"], "https://example.com/1");
    let second = targets(&fleet, 1);
    let in_flight = second.iter().find(|it| it["state"] == "in-flight").unwrap();
    assert_eq!(in_flight["url"], "https://example.com/2");
    let waiting = second.iter().find(|it| it["state"] == "waiting").unwrap();
    assert_eq!(waiting["url"], Value::Null);
    let waves = view(&fleet).waves;
    let words: Vec<_> = waves.iter().map(planner::WaveView::word).collect();
    assert_eq!(words, ["done", "in progress", "waiting"]);
    assert_eq!(waves[1].soaks_until, None, "it is not ready yet");
}

#[test]
fn what_a_wave_takes_is_told_by_its_selector() {
    let zones = json!({"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["eu", "us"]}, {"key": "edge", "operator": "Exists"},
    ]});
    let waves = json!({"waves": [{"selector": zones}, {"selector": {}, "percent": 20}]});
    let mut fleet = Fleet::new(2, rollout(waves));
    fleet.settle();
    let takes: Vec<_> = view(&fleet).waves.into_iter().map(|it| it.takes).collect();
    assert_eq!(
        takes,
        [
            "zone In (eu, us), edge Exists",
            "20 % of the targets with any label",
            "the rest"
        ]
    );
}

#[test]
fn a_stop_is_shown_until_the_rollout_ends() {
    let mut fleet = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
    fleet.settle();
    let summary = |fleet: &Fleet| {
        fleet.world.model().environments["prod"]
            .rollout
            .clone()
            .unwrap()
    };
    assert_eq!(summary(&fleet).stopped, None);
    fleet.order(RequestKind::StopRollout, None);
    assert_eq!(document(&fleet)["state"], "stopped");
    assert_eq!(document(&fleet)["stopped"]["by"], "ann");
    assert_eq!(summary(&fleet).stopped.unwrap().by.as_deref(), Some("ann"));
    assert_eq!(summary(&fleet).finished_at, None);
    fleet.reject("ada");
    assert_eq!(fleet.phase(), Some(Phase::Abandoned));
    let rollout = document(&fleet);
    assert_eq!(rollout["state"], "ended");
    assert_eq!(
        (&rollout["stopped"], &rollout["waitsFor"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(summary(&fleet).stopped, None);
    assert!(summary(&fleet).finished_at.is_some());
}

#[test]
fn the_status_counts_the_targets_of_each_wave() {
    let mut fleet = Fleet::new(5, waves());
    fleet.settle();
    fleet.deploy_all();
    fleet.wait_minutes(31);
    let summary = fleet.world.model().environments["prod"]
        .rollout
        .clone()
        .unwrap();
    assert_eq!(summary.revision, "2.0.0");
    let counts = summary
        .waves
        .iter()
        .map(|it| (it.targets, it.ready, it.in_flight));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [(1, 1, 0), (2, 0, 1), (2, 0, 0)]
    );
    let times = summary
        .waves
        .iter()
        .map(|it| (it.opened_at.is_some(), it.done_at.is_some()));
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(true, true), (true, false), (false, false)]
    );
    assert_eq!(
        summary.waves[1].opened_at.as_ref().map(|it| it.0),
        Some(fleet.now)
    );
}

#[test]
fn the_rollout_under_way_into_the_environment_is_shown() {
    let mut fleet = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
    fleet.settle();
    let own = fleet.world.promotions[0].clone();
    let name = own.metadata.name.clone().unwrap();
    let mut other = own.clone();
    other.metadata.name = Some("other".to_owned());
    other.metadata.creation_timestamp =
        Some(api::Time(fleet.now + std::time::Duration::from_secs(60)));
    let mut shown = |change: &dyn Fn(&mut api::Promotion)| {
        let mut other = other.clone();
        change(&mut other);
        fleet.world.promotions = vec![own.clone(), other];
        view(&fleet).promotion
    };
    assert_eq!(shown(&|it| it.spec.pipeline = "web".to_owned()), name);
    assert_eq!(shown(&|it| it.spec.environment = "dev".to_owned()), name);
    assert_eq!(
        shown(&|it| it.status.as_mut().unwrap().rollout = None),
        name
    );
    let ended =
        |it: &mut api::Promotion| it.status.as_mut().unwrap().phase = Some(Phase::Abandoned);
    assert_eq!(shown(&ended), name);
    assert_eq!(shown(&|_| {}), "other");
}

#[test]
fn its_promotion_says_which_batch_starts_and_is_deployed() {
    let settings = rollout(json!({"waves": [
        {"selector": {"matchLabels": {"ring": "canary"}}, "soak": "30m"}, {"maxConcurrent": 2},
    ]}));
    let mut fleet = Fleet::new(5, settings);
    fleet.pipeline_pass();
    fleet.promotion_pass();
    assert_eq!(fleet.message(), "batch 1 starts: 1 target");
    fleet.settle();
    assert_eq!(fleet.message(), "wave 1 of 2: batch 1 is being deployed");
    fleet.deploy_all();
    // What is stored about the change of the first batch is not taken for that of the next one.
    let status = fleet.world.promotions[0].status.as_mut().unwrap();
    status.url = Some("https://example.com/1".to_owned());
    status.branch = Some("sluice/1".to_owned());
    status.commit = Some("c0ffee".to_owned());
    status.merge_scheduled = true;
    status.attempts = 3;
    status.feedback = Some(ShownFeedback::default());
    fleet.now += std::time::Duration::from_secs(31 * 60);
    fleet.pipeline_pass();
    fleet.promotion_pass();
    assert_eq!(fleet.message(), "batch 2 starts: 2 targets");
    let status = fleet.world.promotions[0].status.clone().unwrap();
    assert_eq!(
        (status.url, status.branch, status.commit),
        (None, None, None)
    );
    assert_eq!((status.merge_scheduled, status.attempts), (false, 0));
    assert_eq!(status.feedback, None);
    fleet.settle();
    assert_eq!(fleet.message(), "wave 2 of 2: batch 2 is being deployed");
}

#[test]
fn what_was_ready_and_is_not_any_more_is_told() {
    let mut fleet = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
    fleet.settle();
    let first = fleet.in_flight()[0];
    fleet.deploy_all();
    assert_eq!(fleet.started(), 2);
    fleet.relapse(first);
    fleet.settle();
    assert_eq!(fleet.state(first), RolloutState::NotReady);
}

/// What was started and cannot be reached takes a place until it is ready.
#[test]
fn what_cannot_be_reached_stays_in_flight() {
    let mut fleet = Fleet::new(6, rollout(json!({"waves": [{"maxConcurrent": 2}]})));
    fleet.settle();
    let lost = fleet.in_flight()[0];
    fleet.unreach(lost);
    fleet.deploy_all();
    assert_eq!(fleet.started(), 3);
    fleet.deploy_all();
    assert_eq!(fleet.started(), 4);
    assert_eq!(fleet.state(lost), RolloutState::Unreachable);
    let mut alone = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
    alone.settle();
    alone.unreach(alone.in_flight()[0]);
    alone.settle();
    assert_eq!(alone.hold(), "TooManyUnreachable");
}

#[test]
fn a_wave_of_which_nothing_can_be_reached_is_not_done() {
    let mut fleet = Fleet::new(5, waves());
    fleet.unreach(0);
    fleet.settle();
    assert_eq!(
        (fleet.started(), fleet.hold().as_str()),
        (0, "WaveNotReady")
    );
}

#[test]
fn a_rollout_that_was_resumed_stops_at_the_next_failure() {
    let mut fleet = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
    fleet.settle();
    fleet.order(RequestKind::StopRollout, None);
    fleet.order(RequestKind::ResumeRollout, None);
    fleet.fail(fleet.in_flight()[0]);
    fleet.settle();
    let stopped = fleet.rollout().unwrap().stopped.clone().unwrap();
    fleet.wait_minutes(5);
    assert_eq!(fleet.hold(), "RolloutStopped");
    assert_eq!(fleet.rollout().unwrap().stopped, Some(stopped));
}

#[test]
fn failures_that_did_not_stop_it_can_be_retried() {
    let mut fleet = Fleet::new(
        3,
        rollout(json!({"waves": [{"maxConcurrent": 1}], "maxFailures": 2})),
    );
    fleet.settle();
    fleet.fail(fleet.in_flight()[0]);
    fleet.settle();
    fleet.order(RequestKind::Retry, None);
    assert_eq!(fleet.answer(), "the rollout of 2.0.0 is retried");
}

/// Neither that of another environment, nor one that is withdrawn or has ended.
#[test]
fn an_order_is_about_the_rollout_of_its_environment() {
    let refused = "refused: no rollout into prod is in progress";
    let answer = |change: &dyn Fn(&mut api::Promotion)| {
        let mut fleet = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
        fleet.settle();
        change(&mut fleet.world.promotions[0]);
        fleet.request(RequestKind::StopRollout, "");
        fleet.pipeline_pass();
        fleet.answer()
    };
    assert_eq!(answer(&|_| {}), "stopped the rollout of 2.0.0");
    assert_eq!(
        answer(&|it| it.spec.environment = "dev".to_owned()),
        refused
    );
    let ended =
        |it: &mut api::Promotion| it.status.as_mut().unwrap().phase = Some(Phase::Abandoned);
    assert_eq!(answer(&ended), refused);
    let withdrawn = |it: &mut api::Promotion| {
        let reason = planner::superseded_by("x");
        it.spec.withdrawn = Some(api::promotion::Withdrawal { reason });
    };
    assert_eq!(answer(&withdrawn), refused);
}

#[test]
fn what_a_rollout_left_out_is_left_alone() {
    let left_out = |settings: Value, leave: &dyn Fn(&mut Fleet, usize)| {
        let mut fleet = Fleet::new(3, rollout(settings));
        fleet.settle();
        let first = fleet.in_flight()[0];
        leave(&mut fleet, first);
        for _ in 0..3 {
            fleet.deploy_all();
        }
        assert_eq!(fleet.phase(), Some(Phase::Succeeded));
        fleet.settle();
        assert_eq!(fleet.world.promotions.len(), 1);
        fleet.environment_hold_text()
    };
    let one = json!({"waves": [{"maxConcurrent": 1}], "maxFailures": 2});
    assert_eq!(left_out(one.clone(), &|fleet, first| fleet.fail(first)), "");
    let skip = |fleet: &mut Fleet, first| {
        let key = fleet.key(first);
        fleet.fail(first);
        fleet.order(RequestKind::SkipTarget, Some(&key));
    };
    assert_eq!(left_out(one, &skip), "");
}

/// Checks start when the rollout has ended, also where it left targets out, and no further batch starts then.
#[test]
fn a_rollout_is_verified_once_it_is_everywhere() {
    let mut fleet = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
    let spec = &mut fleet.world.pipeline.spec;
    spec.checks.push(Check {
        name: "smoke".to_owned(),
        external: Some(ExternalCheck::default()),
        ..Check::default()
    });
    let verify = spec.environments[1].verify.get_or_insert_default();
    verify.checks = vec!["smoke".to_owned()];
    fleet.settle();
    fleet.deploy_all();
    let checks_of = |fleet: &Fleet, revision: &str| {
        let runs = fleet.world.runs.iter();
        runs.filter(|it| it.spec.revision == revision).count()
    };
    assert_eq!(checks_of(&fleet, "2.0.0"), 0);
    let lost = (0..3)
        .find(|it| fleet.state(*it) == RolloutState::Waiting)
        .unwrap();
    fleet.unreach(lost);
    fleet.deploy_all();
    assert_eq!(fleet.phase(), Some(Phase::Verifying));
    assert_eq!(checks_of(&fleet, "2.0.0"), 1);
    // What joins then belongs to the next promotion.
    let status = fleet.world.pipeline.status.as_mut().unwrap();
    let targets = &mut status.environments.get_mut("prod").unwrap().targets;
    let mut joined = targets[0].clone();
    joined.namespace = Some("late".to_owned());
    joined.revision = Some("1.0.0".to_owned());
    targets.push(joined);
    assert_eq!(fleet.next().status.phase, Some(Phase::Verifying));
}

/// The pull request of a batch is followed until it has landed, and then the next one may start.
#[test]
fn the_pull_request_of_the_open_batch_is_followed() {
    let mut fleet = Fleet::new(4, rollout(json!({"waves": [{"maxConcurrent": 2}]})));
    fleet.settle();
    let mut next = |has_landed: bool| {
        let status = fleet.world.promotions[0].status.as_mut().unwrap();
        status.phase = Some(Phase::WaitingForMerge);
        let batch = &mut status.rollout.as_mut().unwrap().batches[0];
        batch.landed_at = has_landed.then_some(api::Time(fleet.now));
        fleet.next_with(ObservedPullRequest::Unanswered)
    };
    let open = next(false);
    assert_eq!(open.action, ExternalAction::Nothing);
    assert_eq!(open.status.phase, Some(Phase::WaitingForMerge));
    assert_eq!(next(true).status.phase, Some(Phase::Deploying));
}
