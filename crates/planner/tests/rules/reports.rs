//! What reports count for where a target should be read and cannot be, and where nothing else tells.

use api::{
    Pipeline, Time,
    pipeline::{CanaryState, Evidence, Report, TargetStatus, Track},
    promotion::Phase,
};
use planner::{Timestamp, fold};

use crate::{
    attempt,
    drawing::{draw, now},
    fold::{line, minute, pipeline, seen},
    plan::check,
};

/// A signed report that the only target runs a revision, after some minutes and seconds.
pub(crate) fn report(revision: &str, at: Timestamp) -> Report {
    Report {
        revision: revision.to_owned(),
        at: Some(Time(at)),
        severity: Some("info".to_owned()),
        reason: Some("UpgradeSucceeded".to_owned()),
        signed: true,
        ..Report::default()
    }
}

/// One step of a story: a minute passes, and a report comes or somebody looks.
struct Story {
    pipeline: Pipeline,
    minutes: i64,
    is_webhook: bool,
}

impl Story {
    fn new() -> Self {
        let mut pipeline = pipeline();
        pipeline.metadata.creation_timestamp = Some(Time(minute(0)));
        Self {
            pipeline,
            minutes: 0,
            is_webhook: false,
        }
    }

    fn webhook() -> Self {
        let is_webhook = true;
        Self {
            is_webhook,
            ..Self::new()
        }
    }

    fn tell(&mut self, report: Report) {
        let status = self.pipeline.status.get_or_insert_default();
        status.reports.insert("dev/-/shop".to_owned(), report);
    }

    /// Hears that the target runs a revision now.
    fn hear(&mut self, revision: &str) {
        self.minutes += 1;
        self.tell(report(revision, minute(self.minutes)));
    }

    fn look(&mut self, state: &str) -> TargetStatus {
        self.minutes += 1;
        let seen = seen(state, self.is_webhook);
        let status = fold(&self.pipeline, &seen, minute(self.minutes));
        self.pipeline.status = Some(status.clone());
        let again = fold(&self.pipeline, &seen, minute(self.minutes + 1000));
        assert_eq!(again, status, "folded twice");
        status.environments["dev"].targets[0].clone()
    }
}

const OUT_OF_SIGHT: [&str; 4] = ["unreachable", "forbidden", "not synced", "cluster missing"];

#[test]
fn a_signed_report_counts_for_a_target_that_was_never_read() {
    for state in OUT_OF_SIGHT {
        let mut story = Story::new();
        story.look(state);
        story.hear("2.0.0");
        let target = story.look(state);
        assert!(target.ready, "{state}: {}", line(&target));
        assert_eq!(target.revision.as_deref(), Some("2.0.0"), "{state}");
        assert_eq!(target.source, Some(Evidence::Report));
        assert!(
            target.problem.is_some(),
            "that it cannot be read is still said"
        );
        let mut early = Story::new();
        early.hear("2.0.0");
        assert!(early.look(state).ready, "{state}: before the first look");
    }
}

#[test]
fn a_report_from_before_the_outage_is_not_news() {
    for state in OUT_OF_SIGHT {
        let mut story = Story::new();
        story.hear("1.0.0");
        story.look("2.0.0 ok");
        let target = story.look(state);
        assert_eq!(target.revision.as_deref(), Some("2.0.0"), "{state}");
        assert!(
            !target.ready,
            "{state}: the report of 1.0.0 is older than 2.0.0"
        );
        let mut story = Story::new();
        story.look("2.0.0 ok");
        story.hear("2.0.0");
        assert!(
            !story.look(state).ready,
            "{state}: 2.0.0 was seen, and is not seen any more"
        );
        let mut story = Story::new();
        story.hear("1.0.0");
        story.look("missing");
        story.look(state);
        assert!(!story.look(state).ready, "{state}: the app was gone");
    }
}

