//! Rollouts in waves: as tables, and as random histories of fleets in which nothing may exceed its limits.

mod fleet;
mod properties;
mod shown;

use api::{
    pipeline::{OnNewRevision, RequestKind, Rollout},
    promotion::{Phase, Rejection},
};
use planner::{ObservedPullRequest, RolloutState};
use serde_json::json;

use crate::{attempt::next_of, drawing::draw};
use fleet::Fleet;

fn rollout(value: serde_json::Value) -> Rollout {
    serde_json::from_value(value).unwrap()
}

/// A canary, then a fifth of all with at most two at once, then the rest.
fn three_waves() -> Rollout {
    rollout(json!({
        "waves": [
            {"selector": {"matchLabels": {"ring": "canary"}}, "soak": "30m"},
            {"percent": 40, "maxConcurrent": 2, "soak": "1h"},
            {}
        ],
        "maxFailures": 1
    }))
}

#[test]
fn waves_follow_one_another_in_batches() {
    let mut fleet = Fleet::new(10, three_waves());
    fleet.settle();
    assert_eq!(fleet.started(), 1, "the canary");
    fleet.deploy_all();
    assert_eq!(fleet.hold(), "WaveSoaking");
    fleet.wait_minutes(31);
    assert_eq!(fleet.started(), 3, "two of the second wave");
    fleet.deploy_all();
    assert_eq!(fleet.started(), 5, "the other two");
    fleet.deploy_all();
    assert_eq!(fleet.hold(), "WaveSoaking");
    fleet.wait_minutes(61);
    assert_eq!(fleet.started(), 10, "the rest at once");
    assert_eq!(fleet.phase(), Some(Phase::Deploying));
    fleet.deploy_all();
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
    fleet.settle();
    assert_eq!(fleet.world.promotions.len(), 1, "nothing is started again");
}

#[test]
fn nothing_ends_or_starts_before_the_targets_are_known() {
    let mut fleet = Fleet::new(10, three_waves());
    fleet.pipeline_pass();
    fleet.promotion_pass_without_targets();
    assert_eq!(fleet.hold(), "NotObserved");
    assert_eq!(fleet.rollout(), None);
    fleet.settle();
    assert_eq!(fleet.started(), 1, "the canary");
    fleet.promotion_pass_without_targets();
    assert_eq!(fleet.phase(), Some(Phase::Deploying));
    assert_eq!(fleet.hold(), "NotObserved");
    fleet.settle();
    assert_eq!(fleet.started(), 1, "the canary is still in flight");
}

#[test]
fn more_failures_than_allowed_stop_it_and_removing_them_lifts_nothing() {
    let mut fleet = Fleet::new(10, three_waves());
    fleet.settle();
    fleet.deploy_all();
    fleet.wait_minutes(31);
    let [one, two] = fleet.in_flight()[..] else {
        panic!("two are in flight: {:?}", fleet.in_flight())
    };
    fleet.fail(one);
    fleet.settle();
    assert_eq!(fleet.started(), 3, "the other one is still in flight");
    fleet.fail(two);
    fleet.settle();
    assert_eq!(
        (fleet.started(), fleet.hold().as_str()),
        (3, "RolloutStopped")
    );
    fleet.remove(one);
    fleet.remove(two);
    fleet.settle();
    assert_eq!(fleet.hold(), "RolloutStopped");
    fleet.order(RequestKind::ResumeRollout, None);
    assert_eq!(fleet.answer(), "resumed the rollout of 2.0.0");
    assert_eq!(fleet.started(), 5);
}

