use std::time::Duration;

use api::{
    Pipeline, Time,
    pipeline::{EarlierStay, Environment, PipelineStatus, RanRevision, RequestKind},
    promotion::{PromotionRequest, PromotionStatus},
};

use super::*;

mod kinds;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minute * 60).unwrap()
}

/// `prod 2.0 ok 30` is a promotion of 2.0 into prod that succeeded in minute 30.
fn promotion(text: &str) -> Promotion {
    let [environment, revision, result, minute] = text.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    let mut promotion = Promotion::default();
    promotion.metadata.name = Some(format!("{environment}-{revision}"));
    promotion.spec.environment = environment.to_owned();
    promotion.spec.revision = revision.to_owned();
    promotion.spec.version = revision.to_owned();
    let phase = match result {
        "ok" => Phase::Succeeded,
        "failed" => Phase::Failed,
        _ => Phase::Superseded,
    };
    promotion.status = Some(PromotionStatus {
        phase: Some(phase),
        finished_at: Some(Time(at(minute.parse().unwrap()))),
        ..PromotionStatus::default()
    });
    promotion
}

fn promotions(texts: &[&str]) -> Vec<Promotion> {
    texts.iter().map(|text| promotion(text)).collect()
}

fn pipeline() -> Pipeline {
    let mut pipeline = Pipeline::default();
    let names = ["dev", "prod"].map(|name| Environment {
        name: name.to_owned(),
        ..Environment::default()
    });
    pipeline.spec.environments = names.into();
    pipeline
}

fn check_lane(texts: &[&str], expected: &str) {
    let lane = deployments("prod", None, &promotions(texts));
    let minute = |at: Timestamp| (at.as_second() - 1_800_000_000) / 60;
    let shown = lane.iter().map(|it| {
        let until = it
            .until
            .map_or("now".to_owned(), |at| minute(at).to_string());
        let failed = if it.kind == DeploymentKind::Failed {
            " failed"
        } else {
            ""
        };
        format!("{}{failed} {}-{until}", it.revision, minute(it.from))
    });
    assert_eq!(shown.collect::<Vec<_>>().join(", "), expected);
}

#[test]
fn a_revision_runs_until_the_next_one_comes() {
    check_lane(
        &[
            "prod 2.0 ok 30",
            "prod 1.0 ok 10",
            "dev 2.0 ok 20",
            "prod 3.0 gone 40",
        ],
        "1.0 10-30, 2.0 30-now",
    );
}

#[test]
fn what_the_environment_remembers_counts() {
    let ran = |revision: &str, from: i64, until: Option<i64>| RanRevision {
        revision: revision.to_owned(),
        all_ready_at: Some(Time(at(from))),
        left_at: until.map(|until| Time(at(until))),
        ..RanRevision::default()
    };
    let status = EnvironmentStatus {
        ran: vec![
            ran("3.0", 50, None),
            ran("2.0", 20, Some(45)),
            RanRevision::from("1.0"),
        ],
        ..EnvironmentStatus::default()
    };
    let lane = deployments("prod", Some(&status), &promotions(&["prod 3.0 ok 55"]));
    let shown: Vec<_> = lane
        .iter()
        .map(|it| (it.revision.as_str(), it.from, it.until))
        .collect();
    assert_eq!(
        shown,
        [("2.0", at(20), Some(at(45))), ("3.0", at(50), None)]
    );
}

#[test]
fn what_ran_before_a_rollback_stays() {
    let back = RanRevision {
        revision: "1.0".to_owned(),
        all_ready_at: Some(Time(at(40))),
        ..RanRevision::default()
    };
    let status = EnvironmentStatus {
        ran: vec![back],
        ..EnvironmentStatus::default()
    };
    let starts = |texts: &[&str]| -> Vec<(String, Timestamp)> {
        let lane = deployments("prod", Some(&status), &promotions(texts));
        lane.into_iter().map(|it| (it.revision, it.from)).collect()
    };
    let expected = [("1.0", 10), ("2.0", 30), ("1.0", 40)];
    let expected = expected.map(|(revision, minute)| (revision.to_owned(), at(minute)));
    assert_eq!(
        starts(&["prod 1.0 ok 41", "prod 2.0 failed 30", "prod 1.0 ok 10"]),
        expected
    );
    let expected = [("1.0", 40), ("2.0", 50), ("1.0", 60)];
    let expected = expected.map(|(revision, minute)| (revision.to_owned(), at(minute)));
    assert_eq!(
        starts(&["prod 1.0 ok 41", "prod 2.0 failed 50", "prod 1.0 ok 60"]),
        expected
    );
    // Promotions of several targets are one deployment.
    assert_eq!(
        starts(&["prod 1.0 ok 39", "prod 1.0 ok 41", "prod 1.0 ok 10"]),
        [("1.0".to_owned(), at(40))]
    );
}