#[test]
fn a_report_during_the_outage_counts_until_the_target_is_read_again() {
    let mut story = Story::new();
    story.look("1.0.0 ok");
    story.look("unreachable");
    story.hear("2.0.0");
    let target = story.look("unreachable");
    assert_eq!(
        line(&target),
        "2.0.0 ready since 4m, Unreachable (not reachable: connection refused)"
    );
    let mut failed = report("3.0.0", minute(5));
    failed.severity = Some("error".to_owned());
    story.tell(failed);
    let target = story.look("unreachable");
    assert!(!target.ready && target.failed.as_deref() == Some("3.0.0"));
    let target = story.look("2.0.0 ok");
    assert_eq!(target.source, Some(Evidence::Watch));
    assert!(target.ready && target.unreadable_since.is_none());
    assert!(
        !story.look("unreachable").ready,
        "the next outage needs its own reports"
    );
}

/// The connection is lost a while before that is noticed.
#[test]
fn a_new_revision_counts_that_was_reported_before_the_outage_was_noticed() {
    let mut story = Story::new();
    story.look("1.0.0 ok");
    story.hear("2.0.0");
    let target = story.look("unreachable");
    assert!(target.ready && target.revision.as_deref() == Some("2.0.0"));
    assert!(story.look("unreachable").ready);
}

#[test]
fn without_a_signature_or_a_right_nothing_counts() {
    let mut story = Story::new();
    story.look("unreachable");
    let signed = false;
    let report_without = Report {
        signed,
        ..report("2.0.0", minute(5))
    };
    story.tell(report_without);
    assert!(!story.look("unreachable").ready);
    for mut story in [Story::new(), Story::webhook()] {
        story.look("refused");
        story.hear("2.0.0");
        let target = story.look("refused");
        assert!(!target.ready, "the pipeline may not use that cluster");
    }
}

#[test]
fn in_webhook_mode_no_cluster_needs_to_be_ready() {
    for state in ["not watched", "cluster not ready", "cluster missing"] {
        let mut story = Story::webhook();
        let target = story.look(state);
        assert!(!target.ready && target.revision.is_none(), "{state}");
        story.hear("2.0.0");
        let target = story.look(state);
        assert_eq!(line(&target), "2.0.0 ready since 3m", "{state}");
        assert_eq!(target.unreadable_since, None);
    }
}

#[test]
fn what_is_reported_goes_on_and_is_gone_into() {
    check(
        "dev[2.0.0 ok told] > prod[- broken told cluster-not-ready]",
        "start prod 2.0.0 instead of nothing",
    );
    check(
        "dev[2.0.0 ok told lost] > prod[1.0.0 ok told lost]",
        "start prod 2.0.0 instead of 1.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 broken lost]",
        "prod: TargetUnreachable: prod target prod: no answer; resolved by making the target readable again",
    );
}

/// Where clusters are read, an outage of all of them does not make one target enough.
#[test]
fn an_outage_does_not_change_how_many_targets_must_be_ready() {
    check(
        "dev[2.0.0 ok told lost, 1.0.0 ok told lost] > prod[1.0.0 ok]",
        "prod: SourceTargetsDiffer: dev targets run 1.0.0 and 2.0.0; resolved by one revision on all targets of dev",
    );
}

#[test]
fn a_reported_target_is_as_it_is_reported() {
    for (drawing, word) in [
        ("dev[2.0.0 ok told lost]", "ready"),
        ("dev[1.0.0 failed 2.0.0 told lost]", "failed"),
        ("dev[1.0.0 broken lost]", "unreadable"),
        ("dev[- broken told cluster-not-ready]", "unreadable"),
    ] {
        let world = draw(drawing);
        let target = &world.model().environments["dev"].targets[0];
        assert_eq!(planner::target_state(target).word(), word, "{drawing}");
    }
}

#[test]
fn a_merged_promotion_ends_where_nothing_has_ever_reported() {
    let silence = "Succeeded/NothingReports: the change is in git; nothing reports from prod, so \
                   whether it runs 2.0.0 is not known: an Alert there would tell";
    let waits = "Deploying/Deploying: prod does not run 2.0.0 yet, again in 3540s";
    let deploying = "promotion prod 2.0.0 Deploying merged 1m";
    for (targets, seen, expected) in [
        (format!("prod[- broken told]\n{deploying}"), "", silence),
        (
            format!("prod[- broken told cluster-not-ready]\n{deploying}"),
            "",
            silence,
        ),
        (
            "prod[- broken told]\npromotion prod 2.0.0 WaitingForMerge".to_owned(),
            "merged",
            silence,
        ),
        (format!("prod[1.0.0 ok told]\n{deploying}"), "", waits),
        (
            format!("prod[1.0.0 ok told, - broken told]\n{deploying}"),
            "",
            waits,
        ),
        (format!("prod[- broken]\n{deploying}"), "", waits),
        (format!("prod[- broken told lost]\n{deploying}"), "", waits),
        (
            format!("prod[- broken told, - broken told]\nreported prod 1.0.0\n{deploying}"),
            "",
            waits,
        ),
        (
            format!("prod[- broken told, - broken told]\nreported prod 2.0.0\n{deploying}"),
            "",
            "Succeeded/Deployed: prod runs 2.0.0",
        ),
    ] {
        attempt::check(&targets, seen, expected);
    }
}

