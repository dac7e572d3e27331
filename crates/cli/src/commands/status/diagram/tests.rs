use api::pipeline::{
    ClusterAppReference, ClusterReference, Environment, HoldStatus, PromotionSummary, Target,
    TargetStatus,
};

use super::*;

/// A target that runs a revision on a cluster; `!` behind it means that it is not ready, and what
/// follows it failed.
fn target(text: &str) -> TargetStatus {
    let (path, revision) = text.split_once(' ').unwrap();
    let (cluster, namespace) = path.split_once('/').unwrap();
    let (revision, failed) = match revision.split_once('!') {
        Some((revision, failed)) => (revision, Some(failed)),
        None => (revision, None),
    };
    TargetStatus {
        cluster_app_ref: Some(ClusterAppReference {
            cluster_ref: Some(ClusterReference {
                name: cluster.to_owned(),
                ..ClusterReference::default()
            }),
            ..ClusterAppReference::default()
        }),
        namespace: Some(namespace.to_owned()),
        ready: failed.is_none(),
        revision: Some(revision.to_owned()),
        failed: failed.filter(|it| !it.is_empty()).map(str::to_owned),
        ..TargetStatus::default()
    }
}

/// Two environments; the second waits for approval.
fn pipeline() -> Pipeline {
    let mut pipeline = Pipeline::default();
    pipeline.metadata.namespace = Some("shop".to_owned());
    pipeline.metadata.name = Some("web".to_owned());
    let mut environments = std::collections::BTreeMap::new();
    for (name, targets) in [
        ("dev", vec!["one/web 2.0.0", "two/web 1.9.0!"]),
        ("prod", vec!["eu/web 1.0.0"]),
    ] {
        pipeline.spec.environments.push(Environment {
            name: name.to_owned(),
            targets: vec![Target::default()],
            ..Environment::default()
        });
        let status = EnvironmentStatus {
            targets: targets.into_iter().map(target).collect(),
            ..EnvironmentStatus::default()
        };
        environments.insert(name.to_owned(), status);
    }
    let prod = environments.get_mut("prod").unwrap();
    prod.hold = Some(HoldStatus {
        reason: "AwaitingApproval".to_owned(),
        message: "2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0"
            .to_owned(),
        ..HoldStatus::default()
    });
    prod.promotion = Some(PromotionSummary {
        revision: "2.0.0".to_owned(),
        phase: Some(Phase::AwaitingApproval),
        url: Some("https://forge.example.com/1\u{1b}[2J".to_owned()),
        ..PromotionSummary::default()
    });
    pipeline.status = Some(api::pipeline::PipelineStatus {
        environments,
        ..api::pipeline::PipelineStatus::default()
    });
    pipeline
}

#[track_caller]
fn check(width: Option<usize>, expected: &str) {
    let drawn = draw(
        (&pipeline(), None),
        &WaitingPromotions::default(),
        width,
        Timestamp::UNIX_EPOCH,
    );
    let drawn = anstream::adapter::strip_str(&drawn).to_string();
    let drawn: Vec<&str> = drawn.lines().map(str::trim_end).collect();
    let expected: Vec<&str> = expected
        .trim()
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line))
        .collect();
    assert_eq!(drawn, expected, "\n{}", drawn.join("\n"));
}

const REMARKS: &str = "
        ◇ prod
            waits: 2.0.0 waits for approval to enter prod [AwaitingApproval]
            resolved by an approval of 2.0.0
            promotion of 2.0.0: AwaitingApproval https://forge.example.com/1\u{fffd}[2J
            try: sluice approve web prod -n shop";

#[test]
fn environments_stand_side_by_side_where_there_is_room() {
    let diagram = "
        shop/web  not reconciled yet; is the controller running?

        ╭─ dev ───────────╮    ╭─ prod ──────────────╮
        │ 1.9.0 + 2.0.0   │ ─▶ │ 1.0.0               │
        │ ◐ not ready     │    │ ◇ awaiting approval │
        │ ● one/web 2.0.0 │    │ ● eu/web            │
        │ ◐ two/web 1.9.0 │    │                     │
        ╰─────────────────╯    ╰─────────────────────╯
";
    check(Some(100), &format!("{diagram}{REMARKS}"));
}

