//! Results of external checks: which check run they are for, and what is not stored.

use api::{
    CheckRun, Time,
    check_run::CheckResult,
    pipeline::{Check, PipelineSpec},
};
use jiff::SignedDuration;
use planner::hook::{
    ReportedCheck, approval_secret, check_secret, external_checks, refuse_result, release_secret,
    report_secret, reported_run,
};
use serde_json::json;

use crate::drawing::{World, ago, draw, now};

/// A drawing whose checks are external, with these check runs, each created five minutes ago.
fn world(runs: &str) -> World {
    let mut world = draw(&format!(
        "dev{{verify smoke}}[2.0.0 ok] > prod{{checks smoke}}[1.0.0 ok]\n{runs}"
    ));
    for run in &mut world.runs {
        run.metadata.creation_timestamp = Some(ago("5m"));
    }
    world
}

/// The revision and the attempt that a result is for, or why it is for none.
fn reported(runs: &[CheckRun], reported: ReportedCheck<'_>) -> String {
    match reported_run(runs, &reported) {
        Ok(run) => format!(
            "{} #{} {:?}",
            run.spec.revision, run.spec.attempt, run.spec.cause
        ),
        Err(refusal) => refusal.to_string(),
    }
}

const OF_SMOKE: ReportedCheck<'_> = ReportedCheck {
    pipeline: "shop",
    environment: "dev",
    check: "smoke",
    revision: None,
    signature: None,
};

#[test]
fn a_result_is_for_the_newest_attempt_that_waits() {
    let two = "check dev smoke 2.0.0 Failed\ncheck dev smoke 2.0.0 Running #1";
    let before = "check prod smoke 2.0.0 Running before\ncheck prod smoke 2.0.0 Running";
    let several = "check dev smoke 2.0.0 Running\ncheck dev smoke 1.0.0 Running";
    let of_prod = ReportedCheck {
        environment: "prod",
        ..OF_SMOKE
    };
    fn of(revision: &str) -> ReportedCheck<'_> {
        ReportedCheck {
            revision: Some(revision),
            ..OF_SMOKE
        }
    }
    for (runs, asked, expected) in [
        ("check dev smoke 2.0.0 Running", OF_SMOKE, "2.0.0 #0 Verify"),
        (two, OF_SMOKE, "2.0.0 #1 Verify"),
        (before, of_prod, "2.0.0 #0 Promotion"),
        (several, of("1.0.0"), "1.0.0 #0 Verify"),
        (
            several,
            OF_SMOKE,
            "several revisions are checked; say which one",
        ),
        (
            "check dev smoke 2.0.0 Failed",
            OF_SMOKE,
            "the check has ended; to check again, retry it",
        ),
        ("check dev smoke 2.0.0 Running", of("1.0.0"), NONE),
        ("check dev smoke 2.0.0 Running", of_prod, NONE),
        (
            "check dev smoke 2.0.0 Running",
            ReportedCheck {
                check: "ticket",
                ..OF_SMOKE
            },
            NONE,
        ),
        (
            "check dev smoke 2.0.0 Running",
            ReportedCheck {
                pipeline: "other",
                ..OF_SMOKE
            },
            NONE,
        ),
    ] {
        assert_eq!(reported(&world(runs).runs, asked), expected, "{runs}");
    }
    // A revision may be named by its version.
    let mut runs = world("check dev smoke 2.0.0 Running").runs;
    let digest = format!("sha256:{}", "a".repeat(64));
    runs[0].spec.revision = digest.clone();
    runs[0].metadata.name = Some(api::names::check_run_name(&runs[0].spec));
    let found = format!("{digest} #0 Verify");
    assert_eq!(reported(&runs, of("2.0.0")), found);
    assert_eq!(reported(&runs, of(&digest)), found);
    // A check that the pipeline measures itself, and a check run that somebody else created.
    let mut runs = world("check dev smoke 2.0.0 Running").runs;
    runs[0].metadata.name = Some("other".to_owned());
    assert_eq!(reported(&runs, OF_SMOKE), NONE);
    let job = json!({"name": "smoke", "job": {"cronJobRef": {"name": "e2e"}}});
    runs[0].spec.check = serde_json::from_value::<Check>(job).unwrap();
    runs[0].metadata.name = Some(api::names::check_run_name(&runs[0].spec));
    assert_eq!(reported(&runs, OF_SMOKE), NONE);
}

const NONE: &str = "no external check of that name and revision waits for a result";

