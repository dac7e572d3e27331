//! What is known about an app whose workload Flagger analyses, after a series of looks.

use std::time::Duration;

use api::{
    Pipeline, Revision, Time,
    app::AppReading,
    flagger::{Canary, CanaryPhase},
    pipeline::{AppReference, Environment, PipelineSpec, Target, TargetStatus},
};
use planner::{
    ObservedApp, ObservedCanaries, ObservedEnvironment, ObservedPipeline, ObservedTarget,
    TargetState, Timestamp, fold, plan,
};

use crate::drawing::pull_request;

fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
}

fn pipeline() -> Pipeline {
    let environment = |name: &str| Environment {
        name: name.to_owned(),
        targets: vec![Target {
            namespace: name.to_owned(),
            ..Target::default()
        }],
        ..Environment::default()
    };
    let spec = PipelineSpec {
        app_ref: Some(AppReference {
            api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
            kind: "HelmRelease".to_owned(),
            name: "shop".to_owned(),
        }),
        promotion: Some(api::pipeline::PromotionSettings {
            strategy: pull_request(),
            ..Default::default()
        }),
        environments: vec![environment("dev"), environment("prod")],
        ..PipelineSpec::default()
    };
    let mut pipeline = Pipeline::new("shop", spec);
    pipeline.metadata.namespace = Some("default".to_owned());
    pipeline
}

/// `Succeeded at 3`, `Failed at 3`, `Progressing`, with `same` where nothing but what passed was
/// analysed, `suspended`; an interval is a minute.
fn canary(text: &str) -> Canary {
    let mut words = text.split_whitespace();
    let mut canary = Canary {
        name: "web".to_owned(),
        differs: true,
        interval: Duration::from_secs(60),
        ..Canary::default()
    };
    canary.phase = match words.next().unwrap() {
        "Initialized" => CanaryPhase::Initialized,
        "Succeeded" => CanaryPhase::Succeeded,
        "Failed" => CanaryPhase::Failed,
        "Promoting" => CanaryPhase::Promoting,
        "absent" => CanaryPhase::Absent,
        other => CanaryPhase::Other(other.to_owned()),
    };
    while let Some(word) = words.next() {
        match word {
            "at" => {
                let at = words.next().unwrap().parse().unwrap();
                canary.changed_at = Some(Time(minute(at)));
            }
            "same" => canary.differs = false,
            "suspended" => canary.suspended = true,
            "said" => canary.message = Some("checks failed".to_owned()),
            other => panic!("{other:?} is not in the notation"),
        }
    }
    canary
}

/// A HelmRelease that Flux calls ready.
fn app(revision: &str, canaries: ObservedCanaries) -> ObservedApp {
    ObservedApp {
        api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
        kind: "HelmRelease".to_owned(),
        name: "shop".to_owned(),
        reading: AppReading {
            revision: Revision::new(revision),
            version: Some(revision.to_owned()),
            ready: true,
            ..AppReading::default()
        },
        canaries,
        ..ObservedApp::default()
    }
}

fn seen(dev: ObservedApp) -> ObservedPipeline {
    let environment = |name: &str, app: ObservedApp| ObservedEnvironment {
        name: name.to_owned(),
        targets: vec![ObservedTarget {
            cluster: None,
            namespace: name.to_owned(),
            relies_on_reports: false,
            state: TargetState::Observed(vec![app]),
        }],
    };
    ObservedPipeline {
        environments: vec![
            environment("dev", dev),
            environment("prod", app("0.1.0", ObservedCanaries::default())),
        ],
        ..ObservedPipeline::default()
    }
}

fn drawn(target: &TargetStatus) -> String {
    let revision = target.revision.as_deref().unwrap_or("-");
    match (&target.failed, &target.error) {
        (Some(failed), Some(error)) => format!("{failed} failed: {error}"),
        (None, Some(error)) => format!("{revision} waits: {error}"),
        _ if target.ready => format!("{revision} ready"),
        _ => format!("{revision} ?"),
    }
}