#[test]
fn a_person_stops_resumes_and_skips() {
    let settings = rollout(json!({"waves": [{"maxConcurrent": 2}]}));
    let mut fleet = Fleet::new(6, settings);
    fleet.settle();
    assert_eq!(fleet.started(), 2);
    fleet.order(RequestKind::StopRollout, None);
    assert_eq!(fleet.answer(), "stopped the rollout of 2.0.0");
    fleet.deploy_all();
    assert_eq!(
        (fleet.started(), fleet.hold().as_str()),
        (2, "RolloutStopped")
    );
    fleet.order(RequestKind::ResumeRollout, None);
    assert_eq!(fleet.started(), 4);
    fleet.order(RequestKind::ResumeRollout, None);
    assert_eq!(
        fleet.answer(),
        "refused: the rollout of 2.0.0 is not stopped"
    );
    let gone = fleet.in_flight()[0];
    fleet.unreach(gone);
    fleet.deploy_all();
    assert_eq!(
        fleet.started(),
        5,
        "one place is taken by what cannot be reached"
    );
    fleet.order(RequestKind::SkipTarget, Some("c99/prod"));
    assert_eq!(
        fleet.answer(),
        "refused: the rollout has no target c99/prod"
    );
    let key = fleet.key(gone);
    fleet.order(RequestKind::SkipTarget, Some(&key));
    assert_eq!(fleet.answer(), format!("the rollout goes on without {key}"));
    fleet.deploy_all();
    fleet.deploy_all();
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
    assert_eq!(fleet.message(), "prod runs 2.0.0; left out: 1 skipped");
    fleet.settle();
    assert_eq!(
        fleet.world.promotions.len(),
        1,
        "what was skipped is left alone"
    );
}

#[test]
fn a_rejected_rollout_starts_nothing_more_although_its_first_batch_landed() {
    let settings = rollout(json!({"waves": [{"maxConcurrent": 2}]}));
    let mut fleet = Fleet::new(6, settings);
    fleet.settle();
    assert_eq!(fleet.started(), 2);
    fleet.reject("ada");
    assert_eq!(fleet.phase(), Some(Phase::Abandoned));
    assert_eq!(fleet.message(), "ada rejected it");
    let first: Vec<_> = (0..fleet.size())
        .map(|index| fleet.desired(index))
        .collect();
    fleet.deploy_all();
    let last: Vec<_> = (0..fleet.size())
        .map(|index| fleet.desired(index))
        .collect();
    assert_eq!((fleet.started(), last), (2, first));
    // Nor does a new promotion bring the revision to the others.
    assert_eq!(fleet.world.promotions.len(), 1);
    assert_eq!(fleet.world.model().environments["prod"].rejected, ["2.0.0"]);
    let text = fleet.environment_hold_text();
    assert!(text.starts_with("ada rejected 2.0.0 in prod"), "{text}");
}

/// As of any other promotion whose change is in git: the checks say how it ends.
#[test]
fn a_rollout_that_is_everywhere_can_no_longer_be_rejected() {
    let drawing = "prod{verify smoke}[2.0.0 ok, 2.0.0 ok]
         promotion prod 2.0.0 Verifying merged 5m rejected-by ann";
    let mut world = draw(&format!("dev[2.0.0 ok] > {drawing}"));
    let promotion = world.promotions.last_mut().unwrap();
    promotion.spec.rollout = Some(Rollout::default());
    assert_eq!(next_of(&world, "").status.phase, Some(Phase::Verifying));
}

#[test]
fn a_batch_that_was_merged_before_its_rejection_was_seen_is_in_git() {
    let mut fleet = Fleet::new(4, rollout(json!({"waves": [{"maxConcurrent": 2}]})));
    fleet.settle();
    let promotion = fleet.world.promotions.last_mut().unwrap();
    promotion.spec.rejection = Some(Rejection {
        by: "ada".to_owned(),
        ..Rejection::default()
    });
    let status = promotion.status.as_mut().unwrap();
    status.phase = Some(Phase::WaitingForMerge);
    status.merged_at = None;
    let batch = status.rollout.as_mut().unwrap().batches.last_mut();
    batch.unwrap().landed_at = None;
    let next = fleet.next_with(ObservedPullRequest::Merged {
        url: "https://example.com/shop/pulls/1".to_owned(),
        commit: Some("c0ffee".to_owned()),
    });
    let batch = next.status.rollout.unwrap().batches.pop().unwrap();
    assert_eq!(next.status.phase, Some(Phase::Abandoned));
    assert_eq!(batch.commit.as_deref(), Some("c0ffee"));
    assert!(batch.landed_at.is_some() && next.status.merged_at.is_some());
}

