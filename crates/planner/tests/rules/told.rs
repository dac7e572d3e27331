//! What people and programs are told in few words: labels, what is waited for, and why a revision does not come
//! again.

use api::{
    Condition,
    freeze::FreezeTimes,
    pipeline::{CoveringFreeze, EarlierStay, Evidence, PreflightProblem, RanRevision},
    promotion::Phase,
};
use planner::{Completion, HoldReason, closed_label};

use crate::{
    drawing::{World, ago, draw, now},
    plan::check,
};

#[test]
fn what_fails_has_a_short_label() {
    let labels = HoldReason::ALL.iter();
    let labels = labels.filter_map(|it| Some((it.word(), closed_label(*it)?)));
    let mut labels: Vec<_> = labels.collect();
    labels.sort_unstable();
    let expected = [
        ("AlreadyRan", "ran before"),
        ("AppMissing", "app missing"),
        ("Frozen", "frozen"),
        ("InvalidFreeze", "frozen"),
        ("OlderThanRunning", "older"),
        ("PromotionFailed", "failed before"),
        ("Rejected", "rejected"),
        ("SourceNotVerified", "signature missing"),
        ("Suspended", "suspended"),
        ("TargetUnreachable", "target unreadable"),
    ];
    assert_eq!(labels, expected);
}

#[test]
fn what_comes_later_also_waits_for_the_gates_behind() {
    let world = draw("dev[2.0.0 broken] > prod{suspended, checks ticket}[1.0.0 ok]");
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    assert!(text.contains("also waits: "), "{text}");
}

#[test]
fn an_environment_says_in_few_words_why_it_is_frozen() {
    let freeze = |name: &str, reason: &str| CoveringFreeze {
        name: name.to_owned(),
        reason: reason.to_owned(),
        environments: vec!["prod".to_owned()],
        ..CoveringFreeze::default()
    };
    let because = |freezes: Vec<CoveringFreeze>| {
        let mut model = draw("dev[1.0.0 ok] > prod[1.0.0 ok]").model();
        model.freezes = freezes;
        planner::frozen_because(&model, "prod", now())
    };
    assert_eq!(because(Vec::new()), None);
    let over = CoveringFreeze {
        times: FreezeTimes {
            not_after: Some(ago("1h")),
            ..FreezeTimes::default()
        },
        ..freeze("over", "")
    };
    assert_eq!(because(vec![over]), None);
    let both = vec![freeze("weekend", ""), freeze("stop", "an incident")];
    assert_eq!(because(both).as_deref(), Some("weekend and an incident"));
}

/// What it changes is not known before the controller has seen it.
#[test]
fn a_new_promotion_is_not_ready_to_be_approved() {
    for (phase, expected) in [("", true), ("AwaitingApproval", false)] {
        let drawing =
            format!("dev[2.0.0 ok] > prod{{manual}}[1.0.0 ok]\npromotion prod 2.0.0 {phase}");
        let world = draw(&drawing);
        assert_eq!(planner::is_change_pending(&world.promotions[0]), expected);
    }
}

/// An approval that was given again is not recorded yet.
#[test]
fn who_approves_again_is_asked_to_wait() {
    let drawing =
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval by ann~5m";
    let awaited = |at| {
        let mut world = draw(drawing);
        world.promotions[0].spec.approvals[0].at = at;
        !planner::approvable(&world.promotions, "shop", "prod").is_empty()
    };
    assert!(awaited(None));
    assert!(!awaited(Some(ago("1m"))));
}

fn observed(world: &World) -> Completion {
    planner::completion(&world.pipeline, &world.model(), None, None)
}

#[test]
fn a_pipeline_is_waited_for_until_its_last_edit_was_observed() {
    for (generation, seen, expected) in [
        (None, None, false),
        (Some(2), None, false),
        (Some(2), Some(1), false),
        (Some(2), Some(2), true),
        (Some(2), Some(3), true),
    ] {
        let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
        world.pipeline.metadata.generation = generation;
        world.pipeline.status.as_mut().unwrap().observed_generation = seen;
        let is_complete = observed(&world) == Completion::Complete;
        assert_eq!(is_complete, expected, "{generation:?} {seen:?}");
    }
}

#[test]
fn a_revision_is_waited_for_by_its_tag_or_its_digest() {
    let mut world = draw("dev[2.0.0@sha256:b ok] > prod[2.0.0@sha256:b ok]");
    let prod = world.pipeline.status.as_mut().unwrap();
    prod.observed_generation = Some(1);
    let wait = |world: &World, text: &str| {
        planner::completion(&world.pipeline, &world.model(), Some("prod"), Some(text))
    };
    for text in ["2.0.0", "sha256:b", "2.0.0@sha256:b"] {
        assert_eq!(wait(&world, text), Completion::Complete, "{text}");
    }
    // One that was rejected does not come, whatever else does.
    let prod = world.pipeline.status.as_mut().unwrap();
    let prod = prod.environments.get_mut("prod").unwrap();
    prod.rejected.push("sha256:c".to_owned());
    prod.ran.push(RanRevision {
        version: Some("3.0.0".to_owned()),
        ..RanRevision::from("sha256:c")
    });
    let other = "dev[1.0.0 ok] > prod[1.0.0 ok]\npromotion prod 4.0.0 Running";
    let other = draw(other).plan().environments["prod"].promotion.clone();
    assert_eq!(other.as_ref().and_then(|it| it.phase), Some(Phase::Running));
    prod.promotion = other;
    for text in ["3.0.0", "sha256:c"] {
        let failed = Completion::Failed(format!("prod rejected {text}"));
        assert_eq!(wait(&world, text), failed);
    }
}