/// Looks at dev again and again. Each line: the minute, the revision that Flux calls ready, the
/// Canary (`none` without one), and after `->` what is then known; `again N` is the minute in which
/// time alone changes that.
fn check(life: &str) {
    let mut pipeline = pipeline();
    for line in life.trim().lines() {
        let (look, expected) = line.trim().split_once(" -> ").unwrap();
        let mut words = look.split_whitespace();
        let at = words.next().unwrap().parse().unwrap();
        let revision = words.next().unwrap();
        let rest: Vec<_> = words.collect();
        let canaries = match rest.as_slice() {
            ["none"] => Vec::new(),
            _ => rest.join(" ").split(" and ").map(canary).collect(),
        };
        let seen = seen(app(revision, ObservedCanaries::Known(canaries)));
        let status = fold(&pipeline, &seen, minute(at));
        pipeline.status = Some(status.clone());
        assert_eq!(fold(&pipeline, &seen, minute(at)), status, "{line}");
        let plan = plan(&pipeline, &status, &[], minute(at));
        let target = &status.environments["dev"].targets[0];
        let again = plan.requeue_at.map(|requeue_at| {
            let minutes = (requeue_at.as_second() - minute(0).as_second()) / 60;
            format!(", again {minutes}")
        });
        let known = drawn(target) + &again.unwrap_or_default();
        assert_eq!(known, expected.trim(), "{line}");
        // What is not ready goes nowhere.
        assert_eq!(!plan.steps.is_empty(), target.ready, "{line}");
    }
}

#[test]
fn an_app_without_canaries_is_as_flux_says() {
    check("0 1.0.0 none -> 1.0.0 ready");
}

#[test]
fn an_analysis_is_waited_for() {
    check(
        "0 1.0.0 Initialized at -60 -> 1.0.0 waits: canary web has not analysed 1.0.0 yet, again 2
         2 1.0.0 Initialized at -60 -> 1.0.0 ready
         3 2.0.0 Initialized at -60 -> 2.0.0 waits: canary web has not analysed 2.0.0 yet, again 5
         4 2.0.0 Progressing        -> 2.0.0 waits: canary web is Progressing at 2.0.0
         9 2.0.0 Waiting            -> 2.0.0 waits: canary web is Waiting at 2.0.0
        10 2.0.0 WaitingPromotion   -> 2.0.0 waits: canary web is WaitingPromotion at 2.0.0
        11 2.0.0 Promoting          -> 2.0.0 waits: canary web is promoting 2.0.0
        12 2.0.0 Succeeded at 12    -> 2.0.0 ready
        99 2.0.0 Succeeded at 12    -> 2.0.0 ready",
    );
}

#[test]
fn a_failed_analysis_is_a_failure_of_the_revision() {
    check(
        "0 1.0.0 Succeeded at -60      -> 1.0.0 waits: canary web has not analysed 1.0.0 yet, again 2
         2 1.0.0 Succeeded at -60      -> 1.0.0 ready
         3 2.0.0 Progressing           -> 2.0.0 waits: canary web is Progressing at 2.0.0
         8 2.0.0 Failed at 8 said      -> 2.0.0 failed: canary web failed: checks failed
        30 2.0.0 Failed at 8 said      -> 2.0.0 failed: canary web failed: checks failed
        31 3.0.0 Failed at 8 said      -> 3.0.0 waits: canary web has not analysed 3.0.0 yet, again 33
        32 3.0.0 Progressing           -> 3.0.0 waits: canary web is Progressing at 3.0.0
        40 3.0.0 Succeeded at 40       -> 3.0.0 ready",
    );
}

#[test]
fn a_failure_that_was_there_before_the_first_look_is_one() {
    check(
        "0 2.0.0 Failed at -5 -> 2.0.0 waits: canary web has not analysed 2.0.0 yet, again 2
         2 2.0.0 Failed at -5 -> 2.0.0 failed: canary web failed",
    );
}

#[test]
fn a_release_with_the_pods_that_failed_has_failed_too() {
    check(
        "0 2.0.0 Progressing -> 2.0.0 waits: canary web is Progressing at 2.0.0
         1 2.0.0 Failed at 1 -> 2.0.0 failed: canary web failed
         5 2.0.1 Failed at 1 -> 2.0.1 waits: canary web has not analysed 2.0.1 yet, again 7
         7 2.0.1 Failed at 1 -> 2.0.1 failed: canary web failed",
    );
}