#[test]
fn the_clock_of_a_deployment_stands_still_while_its_cluster_is_unreachable() {
    let mut fleet = Fleet::new(1, rollout(json!({"waves": [{}]})));
    fleet.settle();
    fleet.wait_minutes(30);
    fleet.unreach(0);
    fleet.settle();
    fleet.wait_minutes(300);
    assert_eq!(fleet.state(0), RolloutState::Unreachable);
    fleet.reach(0);
    fleet.settle();
    fleet.wait_minutes(29);
    assert_eq!(fleet.state(0), RolloutState::InFlight);
    fleet.wait_minutes(2);
    assert_eq!(fleet.state(0), RolloutState::Failed);
    assert_eq!(fleet.hold(), "RolloutStopped");
    fleet.order(RequestKind::Retry, None);
    assert_eq!(fleet.answer(), "the rollout of 2.0.0 is retried");
    assert_eq!(fleet.state(0), RolloutState::InFlight);
    fleet.deploy_all();
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
}

#[test]
fn what_joins_or_comes_back_is_started_late_and_alone() {
    let settings = rollout(json!({"waves": [{"percent": 50}, {}]}));
    let mut fleet = Fleet::new(4, settings);
    fleet.unreach(3);
    fleet.settle();
    assert_eq!(fleet.batches(), [2]);
    fleet.join();
    fleet.deploy_all();
    assert_eq!(
        fleet.batches(),
        [2, 1],
        "the rest without what cannot be reached"
    );
    fleet.reach(3);
    fleet.deploy_all();
    assert_eq!(fleet.batches(), [2, 1, 1]);
    fleet.deploy_all();
    assert_eq!(
        fleet.batches(),
        [2, 1, 1, 1],
        "what joined has a batch of its own"
    );
    fleet.deploy_all();
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
}

#[test]
fn a_wave_is_not_done_before_its_clusters_were_read() {
    let settings = rollout(json!({"waves": [{"percent": 50, "maxConcurrent": 1}, {}]}));
    let mut fleet = Fleet::new(6, settings);
    fleet.settle();
    let first = fleet.in_flight();
    fleet.restart(&first);
    fleet.deploy_all();
    assert_eq!(
        (fleet.started(), fleet.hold().as_str()),
        (1, "WaveNotReady")
    );
    fleet.restart(&[0, 1, 2, 3, 4, 5]);
    fleet.settle();
    assert_eq!(fleet.started(), 2, "the next one of the first wave");
}

#[test]
fn a_cluster_that_returns_after_the_end_gets_the_revision() {
    let mut fleet = Fleet::new(3, rollout(json!({"waves": [{}]})));
    fleet.unreach(2);
    fleet.settle();
    fleet.deploy_all();
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
    assert_eq!(fleet.message(), "prod runs 2.0.0; left out: 1 unreachable");
    fleet.reach(2);
    fleet.settle();
    assert_eq!(fleet.world.promotions.len(), 2);
    fleet.deploy_all();
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
}

#[test]
fn what_the_fleet_runs_already_is_not_promoted_while_clusters_are_unknown() {
    let mut fleet = Fleet::new(4, rollout(json!({"waves": [{}]})));
    fleet.release("1.0.0");
    fleet.restart(&[]);
    fleet.settle();
    fleet.restart(&[0, 1]);
    fleet.settle();
    for index in 2..4 {
        fleet.unreach(index);
    }
    fleet.restart(&[0, 1, 2, 3]);
    fleet.settle();
    assert_eq!(fleet.world.promotions.len(), 0);
}

#[test]
fn more_unreachable_than_allowed_wait() {
    let settings = rollout(json!({"waves": [{"percent": 50}, {}], "maxUnreachable": "25%"}));
    let mut fleet = Fleet::new(8, settings);
    fleet.settle();
    fleet.deploy_all();
    let mut fleet = Fleet::new(8, fleet.settings());
    for index in 0..3 {
        fleet.unreach(index);
    }
    fleet.settle();
    assert_eq!(
        (fleet.started(), fleet.hold().as_str()),
        (0, "TooManyUnreachable")
    );
    fleet.reach(0);
    fleet.settle();
    assert!(fleet.started() > 0);
}