#[test]
fn an_environment_that_has_only_begun_to_report_is_waited_for() {
    let mut world = draw(
        "dev[2.0.0 ok told] > prod[- broken told]
        promotion prod 2.0.0 Deploying merged 1m",
    );
    let mut report = report("2.0.0", now());
    report.reason = Some("Progressing".to_owned());
    let status = world.pipeline.status.as_mut().unwrap();
    status.reports.insert("prod/-/prod".to_owned(), report);
    let next = attempt::next_of(&world, "");
    assert_eq!(next.status.phase, Some(Phase::Deploying));
}

/// What was brought into git is taken to be there, but vouches for nothing.
#[test]
fn where_nothing_reports_what_is_in_git_is_not_brought_again() {
    let brought = "promotion prod 2.0.0 Succeeded merged 5m";
    check(
        &format!("dev[2.0.0 ok told] > prod[- broken told]\n{brought}"),
        "nothing",
    );
    check(
        &format!("dev[2.0.0 ok told] > prod[- broken told] > last[- broken told]\n{brought}"),
        "last: SourceNotReady: no target of prod is ready; resolved by one ready target of prod",
    );
    check(
        &format!("dev[3.0.0 ok told] > prod[- broken told]\n{brought}"),
        "start prod 3.0.0 instead of 2.0.0",
    );
    check(
        &format!("dev[1.0.0 ok told] > prod[- broken told]\n{brought}"),
        "prod: OlderThanRunning: prod runs 2.0.0, which is newer than 1.0.0; resolved by a newer revision or a request for 1.0.0",
    );
    check(
        &format!("dev[2.0.0 ok told] > prod[1.0.0 ok told]\n{brought}"),
        "prod: AlreadyRan: 2.0.0 ran in prod before and was replaced; resolved by a newer revision or a request for 2.0.0",
    );
}

#[test]
fn explain_says_where_nothing_reports() {
    let world =
        draw("dev[2.0.0 ok told] > prod[- broken told]\npromotion prod 2.0.0 Succeeded merged 5m");
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    let expected = "dev: runs 2.0.0, ready\nprod: nothing has reported from it\n  promotion of 2.0.0: Succeeded";
    assert_eq!(text, expected);
}

/// Flux reports success before Flagger has decided, and its Canary cannot be read.
#[test]
fn a_report_alone_does_not_pass_what_flagger_analyses() {
    let mut story = Story::new();
    story.look("1.0.0 ok");
    let status = story.pipeline.status.as_mut().unwrap();
    let dev = status.environments.get_mut("dev").unwrap();
    dev.targets[0].apps[0].canary = Some(CanaryState {
        promoted: Some("1.0.0".to_owned()),
        ..CanaryState::default()
    });
    story.look("unreachable");
    story.hear("1.1.0");
    let target = story.look("unreachable");
    assert!(!target.ready, "{target:?}");
    assert_eq!(target.revision.as_deref(), Some("1.1.0"));
    assert!(target.apps[0].canary.is_some(), "what passed is remembered");
    story.hear("1.0.0");
    assert!(story.look("unreachable").ready, "it passed before");
}

/// Flux's events name the chart or the source, and `track` compares the image.
#[test]
fn a_report_says_nothing_about_a_tracked_image() {
    for mut story in [Story::new(), Story::webhook()] {
        story.pipeline.spec.track = Some(Track {
            image: "web".to_owned(),
        });
        story.hear("main@sha1:c0ffee");
        let target = story.look("unreachable");
        assert_eq!((target.revision, target.ready), (None, false));
    }
}
