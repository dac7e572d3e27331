//! What is known after a series of looks at one target or several, a minute apart.

use api::{
    Pipeline, Revision, Time,
    app::AppReading,
    pipeline::{
        AppReference, ClusterReference, Environment, Origin, PipelineSpec, PipelineStatus, Report,
        Source, SourceKind, Target, TargetStatus,
    },
};
use planner::{
    ObservedApp, ObservedEnvironment, ObservedPipeline, ObservedSource, ObservedTarget,
    RELEASE_REPORT, TargetState, Timestamp, fold,
};
use proptest::prelude::*;

pub(crate) fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
}

pub(crate) fn pipeline() -> Pipeline {
    let mut pipeline = Pipeline::new(
        "shop",
        PipelineSpec {
            app_ref: Some(AppReference {
                api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
                kind: "HelmRelease".to_owned(),
                name: "shop".to_owned(),
            }),
            environments: vec![Environment {
                name: "dev".to_owned(),
                targets: vec![Target::default()],
                ..Environment::default()
            }],
            ..PipelineSpec::default()
        },
    );
    pipeline.metadata.namespace = Some("default".to_owned());
    pipeline.metadata.generation = Some(3);
    pipeline
}

/// `v1 ok`, `v1 broken`, `v1 failed v2`, `missing`, `unreachable`, `cluster missing` and so on.
fn state(text: &str) -> TargetState {
    let words: Vec<_> = text.split_whitespace().collect();
    let app = |reading| {
        TargetState::Observed(vec![ObservedApp {
            api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
            kind: "HelmRelease".to_owned(),
            name: "shop".to_owned(),
            reading,
            ..ObservedApp::default()
        }])
    };
    let reading = |revision: &str| AppReading {
        revision: Revision::new(revision),
        version: Some(revision.to_owned()),
        ..AppReading::default()
    };
    match words.as_slice() {
        ["missing"] => TargetState::Missing,
        ["namespace", "missing"] => TargetState::NamespaceMissing,
        ["kind", "missing"] => TargetState::KindMissing,
        ["cluster", "missing"] => TargetState::ClusterMissing,
        ["cluster", "not", "ready"] => TargetState::ClusterNotReady,
        ["not", "synced"] => TargetState::NotSynced,
        ["not", "watched"] => TargetState::NotWatched,
        ["unreachable"] => TargetState::Unreachable {
            because: "connection refused".to_owned(),
        },
        ["forbidden"] => TargetState::Forbidden {
            because: "no rights".to_owned(),
        },
        ["refused"] => TargetState::Refused {
            because: "another team's".to_owned(),
        },
        ["none"] => TargetState::Observed(Vec::new()),
        [revision, "ok"] => app(AppReading {
            ready: true,
            ..reading(revision)
        }),
        [revision, "broken"] => app(reading(revision)),
        [revision, "failed", attempted] => app(AppReading {
            failed: true,
            attempted: Revision::new(attempted),
            ..reading(revision)
        }),
        _ => panic!("{text:?} is not in the notation"),
    }
}

pub(crate) fn seen(targets: &str, relies_on_reports: bool) -> ObservedPipeline {
    let target = |(index, text): (usize, &str)| ObservedTarget {
        cluster: (index > 0).then(|| ClusterReference {
            kind: "GitopsCluster".to_owned(),
            name: format!("c{index}"),
            ..ClusterReference::default()
        }),
        namespace: "shop".to_owned(),
        relies_on_reports,
        state: state(text),
    };
    ObservedPipeline {
        environments: vec![ObservedEnvironment {
            name: "dev".to_owned(),
            targets: targets.split(',').enumerate().map(target).collect(),
        }],
        ..ObservedPipeline::default()
    }
}

fn since(time: Option<&Time>) -> String {
    let Some(time) = time else {
        return String::new();
    };
    let minutes = (time.0.as_second() - minute(0).as_second()) / 60;
    format!(" since {minutes}m")
}