#[test]
fn a_newer_revision_waits_or_restarts() {
    for (on_new_revision, expected) in [
        (OnNewRevision::Finish, "RolloutUnderWay"),
        (OnNewRevision::Restart, ""),
    ] {
        let settings = Rollout {
            on_new_revision: Some(on_new_revision),
            ..rollout(json!({"waves": [{"maxConcurrent": 1}]}))
        };
        let mut fleet = Fleet::new(4, settings);
        fleet.settle();
        fleet.release("3.0.0");
        fleet.settle();
        assert_eq!(fleet.environment_hold(), expected, "{on_new_revision:?}");
        let revisions: Vec<_> = fleet
            .world
            .promotions
            .iter()
            .map(|it| it.spec.revision.as_str())
            .collect();
        match on_new_revision {
            OnNewRevision::Finish => assert_eq!(revisions, ["2.0.0"]),
            OnNewRevision::Restart => assert_eq!(revisions, ["2.0.0", "3.0.0"]),
        }
    }
}

/// The request counts before the pipeline answers it: no further target is started.
#[test]
fn a_request_to_stop_counts_at_once() {
    for (kind, expected) in [
        (RequestKind::StopRollout, 1),
        (RequestKind::ResumeRollout, 2),
    ] {
        let mut fleet = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
        fleet.settle();
        let first = fleet.in_flight()[0];
        fleet.deploy(first);
        fleet.pipeline_pass();
        fleet.request(kind, "");
        fleet.promotion_pass();
        fleet.promotion_pass();
        assert_eq!(fleet.started(), expected, "{kind:?}");
    }
}

#[test]
fn a_wave_that_soaks_says_until_when_and_is_looked_at_again_then() {
    let mut fleet = Fleet::new(10, three_waves());
    fleet.settle();
    let started = fleet.rollout().unwrap().batches[0].started_at.clone();
    assert_eq!(started.map(|it| it.0), Some(fleet.now()));
    fleet.deploy_all();
    let next = fleet.next();
    let end = fleet.now() + std::time::Duration::from_secs(30 * 60);
    assert_eq!(next.requeue_at, Some(end));
    let message = next.status.message.unwrap();
    let expected = format!("wave 1 of 3 must stay ready until {end}");
    assert!(message.starts_with(&expected), "{message}");
}

/// What a person goes back to is deployed everywhere, also where some targets fail.
#[test]
fn failures_stop_a_release_and_not_a_rollback() {
    for (kind, hold, started) in [
        (RequestKind::Promote, "RolloutStopped", 1),
        (RequestKind::Rollback, "Deploying", 2),
    ] {
        let mut fleet = Fleet::new(4, rollout(json!({"waves": [{"maxConcurrent": 4}]})));
        fleet.settle();
        fleet.deploy_all();
        let mut settings = fleet.settings();
        settings.waves[0].max_concurrent = Some(1);
        let promotion = fleet.world.pipeline.spec.promotion.as_mut().unwrap();
        promotion.rollout = Some(settings);
        fleet.request(kind, "1.0.0");
        fleet.settle();
        fleet.fail(fleet.in_flight()[0]);
        fleet.settle();
        assert_eq!(fleet.hold(), hold, "{kind:?}");
        assert_eq!(fleet.started(), started, "{kind:?}");
        if kind == RequestKind::Promote {
            let stopped = fleet.rollout().unwrap().stopped.clone().unwrap();
            assert!(stopped.message.ends_with("/prod failed"), "{stopped:?}");
        }
    }
}

#[test]
fn an_order_that_changes_nothing_is_answered() {
    let mut fleet = Fleet::new(3, rollout(json!({"waves": [{"maxConcurrent": 1}]})));
    let mut answers = Vec::new();
    let mut order = |fleet: &mut Fleet, kind, target| {
        fleet.order(kind, target);
        answers.push(fleet.answer());
    };
    order(&mut fleet, RequestKind::ResumeRollout, None);
    order(&mut fleet, RequestKind::SkipTarget, None);
    order(&mut fleet, RequestKind::SkipTarget, Some("nowhere"));
    order(&mut fleet, RequestKind::SkipTarget, Some("c0"));
    order(&mut fleet, RequestKind::Retry, None);
    order(&mut fleet, RequestKind::StopRollout, None);
    order(&mut fleet, RequestKind::StopRollout, None);
    order(&mut fleet, RequestKind::Retry, None);
    let expected = [
        "refused: no rollout into prod is in progress",
        "refused: it names no target; add \"target\"",
        "refused: the rollout has no target nowhere",
        "the rollout goes on without c0/prod",
        "refused: no promotion into prod has failed",
        "stopped the rollout of 2.0.0",
        "the rollout of 2.0.0 is stopped already",
        "the rollout of 2.0.0 is retried",
    ];
    assert_eq!(answers, expected);
}