#[test]
fn environments_stack_in_narrow_terminals_and_in_pipes() {
    let diagram = "
        shop/web  not reconciled yet; is the controller running?

        dev
          1.9.0 + 2.0.0
          ◐ not ready
          ● one/web 2.0.0
          ◐ two/web 1.9.0
          ▼
        prod
          1.0.0
          ◇ awaiting approval
          ● eu/web
";
    check(None, &format!("{diagram}{REMARKS}"));
}

/// The version that failed is shown, why, and what worked before.
#[test]
fn a_failed_release_is_named() {
    let mut pipeline = pipeline();
    let status = pipeline.status.as_mut().unwrap();
    let dev = status.environments.get_mut("dev").unwrap();
    dev.targets = vec![target("one/web 1.9.0!2.0.0")];
    dev.targets[0].apps = vec![api::pipeline::AppStatus {
        message: Some("Helm upgrade failed: timed out".to_owned()),
        ..Default::default()
    }];
    let drawn = draw(
        (&pipeline, None),
        &WaitingPromotions::default(),
        None,
        Timestamp::UNIX_EPOCH,
    );
    let drawn = anstream::adapter::strip_str(&drawn).to_string();
    for expected in [
        "2.0.0 failed (last good 1.9.0)",
        "one/web: 2.0.0 failed: Helm upgrade failed: timed out",
    ] {
        assert!(drawn.contains(expected), "{drawn}");
    }
}

#[test]
fn every_closed_gate_is_shown_once() {
    let mut pipeline = pipeline();
    let status = pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    let hold = prod.hold.clone().unwrap();
    let gate = |gate: &str, reason: &str, message: &str| api::pipeline::GateStatus {
        gate: gate.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        opens_at: None,
    };
    prod.gates = vec![
        gate("suspended", "Suspended", "prod is suspended"),
        gate("approvals", &hold.reason, &hold.message),
    ];
    let drawn = draw(
        (&pipeline, None),
        &WaitingPromotions::default(),
        None,
        Timestamp::UNIX_EPOCH,
    );
    let drawn = anstream::adapter::strip_str(&drawn).to_string();
    let further: Vec<_> = drawn
        .lines()
        .filter(|it| it.contains("also waits"))
        .collect();
    assert_eq!(further, ["    also waits: prod is suspended [Suspended]"]);
}

#[test]
fn a_stalled_promotion_shows_its_reason() {
    let mut pipeline = pipeline();
    let status = pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    prod.hold = None;
    let promotion = prod.promotion.as_mut().unwrap();
    promotion.phase = Some(Phase::Running);
    promotion.reason = Some("ForgeUnreachable".to_owned());
    promotion.message = Some("the forge cannot be reached; retried automatically".to_owned());
    let drawn = draw(
        (&pipeline, None),
        &WaitingPromotions::default(),
        None,
        Timestamp::UNIX_EPOCH,
    );
    let expected = "because: the forge cannot be reached; retried automatically [ForgeUnreachable]";
    assert!(drawn.contains(expected), "{drawn}");
}

/// `dev → {eu, us} → prod`, all at one revision.
fn diamond() -> Pipeline {
    let mut pipeline = pipeline();
    let status = pipeline.status.as_mut().unwrap();
    pipeline.spec.environments.clear();
    status.environments.clear();
    for (name, after) in [
        ("dev", &[][..]),
        ("eu", &["dev"]),
        ("us", &["dev"]),
        ("prod", &["eu", "us"]),
    ] {
        pipeline.spec.environments.push(Environment {
            name: name.to_owned(),
            after: Some(after.iter().map(|&it| it.to_owned()).collect()),
            targets: vec![Target::default()],
            ..Environment::default()
        });
        let targets = vec![target("one/web 1.0.0")];
        let environment = EnvironmentStatus {
            targets,
            ..EnvironmentStatus::default()
        };
        status.environments.insert(name.to_owned(), environment);
    }
    pipeline
}