#[test]
fn going_back_to_what_flagger_promoted_is_no_failure() {
    check(
        "0 1.0.0 Progressing    -> 1.0.0 waits: canary web is Progressing at 1.0.0
         1 1.0.0 Succeeded at 1 -> 1.0.0 ready
         2 2.0.0 Progressing    -> 2.0.0 waits: canary web is Progressing at 2.0.0
         3 2.0.0 Failed at 3    -> 2.0.0 failed: canary web failed
         5 1.0.0 Failed at 3    -> 1.0.0 waits: canary web has not analysed 1.0.0 yet, again 7
         7 1.0.0 Failed at 3    -> 1.0.0 ready",
    );
}

#[test]
fn a_success_of_the_revision_before_does_not_count() {
    // Flagger finishes one promotion before it looks at the pods again.
    check(
        "0 1.0.0 Progressing    -> 1.0.0 waits: canary web is Progressing at 1.0.0
         5 2.0.0 Promoting      -> 2.0.0 waits: canary web is promoting an earlier revision
         6 2.0.0 Succeeded at 6 -> 2.0.0 waits: canary web has not analysed 2.0.0 yet, again 8
         7 2.0.0 Progressing    -> 2.0.0 waits: canary web is Progressing at 2.0.0
         9 2.0.0 Succeeded at 9 -> 2.0.0 ready",
    );
}

#[test]
fn flagger_that_has_nothing_to_analyse_is_not_waited_for_for_long() {
    check(
        "0 1.0.0 Progressing    -> 1.0.0 waits: canary web is Progressing at 1.0.0
         1 1.0.0 Succeeded at 1 -> 1.0.0 ready
         9 1.0.1 Succeeded at 1 -> 1.0.1 waits: canary web has not analysed 1.0.1 yet, again 11
        11 1.0.1 Succeeded at 1 -> 1.0.1 ready",
    );
}

/// The clock of the cluster is an hour fast.
#[test]
fn a_result_that_was_there_before_does_not_count_whatever_the_clocks_say() {
    check(
        "0 1.0.0 Progressing     -> 1.0.0 waits: canary web is Progressing at 1.0.0
         1 1.0.0 Succeeded at 61 -> 1.0.0 ready
         3 2.0.0 Succeeded at 61 -> 2.0.0 waits: canary web has not analysed 2.0.0 yet, again 5
         4 2.0.0 Progressing     -> 2.0.0 waits: canary web is Progressing at 2.0.0
         6 2.0.0 Succeeded at 66 -> 2.0.0 ready",
    );
}

#[test]
fn every_other_phase_waits() {
    for (phase, expected) in [
        ("absent", "canary web is not initialized yet"),
        ("Initializing", "canary web is Initializing at 1.0.0"),
        ("Terminating", "canary web is Terminating at 1.0.0"),
        ("Failed at 1 same", "canary web failed"),
        (
            "Succeeded at -1 suspended",
            "canary web is suspended: Flagger does not analyse 1.0.0 until it is resumed",
        ),
    ] {
        check(&format!("0 1.0.0 {phase} -> 1.0.0 waits: {expected}"));
    }
}

#[test]
fn of_several_canaries_the_worst_counts() {
    check(
        "0 1.0.0 Progressing and Progressing       -> 1.0.0 waits: canary web is Progressing at 1.0.0
         5 1.0.0 Succeeded at 5 and Progressing    -> 1.0.0 waits: canary web is Progressing at 1.0.0
         6 1.0.0 Succeeded at 5 and Failed at 6    -> 1.0.0 failed: canary web failed
         7 1.0.0 Succeeded at 5 and Succeeded at 7 -> 1.0.0 ready",
    );
}

#[test]
fn an_app_that_was_ready_before_canaries_were_read_stays_so() {
    check(
        "0 1.0.0 none            -> 1.0.0 ready
        60 1.0.0 Succeeded at -9 -> 1.0.0 ready",
    );
}