pub(crate) fn line(target: &TargetStatus) -> String {
    let mut text = target.revision.clone().unwrap_or("-".to_owned());
    text += if target.ready { " ready" } else { " not ready" };
    text += &since(target.ready_since.as_ref());
    if let Some(failed) = &target.failed {
        text += &format!(", {failed} failed");
    }
    if let Some(problem) = target.problem {
        text += &format!(", {problem:?}");
    }
    if let Some(error) = &target.error {
        text += &format!(" ({error})");
    }
    text
}

/// The status after each look, and that looking again changes nothing.
pub(crate) fn statuses(pipeline: &mut Pipeline, looks: &[ObservedPipeline]) -> Vec<PipelineStatus> {
    let mut statuses = Vec::new();
    for (index, seen) in looks.iter().enumerate() {
        let now = minute(index as i64);
        let status = fold(pipeline, seen, now);
        pipeline.status = Some(status.clone());
        let again = fold(pipeline, seen, minute(index as i64 + 1000));
        assert_eq!(again, status, "folding {seen:?} twice");
        statuses.push(status);
    }
    statuses
}

#[track_caller]
fn check(looks: &[&str], expected: &[&str]) {
    let looks: Vec<_> = looks.iter().map(|text| seen(text, false)).collect();
    let lines: Vec<_> = statuses(&mut pipeline(), &looks)
        .iter()
        .map(|status| {
            let lines: Vec<_> = status.environments["dev"]
                .targets
                .iter()
                .map(line)
                .collect();
            lines.join("; ")
        })
        .collect();
    assert_eq!(lines, expected);
}

#[test]
fn ready_since_lasts_while_nothing_changes() {
    check(
        &["v1 ok", "v1 ok", "v1 ok"],
        &[
            "v1 ready since 0m",
            "v1 ready since 0m",
            "v1 ready since 0m",
        ],
    );
}

#[test]
fn a_clock_that_was_set_back_keeps_nothing_waiting() {
    let mut pipeline = pipeline();
    let mut since = |minutes| {
        let status = fold(&pipeline, &seen("v1 ok", false), minute(minutes));
        let line = line(&status.environments["dev"].targets[0]);
        pipeline.status = Some(status);
        line
    };
    assert_eq!(since(90), "v1 ready since 90m");
    assert_eq!(since(10), "v1 ready since 10m");
    assert_eq!(since(11), "v1 ready since 10m");
}

#[test]
fn a_new_revision_or_a_break_starts_the_time_again() {
    check(
        &["v1 ok", "v2 ok", "v2 broken", "v2 ok"],
        &[
            "v1 ready since 0m",
            "v2 ready since 1m",
            "v2 not ready",
            "v2 ready since 3m",
        ],
    );
}

#[test]
fn where_a_pipeline_may_not_look_nothing_is_kept() {
    check(
        &["v1 ok", "refused", "v1 ok"],
        &[
            "v1 ready since 0m",
            "- not ready, Forbidden (not allowed: another team's)",
            "v1 ready since 2m",
        ],
    );
}

#[test]
fn being_out_of_sight_is_no_break() {
    for (hidden, shown) in [
        (
            "unreachable",
            "Unreachable (not reachable: connection refused)",
        ),
        ("forbidden", "Forbidden (not allowed: no rights)"),
        (
            "not synced",
            "NotSynced (Target cluster client is not synced)",
        ),
        (
            "cluster not ready",
            "ClusterNotReady (Target cluster '' not ready)",
        ),
        (
            "cluster missing",
            "ClusterMissing (Target cluster '' not found)",
        ),
    ] {
        check(
            &["v1 ok", hidden, "v1 ok"],
            &[
                "v1 ready since 0m",
                &format!("v1 not ready since 0m, {shown}"),
                "v1 ready since 0m",
            ],
        );
    }
    check(
        &["v1 ok", "unreachable", "v2 ok"],
        &[
            "v1 ready since 0m",
            "v1 not ready since 0m, Unreachable (not reachable: connection refused)",
            "v2 ready since 2m",
        ],
    );
}