/// A revision that came back is remembered once; what it was before, its successor says.
#[test]
fn what_the_first_promotion_replaced_ran_before_it() {
    let mut all = promotions(&["prod 2.0 ok 30"]);
    all[0].spec.replaces = Some("1.0".to_owned());
    all[0].metadata.creation_timestamp = Some(Time(at(10)));
    all.push(rollback("prod 1.0 ok 40"));
    let lane = deployments("prod", None, &all);
    let lane = lane.iter().map(|it| (it.revision.as_str(), it.from));
    let expected = [("1.0", at(10)), ("2.0", at(30)), ("1.0", at(40))];
    assert_eq!(lane.collect::<Vec<_>>(), expected);
    let figures = delivery_figures(&pipeline(), &PipelineStatus::default(), &all, at(100));
    assert_eq!((figures.deployments, figures.failed), (1, 1));
}

#[test]
fn a_failed_revision_ends_where_it_was_not_deployed() {
    check_lane(
        &["prod 1.0 ok 10", "prod 2.0 failed 30", "prod 2.1 ok 45"],
        "1.0 10-30, 2.0 failed 30-45, 2.1 45-now",
    );
    check_lane(
        &["prod 1.0 ok 10", "prod 2.0 failed 30"],
        "1.0 10-30, 2.0 failed 30-30",
    );
}

#[test]
fn figures_tell_how_often_how_fast_and_how_well() {
    let all = promotions(&[
        "dev 1.0 ok 0",
        "prod 1.0 ok 10",
        "dev 2.0 ok 100",
        "prod 2.0 failed 130",
        "dev 2.1 ok 140",
        "prod 2.1 ok 150",
        "dev 3.0 ok 200",
        "prod 3.0 ok 260",
    ]);
    let model = PipelineStatus::default();
    let figures = delivery_figures(&pipeline(), &model, &all, at(300));
    let minutes = |count: u64| Some(Duration::from_secs(count * 60));
    let expected = DeliveryFigures {
        deployments: 3,
        lead_time: minutes(10),
        failed: 1,
        all: 8,
        time_to_restore: minutes(20),
    };
    assert_eq!(figures, expected);
    let later = delivery_figures(&pipeline(), &model, &all, at(60 * 24 * 40));
    assert_eq!(
        later,
        DeliveryFigures::default(),
        "all of it is too long ago"
    );
}

/// A promotion that somebody requested to go back.
fn rollback(text: &str) -> Promotion {
    let mut promotion = promotion(text);
    promotion.spec.request = Some(PromotionRequest {
        kind: RequestKind::Rollback,
        ..PromotionRequest::default()
    });
    promotion
}

#[test]
fn a_release_that_was_rolled_back_has_failed() {
    let mut all = promotions(&["dev 2.0 ok 0", "prod 1.0 ok 5", "prod 2.0 ok 30"]);
    let minutes = |count: u64| Some(Duration::from_secs(count * 60));
    let model = PipelineStatus::default();
    let expected = DeliveryFigures {
        deployments: 2,
        lead_time: minutes(30),
        failed: 0,
        all: 3,
        time_to_restore: None,
    };
    let before = delivery_figures(&pipeline(), &model, &all, at(100));
    assert_eq!(before, expected);
    all.push(rollback("prod 1.0 ok 50"));
    let after = delivery_figures(&pipeline(), &model, &all, at(100));
    let expected = DeliveryFigures {
        failed: 1,
        time_to_restore: minutes(20),
        ..expected
    };
    assert_eq!(after, expected);
}

#[test]
fn a_failed_check_after_the_deployment_is_one_failure() {
    let ran = |revision: &str, from: i64| RanRevision {
        revision: revision.to_owned(),
        all_ready_at: Some(Time(at(from))),
        promotion: Some(format!("prod-{revision}")),
        ..RanRevision::default()
    };
    let prod = EnvironmentStatus {
        ran: vec![ran("2.0", 28), ran("1.0", 40)],
        ..EnvironmentStatus::default()
    };
    let model = PipelineStatus {
        environments: [("prod".to_owned(), prod)].into(),
        ..PipelineStatus::default()
    };
    let mut all = promotions(&["prod 1.0 ok 5", "prod 2.0 failed 30"]);
    all.push(rollback("prod 1.0 ok 41"));
    let figures = delivery_figures(&pipeline(), &model, &all, at(100));
    assert_eq!((figures.failed, figures.all), (1, 2));
    assert_eq!(figures.time_to_restore, Some(Duration::from_secs(12 * 60)));
}

#[test]
fn what_ran_before_anything_was_promoted_is_no_deployment() {
    let ran = RanRevision {
        revision: "1.0".to_owned(),
        all_ready_at: Some(Time(at(10))),
        ..RanRevision::default()
    };
    let status = EnvironmentStatus {
        ran: vec![ran],
        ..EnvironmentStatus::default()
    };
    let environments = ["dev", "prod"].map(|name| (name.to_owned(), status.clone()));
    let model = PipelineStatus {
        environments: environments.into(),
        ..PipelineStatus::default()
    };
    let figures = delivery_figures(&pipeline(), &model, &[], at(100));
    assert_eq!(figures, DeliveryFigures::default());
}

