//! What people read.

use api::pipeline::PipelineStatus;

use crate::drawing::{draw, now};

#[track_caller]
fn check(drawing: &str, expected: &str) {
    let world = draw(drawing);
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    let expected: Vec<_> = expected
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line))
        .collect();
    assert_eq!(text, expected.join("\n").trim());
}

#[test]
fn says_where_each_environment_is_and_why_the_next_one_waits() {
    check(
        "dev[3.0.0 ok] > staging{suspended}[2.0.0 ok, 2.0.0 broken failed 3.0.0] > prod{manual}[1.0.0 unreachable on c1]
         promotion prod 2.0.0 AwaitingApproval",
        "
        TargetNotReadable: One or more targets was not reachable or not present
        dev: runs 3.0.0, ready
        staging: runs 2.0.0; not ready: staging-2 (3.0.0 failed)
          staging is suspended: nothing starts
          waits: staging is suspended, 3.0.0 waits; resolved by resuming staging [Suspended]
          gates for 3.0.0: 12 of 13 pass; waiting: suspended
        prod: runs 1.0.0; not ready: c1/prod (no answer)
          promotion of 2.0.0: AwaitingApproval
          waits: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0 [AwaitingApproval]
          gates for 2.0.0: 12 of 13 pass; waiting: approvals",
    );
}

#[test]
fn a_gate_that_fails_says_how() {
    for (facts, told) in [
        (
            "prod[1.0.0 ok]\nrejected prod 2.0.0",
            "failed: order (rejected)",
        ),
        ("prod[3.0.0 ok]", "failed: order (older)"),
        (
            "prod[1.0.0 ok]\npromotion prod 2.0.0 Failed",
            "failed: order (failed before)",
        ),
    ] {
        let world = draw(&format!("dev[2.0.0 ok] > {facts}"));
        let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
        assert!(text.contains(&format!("12 of 13 pass; {told}")), "{text}");
    }
}

/// A gate that asks several questions is closed by the first that is.
#[test]
fn a_selector_without_clusters_closes_its_gate_beside_other_targets() {
    let world = draw("dev[2.0.0 ok] > prod[1.0.0 ok on c1 selected, selector]");
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    assert!(text.contains("waiting: targets"), "{text}");
}

#[test]
fn says_what_is_about_to_happen() {
    check(
        "dev[2.0.0 ok] > test[] > prod[1.0.0 ok, - broken]",
        "
        dev: runs 2.0.0, ready
        test: no targets
        prod: runs nothing yet and 1.0.0; not ready: prod-2
          next: 2.0.0 by pull-request
          gates for 2.0.0: all pass",
    );
    check(
        "dev[2.0.0 ok] > prod{manual}[2.0.0 ok]\nwithout promotion\nsuspend",
        "
        the pipeline is suspended: nothing starts
        dev: runs 2.0.0, ready
          nothing is promoted into it
        prod: runs 2.0.0, ready",
    );
}

/// The same words in `explain`, in the status that REST and dashboard show, and while waiting.
#[test]
fn says_why_a_promotion_does_not_go_on_and_what_resolves_it() {
    for (facts, said, told) in [
        (
            "Running because ForgeUnreachable until 30s",
            "cannot list the open pull requests: the forge cannot be reached",
            "retried automatically; look at the network between, a proxy or a NetworkPolicy",
        ),
        (
            "Running because BranchChangedByOthers until 30m",
            "promotion-default-shop-prod was changed by others",
            "resolved by merging the pull request of that branch, or deleting the branch",
        ),
        (
            "WaitingForMerge because BranchChangedByOthers",
            "somebody else pushed to the branch",
            "resolved by merging or closing the pull request",
        ),
        (
            "Running because GitFailed until 30s",
            "git said something new",
            "retried automatically",
        ),
    ] {
        let drawing = format!("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 {facts}");
        let mut world = draw(&drawing);
        let status = world.promotions[0].status.as_mut().unwrap();
        status.message = Some(said.to_owned());
        let (phase, reason) = (status.phase.unwrap(), status.reason.clone().unwrap());
        let plan = world.plan();
        let text = planner::explain(&world.pipeline, &world.model(), &plan);
        let line = format!("  promotion of 2.0.0: {phase:?}\n  because: {said}; {told} [{reason}]");
        assert!(text.contains(&line), "{text}");
        let stored = planner::apply(&plan, &world.model(), now());
        let summary = stored.environments["prod"].promotion.clone().unwrap();
        assert_eq!(summary.reason, Some(reason));
        assert_eq!(summary.message, Some(format!("{said}; {told}")));
        world.pipeline.status.as_mut().unwrap().observed_generation = Some(1);
        let stored = api::pipeline::PipelineStatus {
            observed_generation: Some(1),
            ..stored
        };
        let waits = planner::completion(&world.pipeline, &stored, None, None);
        let expected = format!("prod is promoting: {said}; {told}");
        assert_eq!(waits, planner::Completion::InProgress(expected));
    }
    // Where the phase says everything, nothing is added.
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge because WaitingForMerge",
        "
        dev: runs 2.0.0, ready
        prod: runs 1.0.0, ready
          promotion of 2.0.0: WaitingForMerge
          gates for 2.0.0: all pass",
    );
}