#[test]
fn a_signed_result_counts_once_and_not_for_a_later_attempt() {
    let signed = |seconds: i64, digest| ReportedCheck {
        signature: Some((ago("5m").0 + SignedDuration::from_secs(seconds), digest)),
        ..OF_SMOKE
    };
    let before =
        "the signature is older than the check run; check the clock and sign the call again";
    for (attempt, seconds, expected) in [
        ("", -1, before),
        ("", 0, "2.0.0 #0 Verify"),
        ("#1", 0, before),
        ("#1", 1, "2.0.0 #1 Verify"),
    ] {
        let runs = world(&format!("check dev smoke 2.0.0 Running {attempt}")).runs;
        assert_eq!(
            reported(&runs, signed(seconds, "d")),
            expected,
            "{attempt} {seconds}"
        );
    }
    // The result of the first attempt is stored; the same call is not one for the second.
    let mut runs = world("check dev smoke 2.0.0 Failed\ncheck dev smoke 2.0.0 Running #1").runs;
    runs[0].spec.result = Some(result(Some("d"), None, None));
    let stored = "a result is stored already; to check again, retry the check";
    assert_eq!(reported(&runs, signed(60, "d")), stored);
    assert_eq!(reported(&runs, signed(60, "e")), "2.0.0 #1 Verify");
    assert_eq!(reported(&runs[..1], signed(60, "e")), stored);
}

fn result(signature: Option<&str>, message: Option<&str>, url: Option<&str>) -> CheckResult {
    CheckResult {
        signature: signature.map(str::to_owned),
        message: message.map(str::to_owned),
        url: url.map(str::to_owned),
        at: Some(Time(now())),
        ..CheckResult::default()
    }
}

#[test]
fn what_cannot_be_stored_or_shown_is_refused() {
    let text = Some("message must be plain text of at most 1024 bytes");
    let web = Some("url must be a URL with http or https");
    let (long, longer) = ("a".repeat(1024), "a".repeat(1025));
    let far = format!("https://e/{}", "a".repeat(2048 - 10));
    let farther = format!("{far}a");
    for (message, url, expected) in [
        (None, None, None),
        (Some("two\nlines"), Some("https://e/1"), None),
        (Some(long.as_str()), Some("http://e/1"), None),
        (Some(longer.as_str()), None, text),
        (Some("bell \u{7}"), None, text),
        (None, Some(far.as_str()), None),
        (None, Some(farther.as_str()), web),
        (None, Some("javascript:alert(1)"), web),
        (None, Some("https://e/a b"), web),
        (None, Some("https://e/\n"), web),
    ] {
        let refused = refuse_result(&result(None, message, url)).err();
        let refused = refused.map(|it| it.to_string());
        assert_eq!(refused.as_deref(), expected, "{message:?} {url:?}");
    }
}

#[test]
fn which_secret_signs_a_call() {
    let with = |pipeline: bool, prod: bool| -> PipelineSpec {
        let secret = |name: &str, is_set: bool| match is_set {
            true => json!({"secretRef": {"name": name}}),
            false => json!({}),
        };
        serde_json::from_value(json!({
            "checks": [
                {"name": "ticket", "external": {"secretRef": {"name": "ticket"}}},
                {"name": "open", "external": {}},
                {"name": "job", "job": {"cronJobRef": {"name": "e2e"}}},
            ],
            "promotion": {"strategy": secret("pipeline", pipeline)},
            "environments": [
                {"name": "dev", "targets": [{"namespace": "dev"}], "promotion": {"strategy": secret("dev", prod)}},
                {"name": "prod", "targets": [{"namespace": "prod"}], "promotion": {"strategy": secret("prod", prod)}},
            ],
        }))
        .unwrap()
    };
    let of_report = |spec: &PipelineSpec| {
        let secret = report_secret(spec, "dev");
        secret.map(|it| (it.name.to_owned(), it.is_required))
    };
    let (all, own, none) = (with(true, true), with(false, true), with(false, false));
    assert_eq!(of_report(&all), Some(("pipeline".to_owned(), true)));
    assert_eq!(of_report(&own), Some(("prod".to_owned(), false)));
    assert_eq!(of_report(&none), None);
    let secrets = |spec| (approval_secret(spec, "prod"), release_secret(spec));
    assert_eq!(secrets(&all), (Some("pipeline"), Some("pipeline")));
    assert_eq!(secrets(&own), (Some("prod"), Some("dev")));
    assert_eq!(secrets(&none), (None, None));
    let checks = ["ticket", "open", "job", "missing"].map(|it| check_secret(&all, it));
    assert_eq!(checks, [Some("ticket"), None, None, None]);
    assert_eq!(external_checks(&all), ["ticket", "open"]);
}
