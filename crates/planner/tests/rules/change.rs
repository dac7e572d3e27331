//! The life of a file that is to be proposed in git.

use std::time::Duration;

use api::{
    Change, Time,
    change::{ChangePhase, ChangeSpec, ChangeStatus},
};
use planner::{
    Failure, ObservedPullRequest, Outcome, Remedy, Timestamp, WritingUser,
    change::{
        conclude, plan, pull_request_lookup, refuse, status_after_failed_lookup, suggested_path,
        surplus,
    },
    refuse_change,
};

use crate::drawing::now;

const URL: &str = "https://example.com/1";

fn change(path: &str) -> Change {
    let mut change = Change::new("new", ChangeSpec::default());
    change.spec.path = path.to_owned();
    change.metadata.namespace = Some("shop".to_owned());
    change
}

/// `Pending`, `Proposed`, …, with ` later` where the next attempt is not due yet.
fn at(drawing: &str) -> Change {
    let mut change = change("apps/new.yaml");
    let (phase, more) = drawing.split_once(' ').unwrap_or((drawing, ""));
    let phase = match phase {
        "-" => return change,
        "Pending" => ChangePhase::Pending,
        "Proposed" => ChangePhase::Proposed,
        "Merged" => ChangePhase::Merged,
        "Abandoned" => ChangePhase::Abandoned,
        "Failed" => ChangePhase::Failed,
        _ => panic!("{drawing:?} is not in the notation"),
    };
    change.status = Some(ChangeStatus {
        phase: Some(phase),
        next_attempt: (more == "later").then(|| Time(now() + Duration::from_secs(60))),
        ..ChangeStatus::default()
    });
    change
}

fn seen(text: &str) -> ObservedPullRequest {
    let url = URL.to_owned();
    match text {
        "" => ObservedPullRequest::NotQueried,
        "missing" => ObservedPullRequest::Missing,
        "open" => ObservedPullRequest::Open {
            url,
            is_current: true,
            changed_by_others: false,
            is_merge_scheduled: false,
        },
        "merged" => ObservedPullRequest::Merged { url, commit: None },
        "closed" => ObservedPullRequest::Closed { url },
        _ => panic!("{text:?} is not in the notation"),
    }
}

fn failure(remedy: Remedy) -> Failure {
    Failure {
        reason: "Broken".to_owned(),
        message: "it is broken; mend it".to_owned(),
        remedy,
    }
}

fn show(status: &ChangeStatus) -> String {
    let Some(phase) = status.phase else {
        return "-".to_owned();
    };
    let ready = status.conditions.iter().find(|it| it.type_ == "Ready");
    let ready = ready.map(|it| format!(" {}/{}", it.status, it.reason));
    let again = status.next_attempt.as_ref().map(|at| {
        let seconds = at.0.duration_since(now()).as_secs();
        format!(" again in {seconds}s")
    });
    let url = status.url.as_ref().map(|_| " with url");
    let (ready, again) = (ready.unwrap_or_default(), again.unwrap_or_default());
    format!("{phase:?}{ready}{}{again}", url.unwrap_or_default())
}

#[track_caller]
fn check(from: &str, sight: &str, expected: &str) {
    let change = at(from);
    let next = plan(&change, None, &seen(sight), now());
    let propose = if next.propose { "propose, " } else { "" };
    assert_eq!(format!("{propose}{}", show(&next.status)), expected);
    let again = planner::change::plan(
        &Change {
            status: Some(next.status.clone()),
            ..change
        },
        None,
        &seen(sight),
        now() + Duration::from_secs(3600),
    );
    assert_eq!(again.status, next.status, "seeing the same is no news");
}

#[test]
fn the_pull_request_says_how_far_it_is() {
    check("-", "missing", "propose, -");
    check("-", "open", "Proposed Unknown/Proposed with url");
    check("-", "merged", "Merged True/Merged with url");
    check("-", "closed", "Abandoned False/Abandoned with url");
    check("Proposed", "open", "Proposed Unknown/Proposed with url");
    check("Proposed", "merged", "Merged True/Merged with url");
    check("Proposed", "closed", "Abandoned False/Abandoned with url");
    check("Proposed", "missing", "propose, Proposed");
    check("Failed", "missing", "propose, Failed");
    check("Pending", "", "Pending");
}