#[test]
fn a_failed_release_is_named_with_its_message() {
    let mut world = draw(
        "dev[1.0.0 broken failed 2.0.0] > test[- broken failed 2.0.0, - broken failed 2.0.0] > prod{any}[1.0.0 ok]",
    );
    let status = world.pipeline.status.as_mut().unwrap();
    for environment in status.environments.values_mut() {
        for target in environment.targets.iter_mut().filter(|it| !it.ready) {
            target.apps = vec![api::pipeline::AppStatus {
                message: Some("timed out".to_owned()),
                ..Default::default()
            }];
        }
    }
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    assert_eq!(
        text,
        "dev: runs 1.0.0; not ready: dev (2.0.0 failed: timed out)\n\
         test: not ready: test-1 (2.0.0 failed: timed out) and test-2 (2.0.0 failed: timed out)\n  \
         waits: dev target dev: 2.0.0 failed: timed out; resolved by readiness of all targets of dev [SourceNotReady]\n  \
         gates for 1.0.0: 11 of 13 pass; waiting: readiness; not known yet: soak\n\
         prod: runs 1.0.0, ready\n  \
         waits: no target of test is ready: 2.0.0 failed: timed out; resolved by one ready target of test [SourceNotReady]\n  \
         gates: 3 of 13 pass; waiting: readiness; not known yet: suspended, turn, soak, order, signature, freeze, checks, rollout, approvals"
    );
    let targets = &world.model().environments;
    let release = |name: &str| planner::release(&targets[name].targets[0]);
    assert_eq!(
        release("dev").as_deref(),
        Some("2.0.0 failed (last good 1.0.0)")
    );
    assert_eq!(release("test").as_deref(), Some("2.0.0 failed"));
    assert_eq!(release("prod").as_deref(), Some("1.0.0"));
}

#[test]
fn says_what_is_wrong_with_the_pipeline() {
    check("", "InvalidSpec: the pipeline has no environments");
}

/// 200 clusters, one environment: what people read stays a few short lines.
#[test]
fn what_a_promotion_would_fail_at_is_said_once() {
    let world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]");
    let mut model = world.model();
    let problem =
        serde_json::json!({"reason": "SecretMissing", "message": "there is no Secret a/b"});
    let problem = serde_json::from_value(problem).unwrap();
    model.preflight.insert("prod".to_owned(), problem);
    let text = planner::explain(&world.pipeline, &model, &world.plan());
    let expected = "\n  a promotion would fail: there is no Secret a/b [SecretMissing]";
    assert!(text.contains(expected), "{text}");
    let problem = model.preflight.get_mut("prod").unwrap();
    problem.reason = planner::CHECK_HOST_NOT_ALLOWED.to_owned();
    let text = planner::preflight_text(&model, "prod", "");
    assert_eq!(
        text.as_deref(),
        Some("there is no Secret a/b [CheckHostNotAllowed]")
    );
    let told = "because: there is no Secret a/b [SecretMissing]";
    assert_eq!(planner::preflight_text(&model, "prod", told), None);
}