#[test]
fn canaries_that_cannot_be_told_are_asked_for_again() {
    let mut pipeline = pipeline();
    let because = "images could not be read in time".to_owned();
    let look = seen(app("1.0.0", ObservedCanaries::Unknown { because }));
    let status = fold(&pipeline, &look, minute(0));
    let target = &status.environments["dev"].targets[0];
    assert_eq!(
        drawn(target),
        "1.0.0 waits: images could not be read in time"
    );
    let plan = plan(&pipeline, &status, &[], minute(0));
    assert!(
        plan.requeue_at
            .is_some_and(|requeue_at| requeue_at < minute(1)),
        "{plan:?}"
    );
    pipeline.status = Some(status);
    let known = seen(app("1.0.0", ObservedCanaries::default()));
    let status = fold(&pipeline, &known, minute(1));
    assert_eq!(drawn(&status.environments["dev"].targets[0]), "1.0.0 ready");
}

/// A revision that came while nothing could be told is not taken for an older one.
#[test]
fn a_success_before_a_blind_look_does_not_count() {
    let mut pipeline = pipeline();
    let mut look = |at: i64, revision: &str, canaries: ObservedCanaries| {
        let status = fold(&pipeline, &seen(app(revision, canaries)), minute(at));
        pipeline.status = Some(status.clone());
        drawn(&status.environments["dev"].targets[0])
    };
    let known = |text: &str| ObservedCanaries::Known(vec![canary(text)]);
    look(0, "1.0.0", known("Progressing"));
    assert_eq!(look(5, "1.0.0", known("Succeeded at 5")), "1.0.0 ready");
    let because = "images could not be read in time".to_owned();
    look(6, "2.0.0", ObservedCanaries::Unknown { because });
    assert_eq!(
        look(7, "2.0.0", known("Succeeded at 5")),
        "2.0.0 waits: canary web has not analysed 2.0.0 yet"
    );
}

#[test]
fn the_hold_of_the_next_environment_says_why() {
    let mut pipeline = pipeline();
    for (at, phase) in [(0, "Progressing"), (5, "Failed at 5 said")] {
        let canaries = ObservedCanaries::Known(vec![canary(phase)]);
        let status = fold(&pipeline, &seen(app("2.0.0", canaries)), minute(at));
        pipeline.status = Some(status);
    }
    let status = pipeline.status.clone().unwrap();
    let plan = plan(&pipeline, &status, &[], minute(9));
    let hold = plan.environments["prod"].hold.as_ref().unwrap();
    assert_eq!(hold.reason.word(), "SourceNotReady");
    assert_eq!(
        hold.sentence,
        "dev target dev: canary web failed: checks failed"
    );
}

#[test]
fn an_app_that_is_not_ready_says_so_itself() {
    let mut own = app(
        "1.0.0",
        ObservedCanaries::Known(vec![canary("Failed at 3 said")]),
    );
    own.reading.ready = false;
    own.reading.message = Some("no such image".to_owned());
    own.reading.error = Some("it cannot be read".to_owned());
    let status = fold(&pipeline(), &seen(own), minute(0));
    let target = &status.environments["dev"].targets[0];
    assert_eq!(drawn(target), "1.0.0 waits: it cannot be read");
    assert_eq!(target.apps[0].message.as_deref(), Some("no such image"));
}

/// When they were to be read again stays, until that time has come.
#[test]
fn canaries_that_cannot_be_matched_are_read_again_soon() {
    let mut pipeline = pipeline();
    let mut counts_at = |second: i64| {
        let because = "no rights".to_owned();
        let unknown = seen(app("1.0.0", ObservedCanaries::Unknown { because }));
        let now = minute(0) + Duration::from_secs(second as u64);
        let status = fold(&pipeline, &unknown, now);
        let canary = status.environments["dev"].targets[0].apps[0].canary.clone();
        pipeline.status = Some(status);
        canary.unwrap().counts_at.unwrap().0.as_second() - minute(0).as_second()
    };
    assert_eq!([0, 10, 29].map(&mut counts_at), [30; 3]);
    assert_eq!([30, 45].map(&mut counts_at), [60; 2]);
}