#[track_caller]
fn check_graph(pipeline: &Pipeline, width: Option<usize>, expected: &str) {
    let drawn = draw(
        (pipeline, None),
        &WaitingPromotions::default(),
        width,
        Timestamp::UNIX_EPOCH,
    );
    let drawn = anstream::adapter::strip_str(&drawn).to_string();
    let drawn = drawn.lines().skip(2).map(str::trim_end);
    let drawn = drawn.collect::<Vec<_>>().join("\n");
    let lines = expected.trim_matches('\n').lines();
    let expected: Vec<_> = lines
        .map(|it| it.strip_prefix("        ").unwrap_or(it))
        .collect();
    assert_eq!(
        drawn.trim_end(),
        expected.join("\n").trim_end(),
        "\n{drawn}"
    );
}

#[test]
fn environments_that_branch_are_drawn_as_a_graph() {
    let diagram = "
                           ╭─ eu ──────╮
                       ┌─▶ │ 1.0.0     │ ─┐
                       │   │ ● ready   │  │
                       │   │ after dev │  │   ╭─ prod ───────╮
        ╭─ dev ─────╮  │   │ ● one/web │  ├─▶ │ 1.0.0        │
        │ 1.0.0     │ ─┤   ╰───────────╯  │   │ ● ready      │
        │ ● ready   │  │                  │   │ after eu, us │
        │ ● one/web │  │   ╭─ us ──────╮  │   │ ● one/web    │
        ╰───────────╯  └─▶ │ 1.0.0     │ ─┘   ╰──────────────╯
                           │ ● ready   │
                           │ after dev │
                           │ ● one/web │
                           ╰───────────╯
";
    check_graph(&diamond(), Some(80), diagram);
    check_graph(&diamond(), Some(54), diagram);
}

#[test]
fn a_graph_becomes_a_list_that_says_what_comes_after_what() {
    let list = "
        dev
          1.0.0
          ● ready
          ● one/web

        eu
          1.0.0
          ● ready
          after dev
          ● one/web

        us
          1.0.0
          ● ready
          after dev
          ● one/web

        prod
          1.0.0
          ● ready
          after eu, us
          ● one/web
";
    for width in [None, Some(53), Some(20), Some(0)] {
        check_graph(&diamond(), width, list);
    }
}

/// Lines that cross have lanes of their own; one that skips a column is said in words only.
#[test]
fn lines_of_different_environments_do_not_touch() {
    let mut pipeline = diamond();
    let after = |names: &[&str]| Some(names.iter().map(|&it| it.to_owned()).collect());
    let environments = &mut pipeline.spec.environments;
    environments[1].after = after(&[]);
    environments[2].after = after(&["eu"]);
    environments[3].after = after(&["dev"]);
    let mut last = environments[3].clone();
    last.name = "last".to_owned();
    last.after = after(&["us", "dev"]);
    environments.push(last);
    let drawn = draw(
        (&pipeline, None),
        &WaitingPromotions::default(),
        Some(100),
        Timestamp::UNIX_EPOCH,
    );
    let drawn = anstream::adapter::strip_str(&drawn).to_string();
    let lines: Vec<_> = drawn.lines().collect();
    let line = |text: &str| {
        let found = lines.iter().find(|it| it.contains(text));
        *found.unwrap_or_else(|| panic!("{text}: {drawn}"))
    };
    assert!(line("after us, dev").contains("after us, dev"));
    // From dev down to prod and from eu up to us, in two lanes.
    assert_eq!(drawn.matches('▶').count(), 3, "{drawn}");
    assert!(drawn.contains('┐') && drawn.contains('┘'), "{drawn}");
    assert!(drawn.contains('┌') && drawn.contains('└'), "{drawn}");
}