/// A check that cannot be measured does not hide what promotions would fail at.
#[test]
fn the_condition_names_first_what_a_promotion_would_fail_at() {
    let world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]");
    let mut model = world.model();
    for (environment, reason) in [
        ("dev", planner::CHECK_HOST_NOT_ALLOWED),
        ("prod", "TokenRightMissing"),
        ("staging", "SecretMissing"),
    ] {
        let problem = serde_json::json!({"reason": reason, "message": "m"});
        let problem = serde_json::from_value(problem).unwrap();
        model.preflight.insert(environment.to_owned(), problem);
    }
    let told = || {
        let status = planner::apply(&world.plan(), &model, now());
        let mut conditions = status.conditions.into_iter();
        let condition = conditions.find(|it| it.type_ == "StrategyReady").unwrap();
        (condition.reason, condition.message)
    };
    let text = "dev: m; prod: m; staging: m".to_owned();
    assert_eq!(told(), ("TokenRightMissing".to_owned(), text));
}

/// The digest of a promotion is read with its version, as everywhere else.
#[test]
fn a_promotion_of_a_digest_has_its_version() {
    let world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]");
    let mut model = world.model();
    let ran = serde_json::json!([{"revision": "sha256:ab", "version": "3.0.0"}]);
    let dev = model.environments.entry("dev".to_owned()).or_default();
    dev.ran = serde_json::from_value(ran).unwrap();
    let promotion = serde_json::json!({"name": "p", "revision": "sha256:ab", "phase": "Running"});
    let promotion = serde_json::from_value(promotion).unwrap();
    let lines = planner::promotion_lines(&model, &promotion);
    assert_eq!(lines, ["promotion of 3.0.0@sha256:ab: Running"]);
    let lines = planner::promotion_lines(&PipelineStatus::default(), &promotion);
    assert_eq!(lines, ["promotion of sha256:ab: Running"]);
}

#[test]
fn a_fleet_stays_readable() {
    let fleet = |lagging: usize, dead: usize| {
        let target = |index: usize| match index {
            index if index < dead => format!("1.0.0 unreachable on c{index:03}"),
            index if index < dead + lagging => format!("1.0.0 broken on c{index:03}"),
            index => format!("2.0.0 ok on c{index:03}"),
        };
        let targets: Vec<_> = (0..200).map(target).collect();
        targets.join(", ")
    };
    let drawing = format!("dev[3.0.0 ok] > edge[{}] > prod[1.0.0 ok]", fleet(37, 3));
    let world = draw(&drawing);
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    assert!(text.len() < 1200, "{} bytes:\n{text}", text.len());
    check(
        &drawing,
        "
        TargetNotReadable: One or more targets was not reachable or not present
        dev: runs 3.0.0, ready
        edge: runs 1.0.0 on 40 and 2.0.0 on 160; not ready: c000/edge-1 (no answer), c001/edge-2 (no answer), c002/edge-3 (no answer), c003/edge-4, c004/edge-5 and 35 more
          waits: edge target c000/edge-1 and 2 more: no answer; resolved by making the target readable again [TargetUnreachable]
          gates for 3.0.0: 12 of 13 pass; waiting: targets
        prod: runs 1.0.0, ready
          waits: edge targets run 1.0.0 and 2.0.0; resolved by one revision on all targets of edge [SourceTargetsDiffer]
          gates for 2.0.0: 11 of 13 pass; waiting: readiness; not known yet: soak",
    );
    // One promotion for each target is one line all the same.
    let drawing = format!("dev[3.0.0 ok] > edge{{per target}}[{}]", fleet(0, 0));
    check(
        &drawing,
        "
        dev: runs 3.0.0, ready
        edge: runs 2.0.0, ready
          next: 3.0.0 by pull-request, into 200 targets
          gates for 3.0.0: all pass",
    );
}

/// A promotion that a gate holds says the same as the gate.
#[test]
fn why_a_promotion_waits_is_said_once() {
    let mut world =
        draw("dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running because Frozen");
    let freeze = api::pipeline::CoveringFreeze {
        name: "stop".to_owned(),
        environments: vec!["prod".to_owned()],
        ..Default::default()
    };
    world.pipeline.status.as_mut().unwrap().freezes = vec![freeze];
    let message = world.plan().environments["prod"]
        .hold
        .as_ref()
        .map(|it| it.message());
    world.promotions[0].status.as_mut().unwrap().message = message;
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    assert_eq!(text.matches("is frozen by stop").count(), 1, "{text}");
    assert!(text.contains("  waits: prod is frozen by stop"), "{text}");
}