#[test]
fn an_app_that_was_seen_to_be_gone_is_a_break() {
    for (gone, shown) in [
        (
            "missing",
            "AppMissing (HelmRelease \"shop\" not found in namespace shop)",
        ),
        (
            "none",
            "AppMissing (HelmRelease \"shop\" not found in namespace shop)",
        ),
        (
            "namespace missing",
            "NamespaceMissing (namespace \"shop\" not found)",
        ),
        (
            "kind missing",
            "KindMissing (the cluster has no kind HelmRelease in helm.toolkit.fluxcd.io/v2)",
        ),
    ] {
        check(
            &["v1 ok", gone, "v1 ok"],
            &[
                "v1 ready since 0m",
                &format!("- not ready, {shown}"),
                "v1 ready since 2m",
            ],
        );
    }
}

#[test]
fn a_failed_try_is_kept_beside_what_runs() {
    check(
        &["v1 ok", "v1 failed v2", "v2 ok"],
        &[
            "v1 ready since 0m",
            "v1 not ready, v2 failed",
            "v2 ready since 2m",
        ],
    );
}

#[test]
fn targets_are_told_apart_by_cluster_and_namespace() {
    check(
        &["v1 ok,v1 ok", "v1 ok,v2 ok"],
        &[
            "v1 ready since 0m; v1 ready since 0m",
            "v1 ready since 0m; v2 ready since 1m",
        ],
    );
}