fn hold(drawing: &str) -> String {
    let hold = draw(drawing).plan().environments["prod"].hold.clone();
    hold.map(|it| it.sentence).unwrap_or_default()
}

#[test]
fn the_last_thing_that_happened_to_a_revision_says_why_it_does_not_come_again() {
    let rejected = "dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0";
    let nobody =
        "2.0.0 was rolled back, rejected or cancelled in prod, or its pull request was closed";
    for (lines, expected) in [
        // Nothing says that a check failed.
        (
            "promotion prod 1.0.0 Succeeded merged 5m instead 2.0.0",
            nobody,
        ),
        (
            "promotion prod 1.0.0 Succeeded merged 5m cause x instead 2.0.0",
            "2.0.0 failed a check in prod, which was rolled back to 1.0.0",
        ),
        // A rollback that was taken back, and one from another revision.
        (
            "promotion prod 1.0.0 Abandoned asked r1 asker ann back instead 2.0.0 rejected-by bob",
            "",
        ),
        (
            "promotion prod 1.0.0 Succeeded merged 5m asked r1 asker ann back instead 1.5.0",
            nobody,
        ),
        (
            "promotion prod 1.0.0 Succeeded merged 5m asked r1 asker ann back instead 2.0.0",
            "ann rolled prod back from 2.0.0 to 1.0.0",
        ),
    ] {
        assert_eq!(hold(&format!("{rejected}\n{lines}")), expected, "{lines}");
    }
    // Where the environment went on from there, and where nobody knows.
    let back = "promotion prod 1.0.0 Succeeded merged 5m asked r1 asker ann back instead 2.0.0";
    let later = format!("dev[2.0.0 ok] > prod[1.5.0 ok]\nrejected prod 2.0.0\n{back}");
    assert_eq!(hold(&later), "ann rolled prod back from 2.0.0");
    let unknown = later.replace("prod[1.5.0 ok]", "prod[- broken]");
    assert_eq!(hold(&unknown), "ann rolled prod back from 2.0.0 to 1.0.0");
}

#[test]
fn of_several_targets_that_are_not_ready_the_first_is_named() {
    check(
        "dev[2.0.0 broken, 2.0.0 broken] > prod[1.0.0 ok]",
        "prod: SourceNotReady: dev target dev-1 and 1 more run 2.0.0 and are not ready; \
         resolved by readiness of all targets of dev",
    );
}

#[test]
fn a_failed_rollback_says_what_resolves_it() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod[2.0.0 ok]
         promotion prod 1.0.0 Failed because DeployFailed asked r1 back instead 2.0.0",
    );
    let status = world.promotions[0].status.as_mut().unwrap();
    status.message = Some("1.0.0 failed on prod".to_owned());
    let shown = world.plan().environments["prod"].promotion.clone().unwrap();
    let message = shown.message.unwrap();
    assert!(
        message.contains("resolved by mending the deployment"),
        "{message}"
    );
}

#[test]
fn a_rollback_of_nobody_in_particular_is_told_as_one() {
    let drawing = "dev[2.0.0 ok] > prod{manual}[2.0.0 ok]
         promotion prod 1.0.0 AwaitingApproval asked r1 back instead 2.0.0";
    let expected = "1.0.0 waits for approval to enter prod; it is a rollback";
    assert_eq!(hold(drawing), expected);
}

/// Nothing tells what runs: it is compared with the version of what was last brought there.
#[test]
fn what_was_brought_last_is_known_by_its_version() {
    let drawing = "dev[1.0.0@sha256:a ok] > prod[- broken told]
         promotion prod 0.9.0@sha256:0 Succeeded merged 2h
         promotion prod 2.0.0@sha256:b Succeeded merged 1h";
    assert!(
        hold(drawing).contains("which is newer than 1.0.0"),
        "{}",
        hold(drawing)
    );
}

#[test]
fn a_check_that_a_revision_failed_is_told_when_its_measurement_is_gone() {
    let world = draw(
        "dev{verify smoke errors}[2.0.0 ok] > prod[1.0.0 ok]\nchecked dev 1.9.0\nfailed-check dev smoke 2.0.0",
    );
    let diffs = planner::promotion_diff(&world.pipeline, "prod", &[]);
    let checks = diffs[0].checks.iter();
    let verdicts: Vec<_> = checks
        .map(|it| format!("{} {:?}", it.check, it.verdict))
        .collect();
    assert_eq!(verdicts, ["smoke Failed", "errors Pending"]);
}

