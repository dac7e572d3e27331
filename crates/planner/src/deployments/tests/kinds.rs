//! What environments remember, and how each revision came.

use api::{
    Promotion, Time,
    pipeline::{EarlierStay, EnvironmentStatus, FailedRelease, RanRevision, TargetStatus},
};

use super::{at, deployments, promotion, promotions, rollback};
use crate::time::Timestamp;

/// What `prod` remembers, and what its deployments are, each with its kind and its promotion.
fn check_kinds(status: &EnvironmentStatus, all: &[Promotion], expected: &[&str]) {
    let minute = |at: Timestamp| (at.as_second() - 1_800_000_000) / 60;
    let lane = deployments("prod", Some(status), all).into_iter();
    let shown = lane.map(|it| {
        let until = it
            .until
            .map_or("now".to_owned(), |at| minute(at).to_string());
        let by = it
            .promotion
            .map(|it| format!(" by {it}"))
            .unwrap_or_default();
        format!(
            "{} {:?} {}-{until}{by}",
            it.revision,
            it.kind,
            minute(it.from)
        )
    });
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

fn stay(revision: &str, from: i64, until: Option<i64>, promotion: Option<&str>) -> RanRevision {
    RanRevision {
        revision: revision.to_owned(),
        all_ready_at: Some(Time(at(from))),
        left_at: until.map(|until| Time(at(until))),
        promotion: promotion.map(str::to_owned),
        ..RanRevision::default()
    }
}

/// The failed release took the place of what ran, until that came back.
#[test]
fn what_runs_again_after_a_failed_release_came_back() {
    let failure = FailedRelease {
        revision: "2.0".to_owned(),
        at: Some(Time(at(20))),
        ended_at: Some(Time(at(30))),
        ..FailedRelease::default()
    };
    let status = EnvironmentStatus {
        ran: vec![stay("1.0", 10, None, Some("prod-1.0"))],
        failures: vec![failure],
        ..EnvironmentStatus::default()
    };
    check_kinds(
        &status,
        &[],
        &[
            "1.0 Release 10-20 by prod-1.0",
            "2.0 Failed 20-30",
            "1.0 Rollback 30-now",
        ],
    );
}

/// A release that failed again after its promotion failed is told once.
#[test]
fn a_failure_that_its_promotion_tells_of_is_told_once() {
    let failure = |revision: &str, minute: i64| FailedRelease {
        revision: revision.to_owned(),
        at: Some(Time(at(minute))),
        ..FailedRelease::default()
    };
    let status = EnvironmentStatus {
        failures: vec![failure("2.0", 31), failure("1.0", 12)],
        ..EnvironmentStatus::default()
    };
    check_kinds(
        &status,
        &promotions(&["prod 1.0 ok 10", "prod 2.0 failed 30"]),
        &[
            "1.0 Release 10-12 by prod-1.0",
            "1.0 Failed 12-30",
            "2.0 Failed 30-30 by prod-2.0",
        ],
    );
}

#[test]
fn a_promotion_of_a_stay_that_did_not_go_back_is_a_release() {
    let status = EnvironmentStatus {
        ran: vec![
            stay("2.0", 40, None, Some("prod-2.0")),
            stay("1.0", 10, Some(39), None),
        ],
        ..EnvironmentStatus::default()
    };
    let mut back = rollback("prod 2.0 ok 39");
    back.metadata.name = Some("prod-back".to_owned());
    // One of its promotions, of another target, went back.
    check_kinds(
        &status,
        &[promotion("prod 2.0 ok 41"), back],
        &["1.0 Release 10-39", "2.0 Rollback 40-now by prod-2.0"],
    );
    check_kinds(
        &status,
        &[rollback("prod 2.0 ok 41"), promotion("prod 2.0 ok 41")],
        &["1.0 Release 10-39", "2.0 Rollback 40-now by prod-2.0"],
    );
}

#[test]
fn what_runs_and_nothing_else_tells_of_is_a_release() {
    let target = |revision: &str, since: i64| TargetStatus {
        revision: Some(revision.to_owned()),
        ready: true,
        ready_since: Some(Time(at(since))),
        ..TargetStatus::default()
    };
    let with = |ran: Vec<RanRevision>, targets: Vec<TargetStatus>| EnvironmentStatus {
        ran,
        targets,
        ..EnvironmentStatus::default()
    };
    let first = || vec![stay("1.0", 10, None, None)];
    check_kinds(
        &with(first(), vec![target("1.0", 10), target("2.0", 40)]),
        &[],
        &["1.0 Release 10-40", "2.0 Release 40-now"],
    );
    // It came when all its targets had it, or was deployed again since.
    check_kinds(
        &with(first(), vec![target("1.0", 8)]),
        &[],
        &["1.0 Release 10-now"],
    );
    check_kinds(
        &with(first(), vec![target("1.0", 10)]),
        &[],
        &["1.0 Release 10-now"],
    );
    check_kinds(
        &with(first(), vec![target("1.0", 12)]),
        &[],
        &["1.0 Release 10-now"],
    );
    // Another one came after it.
    check_kinds(
        &with(first(), vec![target("0.9", 8)]),
        &[],
        &["0.9 Release 8-10", "1.0 Release 10-now"],
    );
}

#[test]
fn an_older_revision_that_ran_before_and_came_alone_is_a_rollback() {
    let status = |last: RanRevision| EnvironmentStatus {
        ran: vec![
            RanRevision {
                earlier_stays: vec![EarlierStay {
                    ready_at: Some(Time(at(10))),
                    left_at: Some(Time(at(19))),
                    promotion: None,
                }],
                ..last
            },
            stay("2.0.0", 20, Some(39), None),
        ],
        ..EnvironmentStatus::default()
    };
    let ran = ["1.0.0 Release 10-19", "2.0.0 Release 20-39"];
    check_kinds(
        &status(stay("1.0.0", 40, None, None)),
        &[],
        &[ran[0], ran[1], "1.0.0 Rollback 40-now"],
    );
    // A promotion that was no rollback brought it.
    check_kinds(
        &status(stay("1.0.0", 40, None, Some("prod-1.0.0"))),
        &[],
        &[ran[0], ran[1], "1.0.0 Release 40-now by prod-1.0.0"],
    );
    // It failed when it came first, and did not run.
    let mut first = stay("1.0.0", 40, None, None);
    first.earlier_stays.clear();
    let failed = FailedRelease {
        revision: "1.0.0".to_owned(),
        at: Some(Time(at(10))),
        ..FailedRelease::default()
    };
    let failed = EnvironmentStatus {
        ran: vec![first, stay("2.0.0", 20, Some(39), None)],
        failures: vec![failed],
        ..EnvironmentStatus::default()
    };
    check_kinds(
        &failed,
        &[],
        &["1.0.0 Failed 10-20", ran[1], "1.0.0 Release 40-now"],
    );
}