#[test]
fn a_stopped_rollout_makes_way_for_a_newer_revision() {
    let settings = rollout(json!({"waves": [{"maxConcurrent": 1}]}));
    let mut fleet = Fleet::new(3, settings);
    fleet.settle();
    fleet.fail(fleet.in_flight()[0]);
    fleet.settle();
    fleet.release("3.0.0");
    fleet.settle();
    let phases: Vec<_> = fleet
        .world
        .promotions
        .iter()
        .map(|it| it.status.as_ref().unwrap().phase.unwrap())
        .collect();
    assert_eq!(phases[0], Phase::Superseded);
    assert_eq!(fleet.revision(), "3.0.0");
    for _ in 0..3 {
        fleet.deploy_all();
    }
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
}

#[test]
fn a_rollback_ignores_soak_and_failures_and_keeps_the_batches() {
    let mut fleet = Fleet::new(10, three_waves());
    fleet.settle();
    fleet.deploy_all();
    fleet.wait_minutes(31);
    fleet.deploy_all();
    assert_eq!(fleet.started(), 5);
    fleet.request(RequestKind::Rollback, "1.0.0");
    fleet.settle();
    assert_eq!(fleet.revision(), "1.0.0");
    let mut most = 0;
    for _ in 0..10 {
        most = most.max(fleet.in_flight().len());
        fleet.deploy_all();
    }
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
    assert!(most <= 2, "{most} at once");
}

#[test]
fn a_rollback_also_reaches_targets_whose_change_landed_and_that_do_not_run_it_yet() {
    let mut fleet = Fleet::new(6, rollout(json!({"waves": [{"maxConcurrent": 2}]})));
    fleet.settle();
    let landed = fleet.in_flight();
    assert_eq!(landed.len(), 2);
    fleet.request(RequestKind::Rollback, "1.0.0");
    fleet.settle();
    assert_eq!((fleet.revision(), fleet.started()), ("1.0.0", 2));
    for index in landed {
        assert_eq!(fleet.desired(index).as_deref(), Some("1.0.0"));
    }
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
}

#[test]
fn clusters_that_ask_get_the_revision_of_their_batch() {
    let settings = rollout(json!({"waves": [{"maxConcurrent": 1}]}));
    let mut fleet = Fleet::new(3, settings);
    fleet.settle();
    let first = fleet.in_flight()[0];
    let asked = |fleet: &Fleet, index| fleet.desired(index);
    assert_eq!(asked(&fleet, first).as_deref(), Some("2.0.0"));
    let other = (0..3).find(|it| *it != first).unwrap();
    assert_eq!(asked(&fleet, other), None);
    let joined = fleet.join();
    fleet.settle();
    assert_eq!(asked(&fleet, joined), None);
    for _ in 0..5 {
        fleet.deploy_all();
    }
    assert_eq!(fleet.phase(), Some(Phase::Succeeded));
    assert_eq!(asked(&fleet, joined).as_deref(), Some("2.0.0"));
}

#[test]
fn settings_that_cannot_work_are_invalid() {
    for (value, expected) in [
        (json!({"maxFailures": "many"}), "maxFailures"),
        (json!({"waves": [{"percent": 0}]}), "percent 0"),
        (
            json!({"waves": [{"selector": {"matchExpressions": [{"key": "ring", "operator": "Odd"}]}}]}),
            "a wave 1 with a selector that cannot be read",
        ),
        (
            json!({"waves": [{}, {"maxConcurrent": 0}]}),
            "a wave 2 with maxConcurrent 0",
        ),
    ] {
        let mut fleet = Fleet::new(2, rollout(value));
        fleet.settle();
        let hold = fleet.environment_hold_text();
        assert!(hold.contains(expected), "{hold}");
    }
}