#[test]
fn a_cluster_is_named_with_its_namespace() {
    let message = |namespace: Option<&str>| {
        let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 cluster-not-ready told on c1]");
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        prod.targets[0].source = Some(Evidence::Report);
        let app = prod.targets[0].cluster_app_ref.as_mut().unwrap();
        app.cluster_ref.as_mut().unwrap().namespace = namespace.map(str::to_owned);
        let model = planner::apply(&world.plan(), &world.model(), now());
        let ready = model.conditions.into_iter().find(|it| it.type_ == "Ready");
        ready.unwrap().message
    };
    let unready = |cluster: &str| format!("Target cluster 'GitopsCluster/{cluster}' not ready");
    assert_eq!(message(None), unready("c1"));
    assert_eq!(message(Some("")), unready("c1"));
    assert_eq!(message(Some("fleet")), unready("fleet/c1"));
}

#[test]
fn targets_are_those_that_were_found_or_else_those_that_are_written() {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok on c1, 1.0.0 ok on c2, 1.0.0 ok]");
    let status = world.pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    let namespaces = [Some("fleet"), Some("default"), Some("")];
    for (target, namespace) in prod.targets.iter_mut().zip(namespaces) {
        let app = target.cluster_app_ref.as_mut().unwrap();
        if let Some(cluster) = &mut app.cluster_ref {
            cluster.namespace = namespace.map(str::to_owned);
        }
    }
    let shown = |world: &World| {
        let targets = planner::targets_of(&world.pipeline, "prod").into_iter();
        let targets = targets
            .map(|(cluster, namespace)| format!("{}/{namespace}", cluster.unwrap_or_default()));
        targets.collect::<Vec<_>>()
    };
    assert_eq!(shown(&world), ["fleet.c1/prod-1", "c2/prod-2", "/prod-3"]);
    world.pipeline.status = None;
    assert_eq!(shown(&world), ["c1/prod-1", "c2/prod-2", "/prod-3"]);
    let clusters = &mut world.pipeline.spec.environments[1].targets;
    clusters[0].cluster_ref.as_mut().unwrap().namespace = Some(String::new());
    assert_eq!(shown(&world)[0], "c1/prod-1");
}

/// The promotion that brought it the first time did not bring it the second time.
#[test]
fn what_came_back_was_not_brought_by_an_earlier_promotion() {
    let brought = |stays: &[&str]| {
        let mut world = draw(
            "dev[1.0.0 ok] > prod[1.0.0 ok]\nran prod 1.0.0
             promotion prod 1.0.0 Succeeded merged 2h\npromotion prod 1.0.0 #1 Succeeded merged 5m",
        );
        let names: Vec<_> = world
            .promotions
            .iter()
            .map(|it| it.metadata.name.clone())
            .collect();
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        let stay = |index: &&str| EarlierStay {
            promotion: names[index.parse::<usize>().unwrap()].clone(),
            ..EarlierStay::default()
        };
        prod.ran[0].earlier_stays = stays.iter().map(stay).collect();
        let found = world.plan().environments["prod"].ran[0].promotion.clone();
        names.iter().position(|it| *it == found)
    };
    assert_eq!(brought(&[]), Some(1));
    assert_eq!(brought(&["0"]), Some(1));
    assert_eq!(brought(&["1"]), Some(0));
    assert_eq!(brought(&["0", "1"]), None);
}

#[test]
fn what_was_mended_is_not_reported_any_more() {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    let problem = PreflightProblem {
        reason: "SecretMissing".to_owned(),
        message: "create it".to_owned(),
    };
    let mut model = world.model();
    model.preflight.insert("prod".to_owned(), problem);
    let ready = |conditions: &[Condition]| {
        let found = conditions.iter().find(|it| it.type_ == "StrategyReady");
        found.map(|it| it.message.clone())
    };
    let mut model = planner::apply(&world.plan(), &model, now());
    assert_eq!(ready(&model.conditions).as_deref(), Some("prod: create it"));
    model.preflight.clear();
    world.pipeline.status = Some(model.clone());
    let model = planner::apply(&world.plan(), &model, now());
    assert_eq!(ready(&model.conditions), None);
}

#[test]
fn a_rollout_into_the_environment_can_be_stopped_instead() {
    let rolling = |environment: &str| {
        let mut world = draw(&format!(
            "dev[2.0.0 ok] > prod[1.0.0 ok]\nrequest prod Cancel - r1\n\
             promotion {environment} 2.0.0 Running merged 5m"
        ));
        world.promotions[0].spec.rollout = Some(api::pipeline::Rollout::default());
        let last = world.plan().environments["prod"]
            .last_request
            .clone()
            .unwrap();
        last.message.unwrap().contains("can be stopped")
    };
    assert!(rolling("prod"));
    assert!(!rolling("dev"));
}
