use std::ffi::OsString;

use clap::{CommandFactory, Parser};

use super::{
    Arguments, Command, controller, environment_flag::with_environment_after_pipeline,
    with_double_dashes, with_leading_flags_last,
};

fn parse(flags: &[&str]) -> Result<controller::Arguments, clap::Error> {
    let typed = ["sluice", "controller"]
        .iter()
        .chain(flags)
        .map(OsString::from);
    match Arguments::try_parse_from(with_double_dashes(typed))?.command {
        Command::Controller(arguments) => Ok(*arguments),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_line_definition_is_valid() {
    Arguments::command().debug_assert();
}

#[test]
fn every_flag_is_also_an_environment_variable_named_after_it() {
    let command = Arguments::command();
    let controller = command.find_subcommand("controller").unwrap();
    let mut count = 0;
    for flag in controller.get_arguments() {
        let long = flag.get_long().expect("only flags");
        if long == "help" {
            continue;
        }
        let expected = format!("SLUICE_{}", long.replace('-', "_").to_ascii_uppercase());
        let found = flag.get_env().and_then(|name| name.to_str());
        assert_eq!(found, Some(expected.as_str()));
        assert!(flag.get_help().is_some(), "{long} has no help");
        count += 1;
    }
    assert!(count > 30, "{count} flags");
}

#[test]
fn the_manifests_of_the_pipeline_controller_start() {
    let parsed = parse(&[
        "--metrics-bind-address=:8080",
        "--health-probe-bind-address=:8081",
        "--promotion-hook-bind-address=:8082",
        "--events-addr=http://notification-controller.flux-system.svc.cluster.local./",
        "--promotion-hook-rate-limit=20",
        "--promotion-hook-rate-limit-interval=30",
        "--promotion-retry-delay=2",
        "--promotion-retry-max-delay=20",
        "--promotion-retry-threshold=3",
        "--log-encoding=json",
        "--log-level=info",
        "--leader-elect",
        "--enable-level-triggered",
    ])
    .unwrap();
    assert!(parsed.election.leader_elect.0);
    assert_eq!(
        parsed.legacy.enable_level_triggered,
        Some(controller::GoBool(true))
    );
    let console = parse(&["--log-encoding=console", "--log-level", "trace"]).unwrap();
    assert_eq!(console.logs.log_encoding, controller::LogEncoding::Text);
}

#[test]
fn the_manifests_of_the_trigger_operator_start() {
    let parsed = parse(&[
        "-metrics-bind-address=127.0.0.1:8080",
        "-health-probe-bind-address",
        ":8081",
        "-leader-elect",
        "--zap-devel=false",
        "-zap-encoder=console",
        "-zap-log-level=5",
        "--zap-stacktrace-level=error",
        "--zap-time-encoding=iso8601",
        "--second-cluster=false",
        "-cross-ds-leader-elect=false",
    ])
    .unwrap();
    let address = parsed.metrics_bind_address.0.unwrap();
    assert_eq!(address, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(
        parsed.legacy.zap_log_level,
        Some(controller::LogLevel::Debug)
    );
    assert!(!parsed.cross_dc.cross_dc_leader_elect.0);
}

#[test]
fn booleans_are_written_as_in_go() {
    assert!(!parse(&["--probe-clusters=false"]).unwrap().probe_clusters.0);
    assert!(parse(&["--probe-clusters=T"]).unwrap().probe_clusters.0);
    assert!(parse(&[]).unwrap().probe_clusters.0);
    let error = parse(&["--probe-clusters=maybe"]).unwrap_err().to_string();
    assert!(error.contains("must be true or false"), "{error}");
}

#[test]
fn an_unknown_flag_suggests_a_similar_one() {
    let error = parse(&["--watch-namespaces=a"]).unwrap_err().to_string();
    assert!(error.contains("'--watch-namespaces'"), "{error}");
    assert!(error.contains("'--watch-namespace'"), "{error}");
    assert!(parse(&["-unknown"]).is_err());
    assert!(parse(&["stray"]).is_err());
}

#[test]
fn flags_that_select_the_cluster_may_stand_before_the_command() {
    for (typed, expected) in [
        (
            "sluice -n shop get pipelines",
            "sluice get pipelines -n shop",
        ),
        (
            "sluice --context=a --namespace b status web",
            "sluice status web --context=a --namespace b",
        ),
        (
            "sluice get pipelines -n shop",
            "sluice get pipelines -n shop",
        ),
        (
            "sluice -A --as ann -nshop explain",
            "sluice explain -A --as ann -nshop",
        ),
        ("sluice -n shop demo -- -x", "sluice demo -n shop -- -x"),
        ("sluice --help", "sluice --help"),
        ("sluice -n", "sluice -n"),
        ("sluice", "sluice"),
    ] {
        let words = typed.split(' ').map(OsString::from).collect();
        let moved = with_leading_flags_last(words);
        let moved: Vec<_> = moved.iter().map(|it| it.to_str().unwrap()).collect();
        assert_eq!(moved.join(" "), expected);
    }
}

#[test]
fn environments_are_named_after_the_pipeline_or_with_a_flag() {
    let root = Arguments::command();
    for (typed, expected) in [
        ("explain web -e prod", "explain web prod"),
        ("explain -e prod web -n shop", "explain web prod -n shop"),
        (
            "explain -n shop web --environment=prod",
            "explain -n shop web prod",
        ),
        ("promote web -e prod 1.2.0", "promote web prod 1.2.0"),
        (
            "promote -nshop web 1.2.0 --environment prod",
            "promote -nshop web prod 1.2.0",
        ),
        (
            "report web smoke pass -e prod",
            "report web prod smoke pass",
        ),
        (
            "plan a.yaml --checkout . -e prod -r 2",
            "plan a.yaml prod --checkout . -r 2",
        ),
        (
            "status web --wait --environment prod",
            "status web prod --wait",
        ),
        // Nothing says which pipeline, or the flag is the command's own.
        ("explain -e prod", "explain -e prod"),
        ("explain web -e", "explain web -e"),
        ("freeze --all -e prod", "freeze --all -e prod"),
        (
            "create pipeline web -e dev=a",
            "create pipeline web -e dev=a",
        ),
        ("explain web prod", "explain web prod"),
    ] {
        let words = ["sluice"].into_iter().chain(typed.split(' '));
        let words = words.map(OsString::from).collect();
        let moved = with_environment_after_pipeline(&root, words);
        let moved: Vec<_> = moved[1..].iter().map(|it| it.to_str().unwrap()).collect();
        assert_eq!(moved.join(" "), expected);
    }
}

#[test]
fn a_revision_is_named_after_the_environment_or_with_a_flag() {
    for typed in [
        "promote web prod 1.2.0",
        "promote web prod --revision 1.2.0",
        "rollback web prod",
        "rollback web prod -r 1.2.0",
        "approve web prod 1.2.0",
        "reject web prod --revision=1.2.0",
        "retry web prod 1.2.0",
        "cancel web prod",
        "plan web prod 1.2.0 --checkout .",
        "freeze web dev prod -e staging",
        "thaw --all -e prod",
    ] {
        let words = ["sluice"].into_iter().chain(typed.split(' '));
        assert!(Arguments::try_parse_from(words).is_ok(), "{typed}");
    }
    let twice = ["sluice", "promote", "web", "prod", "1", "--revision", "2"];
    assert!(Arguments::try_parse_from(twice).is_err());
}