/// Targets become ready one after the other; then they are listed the other way round.
#[test]
fn targets_are_found_again_in_another_order() {
    /// Namespace and name of the cluster, and the namespace on it.
    type Place = (Option<(&'static str, &'static str)>, &'static str);
    let places: [Place; 5] = [
        (None, "shop"),
        (Some(("a", "c1")), "shop"),
        (Some(("b", "c1")), "shop"),
        (Some(("a", "c2")), "shop"),
        (Some(("a", "c1")), "other"),
    ];
    let look = |ready: usize| {
        let target = |(index, (cluster, namespace)): (usize, &Place)| {
            let cluster = cluster.map(|(namespace, name)| ClusterReference {
                kind: "GitopsCluster".to_owned(),
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
                ..ClusterReference::default()
            });
            ObservedTarget {
                cluster,
                namespace: (*namespace).to_owned(),
                relies_on_reports: false,
                state: state(if index < ready { "v1 ok" } else { "v1 broken" }),
            }
        };
        let mut seen = seen("none", false);
        seen.environments[0].targets = places.iter().enumerate().map(target).collect();
        seen
    };
    let mut looks: Vec<_> = (1..=places.len()).map(look).collect();
    let mut last = look(places.len());
    last.environments[0].targets.reverse();
    looks.push(last);
    let last = statuses(&mut pipeline(), &looks).pop().unwrap();
    let lines: Vec<_> = last.environments["dev"].targets.iter().map(line).collect();
    let expected = [4, 3, 2, 1, 0].map(|minutes| format!("v1 ready since {minutes}m"));
    assert_eq!(lines, expected);
}

#[test]
fn the_apps_of_a_target_are_one() {
    for (apps, expected) in [
        ("v1 ok + v1 ok", "v1 ready since 0m"),
        ("v1 ok + v1 broken", "v1 not ready"),
        ("v1 ok + v2 ok", "- ready since 0m"),
        ("v1 ok + v1 failed v2", "v1 not ready, v2 failed"),
        ("v1 failed v2 + v1 failed v3", "v1 not ready, v2 failed"),
    ] {
        let mut apps_of = Vec::new();
        for (index, text) in apps.split(" + ").enumerate() {
            let TargetState::Observed(found) = state(text) else {
                panic!("{text:?} is no app");
            };
            let name = format!("shop-{index}");
            apps_of.extend(found.into_iter().map(|app| ObservedApp {
                name: name.clone(),
                ..app
            }));
        }
        let mut seen = seen("none", false);
        seen.environments[0].targets[0].state = TargetState::Observed(apps_of);
        let status = statuses(&mut pipeline(), &[seen]).pop().unwrap();
        let target = &status.environments["dev"].targets[0];
        assert_eq!(line(target), expected, "{apps}");
        let version = (expected.starts_with("v1")).then_some("v1");
        assert_eq!(target.shown_revision().as_deref(), version, "{apps}");
    }
}

#[track_caller]
fn check_ran(looks: &[&str], expected: &[&str]) {
    let looks: Vec<_> = looks.iter().map(|text| seen(text, false)).collect();
    let statuses = statuses(&mut pipeline(), &looks);
    let ran: Vec<_> = statuses.last().unwrap().environments["dev"]
        .ran_revisions()
        .collect();
    assert_eq!(ran, expected);
}

#[test]
fn what_ran_is_remembered_newest_first() {
    check_ran(
        &["v1.0.0 ok", "v2.0.0 broken", "v3.0.0 ok"],
        &["v3.0.0", "v2.0.0", "v1.0.0"],
    );
    check_ran(&["a ok", "b ok", "a ok"], &["a", "b"]);
    check_ran(&["a ok", "unreachable", "a ok"], &["a"]);
    check_ran(&["2.0.0 ok,1.0.0 ok"], &["2.0.0", "1.0.0"]);
    check_ran(
        &["1.0.0 ok,1.0.0 ok", "2.0.0 ok,1.0.0 ok"],
        &["2.0.0", "1.0.0"],
    );
    check_ran(&["b ok,missing", "a ok,missing", "a ok,b ok"], &["a", "b"]);
    let many: Vec<_> = (0..30).map(|n| format!("{n} ok")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let last: Vec<_> = (10..30).rev().map(|n| n.to_string()).collect();
    let last: Vec<_> = last.iter().map(String::as_str).collect();
    check_ran(&many, &last);
}

#[track_caller]
fn check_ready(targets: &str, relies_on_reports: bool, expected: &str) {
    let statuses = statuses(&mut pipeline(), &[seen(targets, relies_on_reports)]);
    let ready = &statuses[0].conditions[0];
    assert_eq!(
        format!("{} {}: {}", ready.status, ready.reason, ready.message),
        expected
    );
}

#[test]
fn ready_has_the_texts_of_the_weave_pipeline_controller() {
    check_ready(
        "v1 broken",
        false,
        "True ReconciliationSucceeded: All clusters checked",
    );
    for problem in ["missing", "unreachable", "cluster missing"] {
        check_ready(
            &format!("v1 ok,{problem}"),
            false,
            "False TargetNotReadable: One or more targets was not reachable or not present",
        );
    }
    check_ready(
        "v1 ok,cluster missing",
        true,
        "False TargetClusterNotFound: Target cluster 'GitopsCluster/c1' not found",
    );
    check_ready(
        "v1 ok,cluster not ready",
        true,
        "False TargetClusterNotReady: Target cluster 'GitopsCluster/c1' not ready",
    );
}

#[test]
fn a_condition_moves_only_with_its_status() {
    let looks: Vec<_> = ["v1 ok", "missing", "unreachable", "v1 ok"]
        .iter()
        .map(|text| seen(text, false))
        .collect();
    let times: Vec<_> = statuses(&mut pipeline(), &looks)
        .iter()
        .map(|status| since(Some(&status.conditions[0].last_transition_time)))
        .collect();
    assert_eq!(times, [" since 0m", " since 1m", " since 1m", " since 3m"]);
}

/// `key revision severity reason [unsigned]`.
fn report(text: &str) -> (String, Report) {
    let words: Vec<_> = text.split_whitespace().collect();
    let report = Report {
        revision: words[1].to_owned(),
        severity: Some(words[2].to_owned()),
        reason: Some(words[3].to_owned()),
        signed: words.get(4) != Some(&"unsigned"),
        ..Report::default()
    };
    (words[0].to_owned(), report)
}

#[track_caller]
fn check_reports(reports: &[&str], expected: &[&str]) {
    let mut pipeline = pipeline();
    let mut lines = Vec::new();
    for (index, text) in reports.iter().enumerate() {
        let mut status = pipeline.status.take().unwrap_or_default();
        status.reports.extend([report(text)]);
        pipeline.status = Some(status);
        let seen = seen("not watched,not watched", true);
        let status = fold(&pipeline, &seen, minute(index as i64));
        pipeline.status = Some(status.clone());
        assert_eq!(fold(&pipeline, &seen, minute(1000)), status, "folded twice");
        let dev = &status.environments["dev"];
        let mut text = line(&dev.targets[0]);
        if let Some(reported) = &dev.reported {
            text += &format!("; somewhere {}", reported.revision);
            text += &since(reported.ready_since.as_ref());
        }
        lines.push(text);
    }
    assert_eq!(lines, expected);
}

#[test]
fn failures_are_remembered_once() {
    let looks = [
        "v1 ok,v1 ok",
        "v1 failed v2,v1 failed v2",
        "v1 failed v2,v1 broken",
        "v1 failed v2,unreachable",
        "v1 failed v3,v1 ok",
        "v4 ok,v4 ok",
        "v4 failed v2,v4 ok",
    ];
    let looks: Vec<_> = looks.iter().map(|text| seen(text, false)).collect();
    let statuses = statuses(&mut pipeline(), &looks);
    let told = |status: &PipelineStatus| {
        let failures = status.environments["dev"].failures.iter();
        let failures = failures.map(|it| {
            let at = since(it.at.as_ref());
            format!("{} in {}{at}", it.revision, it.target)
        });
        failures.collect::<Vec<_>>().join(", ")
    };
    let told: Vec<_> = statuses.iter().map(told).collect();
    assert_eq!(
        told,
        [
            "",
            "v2 in shop since 1m",
            "v2 in shop since 1m",
            "v2 in shop since 1m",
            "v3 in shop since 4m, v2 in shop since 1m",
            "v3 in shop since 4m, v2 in shop since 1m",
            "v2 in shop since 6m, v3 in shop since 4m",
        ]
    );
}

#[test]
fn a_failure_is_kept_with_what_is_said_about_it() {
    let mut pipeline = pipeline();
    let mut status = PipelineStatus::default();
    let report = api::pipeline::Report {
        revision: "2.0.0".to_owned(),
        severity: Some("error".to_owned()),
        reason: Some("UpgradeFailed".to_owned()),
        message: Some("timed out".to_owned()),
        signed: true,
        ..Default::default()
    };
    status.reports.insert("dev/-/shop".to_owned(), report);
    pipeline.status = Some(status);
    let status = fold(&pipeline, &seen("not watched", true), minute(0));
    let dev = &status.environments["dev"];
    let failed = planner::failed_release(&dev.targets[0]);
    assert_eq!(failed.as_deref(), Some("2.0.0 failed: timed out"));
    assert_eq!(dev.failures[0].message.as_deref(), Some("timed out"));
    // An app that gets ready all the same has not failed.
    let TargetState::Observed(mut apps) = state("v1 ok") else {
        panic!("no app");
    };
    apps[0].reading.failed = true;
    apps[0].reading.attempted = Revision::new("v1");
    let mut look = seen("v1 ok", false);
    look.environments[0].targets[0].state = TargetState::Observed(apps);
    let status = fold(&pipeline, &look, minute(0));
    assert_eq!(status.environments["dev"].targets[0].failed, None);
}

#[test]
fn reports_count_where_nothing_watches() {
    check_reports(
        &[
            "dev/-/shop 1.0.0 info UpgradeSucceeded",
            "dev/-/shop 1.0.0 info UpgradeSucceeded",
            "dev/-/shop 2.0.0 info HelmChartCreated",
            "dev/-/shop 2.0.0 error UpgradeFailed",
            "dev/-/shop 2.0.0 info UpgradeSucceeded",
        ],
        &[
            "1.0.0 ready since 0m",
            "1.0.0 ready since 0m",
            "1.0.0 ready since 0m",
            "1.0.0 not ready, 2.0.0 failed",
            "2.0.0 ready since 4m",
        ],
    );
    check_reports(
        &["dev/c1/shop 1.0.0 info UpgradeSucceeded"],
        &["- not ready"],
    );
    check_reports(
        &["dev/-/shop 1.0.0+0123456789ab info UpgradeSucceeded"],
        &["1.0.0 ready since 0m"],
    );
}

#[test]
fn a_report_of_failure_is_never_a_deployment() {
    for bad in [
        "error Anything",
        "info InstallFailed",
        "info UninstallSucceeded",
        "info RollbackSucceeded",
    ] {
        check_reports(
            &[&format!("dev/-/shop 1.0.0 {bad}")],
            &["- not ready, 1.0.0 failed"],
        );
    }
    for early in [
        "info HelmChartCreated",
        "info Progressing",
        "info DependencyNotReady",
    ] {
        check_reports(&[&format!("dev/-/shop 1.0.0 {early}")], &["- not ready"]);
    }
}

#[test]
fn a_report_without_signature_or_target_proves_little() {
    check_reports(
        &["dev/-/shop 1.0.0 info UpgradeSucceeded unsigned"],
        &["- not ready"],
    );
    check_reports(
        &[
            "dev 1.0.0 info UpgradeSucceeded",
            "dev 1.0.0 info Progressing",
            "dev 1.0.0 error UpgradeFailed",
        ],
        &[
            "- not ready; somewhere 1.0.0 since 0m",
            "- not ready; somewhere 1.0.0 since 0m",
            "- not ready",
        ],
    );
}

#[test]
fn reports_say_nothing_about_watched_targets() {
    let mut pipeline = pipeline();
    let mut status = PipelineStatus::default();
    status.reports.extend([
        report("dev/-/shop 2.0.0 info UpgradeSucceeded"),
        report("dev 2.0.0 info UpgradeSucceeded"),
    ]);
    pipeline.status = Some(status);
    let status = fold(&pipeline, &seen("1.0.0 ok", false), minute(0));
    let dev = &status.environments["dev"];
    assert_eq!(line(&dev.targets[0]), "1.0.0 ready since 0m");
    assert_eq!(dev.reported, None);
    assert_eq!(status.reports.len(), 2, "only the server writes reports");
}

#[test]
fn a_source_proposes() {
    let mut pipeline = pipeline();
    let mut look = seen("v1 ok", false);
    look.source = ObservedSource::Proposes {
        signed: false,
        revision: Revision::new("2.0.0").unwrap(),
        version: "2.0.0".to_owned(),
    };
    assert_eq!(
        fold(&pipeline, &look, minute(0)).proposal,
        None,
        "no source, no proposal"
    );
    let source = |kind| {
        Some(Source {
            kind,
            name: Some("shop".to_owned()),
        })
    };
    pipeline.spec.source = source(SourceKind::HelmChart);
    let status = fold(&pipeline, &look, minute(0));
    let revision = |status: &PipelineStatus| status.proposal.clone()?.revision;
    assert_eq!(revision(&status).as_deref(), Some("2.0.0"));
    pipeline.status = Some(status);
    let kept = fold(&pipeline, &seen("v1 ok", false), minute(1));
    assert_eq!(revision(&kept).as_deref(), Some("2.0.0"));
    look.source = ObservedSource::Nothing {
        because: "not there".to_owned(),
    };
    assert_eq!(revision(&fold(&pipeline, &look, minute(1))), None);
    pipeline.spec.source = source(SourceKind::Hook);
    let mut status = PipelineStatus::default();
    status
        .reports
        .extend([report(&format!("{RELEASE_REPORT} 3.0.0 info Release"))]);
    pipeline.status = Some(status);
    assert_eq!(
        revision(&fold(&pipeline, &look, minute(1))).as_deref(),
        Some("3.0.0")
    );
}

#[test]
fn environments_come_and_go_with_the_spec_and_keep_the_rest() {
    let mut pipeline = pipeline();
    pipeline.status = Some(fold(&pipeline, &seen("v1 ok", false), minute(0)));
    let unseen = fold(&pipeline, &ObservedPipeline::default(), minute(1));
    assert_eq!(
        unseen.environments,
        pipeline.status.clone().unwrap().environments
    );
    pipeline.spec.environments[0].name = "test".to_owned();
    let renamed = fold(&pipeline, &ObservedPipeline::default(), minute(2));
    assert_eq!(renamed.environments.keys().collect::<Vec<_>>(), ["test"]);
    assert_eq!(renamed.observed_generation, Some(3));
}

#[test]
fn images_are_read_once_for_each_change() {
    let with_images = |text: &str, images: Option<&[&str]>| {
        let mut seen = seen(text, false);
        let TargetState::Observed(apps) = &mut seen.environments[0].targets[0].state else {
            panic!("no app in {text:?}");
        };
        apps[0].images = images.map(|images| images.iter().map(|&i| i.to_owned()).collect());
        seen
    };
    let looks = [
        with_images("v1 ok", Some(&["shop:v1"])),
        with_images("v1 ok", None),
    ];
    let statuses = statuses(&mut pipeline(), &looks);
    let app = &statuses[1].environments["dev"].targets[0].apps[0];
    assert_eq!(app.images, ["shop:v1"]);
    let app_seen = |text| match state(text) {
        TargetState::Observed(apps) => apps[0].clone(),
        other => panic!("{other:?}"),
    };
    assert!(!planner::needs_images(Some(app), &app_seen("v1 ok")));
    assert!(planner::needs_images(Some(app), &app_seen("v2 ok")));
    assert!(planner::needs_images(Some(app), &app_seen("v1 broken")));
    assert!(planner::needs_images(None, &app_seen("v1 ok")));
}

#[test]
fn a_thousand_targets_fit_into_a_status() {
    let target = |index: usize| {
        let TargetState::Observed(mut apps) = state("6.5.4 broken") else {
            panic!("no app");
        };
        apps[0].reading.message = Some("upgrade retries exhausted; ".repeat(100));
        apps[0].images = Some(vec!["ghcr.io/acme/shop/frontend:6.5.4".to_owned()]);
        apps[0].origin = Some(Origin {
            url: "https://git.example.com/platform/fleet".to_owned(),
            path: format!("./clusters/production-eu-{index}"),
            branch: Some("main".to_owned()),
        });
        ObservedTarget {
            cluster: Some(ClusterReference {
                kind: "GitopsCluster".to_owned(),
                name: format!("production-eu-{index}"),
                ..ClusterReference::default()
            }),
            namespace: "shop".to_owned(),
            relies_on_reports: false,
            state: TargetState::Observed(apps),
        }
    };
    let seen = ObservedPipeline {
        environments: vec![ObservedEnvironment {
            name: "dev".to_owned(),
            targets: (0..1000).map(target).collect(),
        }],
        ..ObservedPipeline::default()
    };
    let status = fold(&pipeline(), &seen, minute(0));
    let size = serde_json::to_string(&status).unwrap().len();
    assert!(size < 700_000, "{size} bytes");
}

const STATES: &[&str] = &[
    "v1 ok",
    "v2 ok",
    "v1 broken",
    "v1 failed v2",
    "missing",
    "unreachable",
    "cluster missing",
    "not synced",
    "not watched",
    "none",
    "forbidden",
    "refused",
    "main@sha1:abc ok",
    "1.0.0 ok",
];

proptest! {
    #[test]
    fn folding_twice_changes_nothing(
        looks in prop::collection::vec(prop::collection::vec(0..STATES.len(), 1..4), 1..8),
        relies in any::<bool>(),
    ) {
        let looks: Vec<_> = looks
            .iter()
            .map(|look| {
                let states: Vec<_> = look.iter().map(|&state| STATES[state]).collect();
                seen(&states.join(","), relies)
            })
            .collect();
        let mut pipeline = pipeline();
        let statuses = statuses(&mut pipeline, &looks);
        for status in statuses {
            let json = serde_json::to_value(&status).unwrap();
            let read: PipelineStatus = serde_json::from_value(json).unwrap();
            prop_assert_eq!(read, status, "what is stored is what was computed");
        }
    }
}