#[test]
fn what_is_over_is_left_alone() {
    check("Merged", "missing", "Merged");
    check("Abandoned", "missing", "Abandoned");
}

#[test]
fn forges_are_asked_only_where_the_answer_matters() {
    for (drawing, edited, expected) in [
        ("-", false, "Fresh"),
        ("Pending", false, "Fresh"),
        ("Pending later", false, "Skip"),
        ("Pending later", true, "Fresh"),
        ("Failed later", false, "Skip"),
        ("Failed later", true, "Fresh"),
        ("Failed", false, "Fresh"),
        ("Proposed", false, "Cached"),
        ("Merged", true, "Skip"),
        ("Abandoned", true, "Skip"),
    ] {
        let how = pull_request_lookup(&at(drawing), edited, now());
        assert_eq!(format!("{how:?}"), expected, "{drawing} {edited}");
    }
}

#[track_caller]
fn check_outcome(from: &str, outcome: Outcome, expected: &str) {
    let change = at(from);
    let before = change.status.clone().unwrap_or_default();
    let status = conclude(&change, before, outcome, now(), 7);
    // Jitter apart: pauses are shown by their order of magnitude.
    let shown = show(&status);
    assert!(shown.starts_with(expected), "{shown}");
    assert_eq!(status.attempts, 1);
    assert_eq!(
        status.next_attempt.is_some(),
        expected.contains("Broken"),
        "{shown}"
    );
}

#[test]
fn attempts_end_in_a_phase_and_a_next_attempt() {
    let opened = Outcome::Opened {
        url: URL.to_owned(),
        branch: "b".to_owned(),
        commit: None,
        notes: Vec::new(),
    };
    check_outcome("-", opened, "Proposed Unknown/Proposed with url");
    check_outcome("Failed", Outcome::AlreadyThere, "Merged True/Merged");
    let passing = Outcome::Failed(failure(Remedy::Retry));
    check_outcome("-", passing.clone(), "Pending Unknown/Broken");
    check_outcome("Failed", passing, "Pending Unknown/Broken");
    let limited = Remedy::RetryAfter(Duration::from_secs(900));
    let limited = Outcome::Failed(failure(limited));
    check_outcome("-", limited, "Pending Unknown/Broken again in 900s");
    let stuck = Outcome::Failed(failure(Remedy::WaitForEdit));
    check_outcome("Pending", stuck, "Failed False/Broken");
}

#[test]
fn a_pull_request_that_cannot_be_seen_is_still_followed() {
    let change = at("Proposed");
    let before = change.status.clone().unwrap();
    let failure = failure(Remedy::Retry);
    let once = status_after_failed_lookup(&change, before, &failure, now(), 7);
    assert_eq!(show(&once), "Proposed Unknown/Broken");
    let twice = status_after_failed_lookup(&change, once.clone(), &failure, now(), 7);
    assert_eq!(twice, once);
    let other = Failure {
        reason: "Gone".to_owned(),
        ..failure.clone()
    };
    let thrice = status_after_failed_lookup(&change, once, &other, now(), 7);
    assert_eq!(show(&thrice), "Proposed Unknown/Gone");
    let change = at("-");
    let pending = status_after_failed_lookup(&change, ChangeStatus::default(), &failure, now(), 7);
    assert!(show(&pending).starts_with("Pending Unknown/Broken again"));
}

#[track_caller]
fn check_path(folders: &[&str], path: &str, expected: &str) {
    let folders: Vec<String> = folders.iter().map(|it| (*it).to_owned()).collect();
    let refused = refuse(&change(path), Some(&folders));
    let message = refused.map(|refused| refused.message).unwrap_or_default();
    assert!(
        message.contains(expected) && message.is_empty() == expected.is_empty(),
        "{path}: {message}"
    );
}