#[test]
fn the_lead_time_survives_a_rollback_of_the_first_environment() {
    let mut all = promotions(&["prod 2.0 ok 30"]);
    all[0].metadata.creation_timestamp = Some(Time(at(10)));
    all.push(rollback("dev 2.0 ok 60"));
    let figures = delivery_figures(&pipeline(), &PipelineStatus::default(), &all, at(100));
    assert_eq!(figures.lead_time, Some(Duration::from_secs(20 * 60)));
}

#[test]
fn what_the_environment_remembers_of_earlier_stays_counts() {
    let ran = |revision: &str, from: i64, until: Option<i64>| RanRevision {
        revision: revision.to_owned(),
        all_ready_at: Some(Time(at(from))),
        left_at: until.map(|until| Time(at(until))),
        ..RanRevision::default()
    };
    let earlier = EarlierStay {
        ready_at: Some(Time(at(12))),
        left_at: Some(Time(at(29))),
        promotion: None,
    };
    let status = EnvironmentStatus {
        ran: vec![
            RanRevision {
                earlier_stays: vec![earlier],
                ..ran("2.0", 40, None)
            },
            ran("3.0", 30, Some(39)),
            ran("1.0", 5, Some(10)),
        ],
        ..EnvironmentStatus::default()
    };
    let all = [rollback("dev 2.0 ok 41"), promotion("dev 2.0 ok 13")];
    let lane = deployments("dev", Some(&status), &all);
    let lane = lane
        .iter()
        .map(|it| (&*it.revision, it.from, it.until, it.kind));
    let (release, back) = (DeploymentKind::Release, DeploymentKind::Rollback);
    let expected = [
        ("1.0", at(5), Some(at(10)), release),
        ("2.0", at(12), Some(at(29)), release),
        ("3.0", at(30), Some(at(39)), release),
        ("2.0", at(40), None, back),
    ];
    assert_eq!(lane.collect::<Vec<_>>(), expected);
}

/// A rollback is one while its promotion is still being checked.
#[test]
fn the_promotion_of_a_stay_says_how_it_came() {
    let mut back = rollback("prod 1.0 ok 41");
    back.status = None;
    let ran = RanRevision {
        revision: "1.0".to_owned(),
        all_ready_at: Some(Time(at(40))),
        promotion: back.metadata.name.clone(),
        ..RanRevision::default()
    };
    let status = EnvironmentStatus {
        ran: vec![ran],
        ..EnvironmentStatus::default()
    };
    let lane = deployments("prod", Some(&status), &[back.clone()]);
    assert_eq!(lane[0].kind, DeploymentKind::Rollback);
    // What was there before the promotion was not brought by it.
    back.metadata.creation_timestamp = Some(Time(at(41)));
    let lane = deployments("prod", Some(&status), &[back]);
    assert_eq!(lane[0].kind, DeploymentKind::Release);
    assert_eq!(lane[0].promotion, None);
}

#[test]
fn a_revision_that_is_promoted_again_has_one_lead_time() {
    let all = promotions(&[
        "dev 2.0 ok 0",
        "prod 2.0 ok 10",
        "prod 2.1 ok 20",
        "prod 2.0 ok 500",
    ]);
    let figures = delivery_figures(&pipeline(), &PipelineStatus::default(), &all, at(900));
    assert_eq!(figures.lead_time, Some(Duration::from_secs(10 * 60)));
}

/// A revision that failed in one promotion and was deployed by the next is one change that failed and ran.
#[test]
fn a_second_try_is_the_same_change() {
    let count = |texts: &[&str]| {
        let all = promotions(texts);
        let figures = delivery_figures(&pipeline(), &PipelineStatus::default(), &all, at(100));
        (figures.deployments, figures.failed, figures.all)
    };
    assert_eq!(count(&["prod 1.0 ok 5"]), (1, 0, 1));
    assert_eq!(count(&["prod 1.0 failed 5", "prod 1.0 ok 10"]), (1, 1, 1));
    assert_eq!(count(&["prod 1.0 ok 5", "prod 1.0 failed 10"]), (1, 1, 1));
    assert_eq!(
        count(&["prod 1.0 failed 5", "prod 1.0 failed 10"]),
        (0, 1, 1)
    );
    assert_eq!(count(&["prod 1.0 ok 5", "prod 1.0 ok 10"]), (1, 0, 1));
}

#[test]
fn figures_cover_thirty_days() {
    let deployed = |days: i64| {
        let all = promotions(&["prod 1.0 ok 0"]);
        let now = at(days * 24 * 60);
        delivery_figures(&pipeline(), &PipelineStatus::default(), &all, now).deployments
    };
    assert_eq!((deployed(30), deployed(31)), (1, 0));
}

#[test]
fn the_median_of_two_is_between_them() {
    let all = promotions(&[
        "dev 1.0 ok 0",
        "prod 1.0 ok 10",
        "dev 2.0 ok 100",
        "prod 2.0 ok 120",
    ]);
    let figures = delivery_figures(&pipeline(), &PipelineStatus::default(), &all, at(900));
    assert_eq!(figures.lead_time, Some(Duration::from_secs(15 * 60)));
}
