use clap::Parser;

use super::*;
use crate::args::{self, Command};

fn typed(flags: &[&str]) -> Arguments {
    let words = ["sluice", "controller"].iter().chain(flags);
    match args::Arguments::try_parse_from(words).unwrap().command {
        Command::Controller(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

fn checked(flags: &[&str]) -> anyhow::Result<Settings> {
    let arguments = typed(flags);
    refuse_second_cluster(&arguments)?;
    check(&arguments, "pipeline-system")
}

fn lease(flags: &[&str]) -> String {
    checked(flags).unwrap().election.unwrap().name
}

fn refusal(flags: &[&str]) -> String {
    format!("{:#}", checked(flags).unwrap_err())
}

#[test]
fn the_default_lease_is_that_of_the_weave_pipeline_controller() {
    let settings = checked(&[]).unwrap();
    let election = settings.election.unwrap();
    assert_eq!(election.namespace, "pipeline-system");
    assert_eq!(election.name, "pipeline-controller-leader-election");
    assert_eq!(election.timing, LeaseTiming::default());
    assert_eq!(settings.detect, controller::Detect::Watch);
    assert_eq!(settings.metrics_address.unwrap().port(), 8080);
    assert_eq!(settings.probe_address.unwrap().port(), 8081);
    assert_ne!(identity(), identity());
}

#[test]
fn each_shard_has_a_lease_of_its_own() {
    let names = [
        lease(&[]),
        lease(&["--watch-label-selector=team=a"]),
        lease(&["--watch-label-selector=team=b"]),
        lease(&["--watch-namespace=team=a"]),
        lease(&["--watch-namespace=a", "--watch-label-selector=team=b"]),
    ];
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    assert_eq!(
        lease(&["--watch-label-selector=team=a,tier!=free"]),
        lease(&["--watch-label-selector", "tier != free, team == a"]),
    );
}

#[test]
fn empty_values_are_as_if_not_given() {
    let settings = checked(&[
        "--watch-namespace=",
        "--watch-label-selector=",
        "--events-addr=",
        "--metrics-bind-address=0",
    ])
    .unwrap();
    assert_eq!(settings.namespace, None);
    assert_eq!(settings.label_selector, None);
    assert_eq!(settings.events_address, None);
    assert_eq!(settings.metrics_address, None);
}

#[test]
fn by_default_flux_receives_the_events_of_the_weave_pipeline_controller() {
    let events = |flags: &[&str]| checked(flags).unwrap().flux_events;
    let only = |reasons: &[&str]| {
        FluxEventFilter::Only(reasons.iter().map(|it| (*it).to_owned()).collect())
    };
    assert_eq!(events(&[]), FluxEventFilter::default());
    assert_eq!(events(&[]), only(&["Promote"]));
    let some = events(&["--events-reasons=Promote, DeployFailed,"]);
    assert_eq!(some, only(&["DeployFailed", "Promote"]));
    assert_eq!(events(&["--events-reasons=all"]), FluxEventFilter::All);
}

/// A standby replaces a leader that was killed within seconds, and no act outlasts a Lease.
#[test]
fn the_usual_terms_are_short_and_acts_fit_into_them() {
    let terms = checked(&[]).unwrap().election.unwrap().timing;
    let longest = terms.longest_side_effect();
    assert!(longest >= std::time::Duration::from_secs(10), "{longest:?}");
    assert!(longest < std::time::Duration::from_secs(15), "{longest:?}");
    let longer = [
        "--leader-election-lease-duration=35s",
        "--leader-election-renew-deadline=30s",
        "--leader-election-retry-period=5s",
    ];
    let terms = checked(&longer).unwrap().election.unwrap().timing;
    assert!(terms.longest_side_effect() > std::time::Duration::from_secs(20));
}

#[test]
fn the_dashboard_can_be_named() {
    let named = checked(&["--dashboard-url=https://sluice.example.com/"]).unwrap();
    let expected = Some("https://sluice.example.com/".to_owned());
    assert_eq!(named.dashboard_url, expected);
    let refused = refusal(&["--dashboard-url=sluice.example.com"]);
    assert!(
        refused.contains("--dashboard-url must be a URL that begins"),
        "{refused}"
    );
}

#[test]
fn the_election_can_be_turned_off() {
    assert!(
        checked(&["--leader-elect=false"])
            .unwrap()
            .election
            .is_none()
    );
}

#[test]
fn webhook_is_opt_in_and_contradicts_level_triggered() {
    let detect = |flags: &[&str]| checked(flags).unwrap().detect;
    assert_eq!(detect(&["--detect=webhook"]), controller::Detect::Webhook);
    assert_eq!(
        detect(&["--enable-level-triggered"]),
        controller::Detect::Watch
    );
    assert_eq!(
        detect(&["--enable-level-triggered=false"]),
        controller::Detect::Watch
    );
    let both = refusal(&["--detect=webhook", "--enable-level-triggered"]);
    assert!(both.contains("remove one of them"), "{both}");
}

#[test]
fn a_second_cluster_is_refused_with_the_alternative_and_without_the_token() {
    for flags in [
        &["--second-cluster"][..],
        &["--second-cluster-address=https://other"],
        &["--second-cluster-bearer-token=hush"],
    ] {
        let refusal = refusal(flags);
        assert!(refusal.contains("--cross-dc-leader-elect"), "{refusal}");
        assert!(!refusal.contains("hush"));
    }
    assert!(checked(&["--second-cluster=false", "--second-cluster-address="]).is_ok());
}

#[test]
fn the_lock_between_data_centres_is_off_unless_asked_for_in_either_spelling() {
    assert!(checked(&[]).unwrap().outer_lock.is_none());
    for flag in ["--cross-dc-leader-elect", "--cross-ds-leader-elect"] {
        assert!(typed(&[flag]).cross_dc.cross_dc_leader_elect.0, "{flag}");
    }
    // Nothing says how to reach a database.
    let refusal = refusal(&["--cross-dc-leader-elect"]);
    assert!(refusal.contains("the environment variable"), "{refusal}");
}

#[test]
fn invalid_values_are_refused() {
    for (flags, words) in [
        (&["--concurrent=0"][..], "at least 1"),
        (&["--history-limit=0"], "at least 1"),
        (&["--events-addr=notification-controller"], "http://"),
        (
            &[r"--events-addr=http://a.example\@b.example/"],
            "backslash",
        ),
        (&["--watch-label-selector=a in b"], "label selector"),
        (
            &["--leader-election-renew-deadline=35s"],
            "shorter than the lease",
        ),
        (
            &["--leader-election-lease-duration=1500ms"],
            "whole number of seconds",
        ),
    ] {
        let refusal = refusal(flags);
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn flags_without_effect_are_named() {
    let flags = without_effect(&typed(&["--promotion-retry-delay=2", "--zap-devel=false"]));
    assert_eq!(
        flags,
        ["--promotion-retry-delay is accepted but has no effect"]
    );
}

#[test]
fn zap_flags_set_up_logging() {
    let logging = |flags: &[&str]| logging(&typed(flags));
    let (json, text) = (LogEncoding::Json, LogEncoding::Text);
    let expect = |encoding, level| Logging { encoding, level };
    assert_eq!(logging(&[]), expect(json, LogLevel::Info));
    assert_eq!(
        logging(&["--log-level=error"]),
        expect(json, LogLevel::Error)
    );
    assert_eq!(logging(&["--zap-devel"]), expect(text, LogLevel::Debug));
    let both = ["--zap-devel", "--zap-encoder=json", "--zap-log-level=info"];
    assert_eq!(logging(&both), expect(json, LogLevel::Info));
}

#[test]
fn the_proxy_of_the_environment_is_used_and_never_repeated() {
    let read = |set: &[(&str, &str)]| {
        let set: Vec<_> = set
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        proxy(move |wanted| {
            let found = set.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.clone())
        })
    };
    let with_password = "http://joe:hunter22@proxy.example:3128";
    assert!(read(&[]).unwrap().is_none());
    assert!(read(&[("HTTPS_PROXY", "")]).unwrap().is_none());
    assert!(read(&[("NO_PROXY", "*")]).unwrap().is_none());
    for name in ["HTTPS_PROXY", "https_proxy"] {
        let found = read(&[(name, with_password), ("no_proxy", "git.example")]);
        let shown = format!("{:?}", found.unwrap().unwrap());
        assert!(
            shown.contains("git.example") && !shown.contains("hunter22"),
            "{shown}"
        );
    }
    let error = read(&[("HTTPS_PROXY", "socks5://joe:hunter22@proxy.example")]).unwrap_err();
    assert!(!format!("{error:#}").contains("hunter22"));
}

#[test]
fn the_flags_of_authoring_go_together() {
    assert_eq!(checked(&["--authoring-url="]).unwrap().authoring, None);
    let url = "--authoring-url=https://git.example.com/fleet.git";
    let all = [
        url,
        "--authoring-secret=git",
        "--authoring-paths=apps, pipelines/${namespace}",
    ];
    let authoring = checked(&all).unwrap().authoring.unwrap();
    assert_eq!(authoring.secret.to_string(), "pipeline-system/git");
    assert_eq!(authoring.branch, "main");
    assert_eq!(authoring.folders, ["apps", "pipelines/${namespace}"]);
    let elsewhere = [
        url,
        "--authoring-secret=a/b",
        "--authoring-paths=.",
        "--authoring-type=gitea",
    ];
    let authoring = checked(&elsewhere).unwrap().authoring.unwrap();
    assert_eq!(authoring.secret.to_string(), "a/b");
    assert_eq!(authoring.forge, api::pipeline::ForgeKind::Gitea);
    for (flags, expected) in [
        (&[url][..], "needs --authoring-secret"),
        (&[url, "--authoring-secret=git"], "needs --authoring-paths"),
        (&["--authoring-secret=git"], "need --authoring-url"),
        (
            &[
                "--authoring-url=http://x/y",
                "--authoring-secret=s",
                "--authoring-paths=.",
            ],
            "https and ssh",
        ),
        (
            &[url, "--authoring-secret=s", "--authoring-paths=../x"],
            "folders of the repository",
        ),
        (
            &[
                url,
                "--authoring-secret=s",
                "--authoring-paths=.",
                "--authoring-branch=-x",
            ],
            "--authoring-branch",
        ),
    ] {
        let refusal = refusal(flags);
        assert!(refusal.contains(expected), "{refusal}");
    }
}