#[test]
fn only_yaml_files_in_the_allowed_folders_are_proposed() {
    check_path(&["apps"], "apps/new.yaml", "");
    check_path(&["./apps/"], "apps/deep/new.yml", "");
    check_path(&["."], "new.yaml", "");
    check_path(&["a", "b"], "b/new.yaml", "");
    check_path(&["a", "b"], "c/new.yaml", "only files in a and b are");
    check_path(&["apps"], "apps2/new.yaml", "--authoring-paths");
    check_path(&["apps"], "apps/new.sh", ".yaml or .yml");
    check_path(&["teams/${namespace}"], "teams/shop/new.yaml", "");
    check_path(
        &["teams/${namespace}"],
        "teams/bank/new.yaml",
        "in teams/shop",
    );
    for path in [
        ".github/workflows/x.yaml",
        "apps/../x.yaml",
        ".gitlab-ci.yml",
        "a/.x/b.yaml",
    ] {
        check_path(&["."], path, "begin with a dot");
    }
    for path in ["bitbucket-pipelines.yml", "a/Azure-Pipelines.yaml"] {
        check_path(&["."], path, "forges run");
    }
    for path in ["/etc/x.yaml", "a//b.yaml", "a\\b.yaml", "a\nb.yaml"] {
        check_path(&["."], path, "plain path");
    }
}

#[test]
fn without_a_repository_new_changes_say_which_flag_is_missing() {
    let refused = refuse(&at("-"), None).unwrap();
    let after = |drawing: &str| {
        let next = plan(&at(drawing), Some(&refused), &seen(""), now());
        show(&next.status)
    };
    assert!(refused.message.contains("--authoring-url"), "{refused:?}");
    assert_eq!(after("-"), "Failed False/NotConfigured");
    // Another process may be at it.
    for drawing in ["Pending", "Proposed", "Merged", "Failed"] {
        assert_eq!(after(drawing), drawing);
    }
    let refused = refuse(&change("x.sh"), Some(&[".".to_owned()])).unwrap();
    let next = |drawing: &str| plan(&at(drawing), Some(&refused), &seen(""), now());
    assert_eq!(show(&next("Pending").status), "Failed False/PathRefused");
    let mut proposed = at("Proposed");
    proposed.spec.path = "x.sh".to_owned();
    assert_eq!(refuse(&proposed, Some(&[".".to_owned()])), None);
}

#[test]
fn paths_for_pipelines_fit_the_folders() {
    let suggested = |folder: &str| suggested_path(&[folder.to_owned()], "shop", "basket");
    assert_eq!(suggested("pipelines"), "pipelines/shop/basket.yaml");
    assert_eq!(suggested("a/${namespace}/"), "a/shop/basket.yaml");
    assert_eq!(suggested("."), "pipelines/shop/basket.yaml");
}

/// A change that is over since some hours.
fn over(name: &str, hours: u64) -> Change {
    let mut change = at("-");
    change.metadata.name = Some(name.to_owned());
    let ended = now() - Duration::from_secs(hours * 3600);
    let next = plan(&change, None, &seen("merged"), ended);
    change.status = Some(next.status);
    change
}

#[test]
fn finished_changes_go_after_a_week_or_when_there_are_too_many() {
    let all = [
        over("old", 169),
        over("a", 3),
        over("b", 1),
        over("c", 2),
        at("Proposed"),
    ];
    let names = |limit: usize, now: Timestamp| -> Vec<String> {
        let all: Vec<_> = all.iter().collect();
        let surplus = surplus(&all, limit, now).into_iter();
        surplus.filter_map(|it| it.metadata.name.clone()).collect()
    };
    assert_eq!(names(20, now()), ["old"]);
    assert_eq!(names(2, now()), ["a", "old"]);
    let week = Duration::from_secs(7 * 24 * 3600);
    assert_eq!(names(20, now() + week), ["b", "c", "a", "old"]);
    let requeue_at = plan(&all[1], None, &seen(""), now()).requeue_at.unwrap();
    assert_eq!(requeue_at, now() - Duration::from_secs(3 * 3600) + week);
}

#[test]
fn a_change_is_by_who_creates_it() {
    let may = |_: &str, _: Option<&str>| true;
    let writer = WritingUser {
        groups: &[],
        name: "ann",
        may: &may,
    };
    let by = |name: Option<&str>| {
        let mut change = at("-");
        change.spec.by = name.map(str::to_owned);
        refuse_change(&change, &writer)
    };
    assert_eq!(by(None), None);
    assert_eq!(by(Some("ann")), None);
    assert_eq!(by(Some("bob")).as_deref(), Some("spec.by must be ann"));
}
