//! What people see at a glance, what they can ask for, and what they should mend.

use api::{
    names::REQUEST_ANNOTATION,
    pipeline::{Override, Request, RequestKind, Target},
    promotion::Withdrawal,
};
use planner::{Completion, request_annotation};

use crate::{
    attempt::next_of,
    drawing::{World, draw, now},
};

/// The world with the plan written into its status, as the loop leaves it.
fn planned(drawing: &str) -> World {
    let mut world = draw(drawing);
    let mut model = planner::apply(&world.plan(), &world.model(), now());
    model.observed_generation = Some(1);
    world.pipeline.status = Some(model);
    world
}

#[track_caller]
fn check(drawing: &str, expected: &str) {
    let world = planned(drawing);
    let environments = world.pipeline.spec.environments.iter();
    let states = environments
        .map(|it| planner::environment_state(&world.pipeline, &world.model(), &it.name).word());
    let states: Vec<_> = states.collect();
    let settled = match planner::completion(&world.pipeline, &world.model(), None, None) {
        Completion::Complete => "settled".to_owned(),
        Completion::Held(text) => format!("nothing comes: {text}"),
        Completion::InProgress(text) => format!("not yet: {text}"),
        Completion::Failed(text) => format!("never: {text}"),
    };
    let expected: Vec<_> = expected.trim().lines().map(str::trim).collect();
    let told = format!("{}\n{settled}", states.join(" > "));
    assert_eq!(told.trim(), expected.join("\n"));
}

#[test]
fn a_state_is_one_word() {
    check(
        "dev[2.0.0 ok] > test[] > prod[2.0.0 ok]",
        "ready > no targets > ready\nsettled",
    );
    check(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
        "ready > awaiting approval
         not yet: prod is awaiting approval: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "ready > promoting\nnot yet: prod is promoting",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0",
        "ready > held
         nothing comes: prod is held: 2.0.0 was rolled back, rejected or cancelled in prod, or its pull request was closed; resolved by a newer revision or a request for 2.0.0",
    );
    // It is ahead of dev, which went back: there is nothing newer to bring.
    check("dev[1.0.0 ok] > prod[2.0.0 ok]", "ready > ready\nsettled");
    check(
        "dev[1.0.0 ok] > prod[2.0.0 broken]",
        "ready > not ready
         not yet: prod is not ready: prod runs 2.0.0, which is newer than 1.0.0; resolved by a newer revision or a request for 1.0.0",
    );
    check(
        "dev[2.0.0 unreachable] > prod{suspended}[2.0.0 ok]",
        "unreadable > suspended\nnot yet: dev is unreadable: no answer",
    );
    check(
        "dev[2.0.0 broken failed 2.0.0] > prod[2.0.0 broken]",
        "failed > not ready\nnever: dev is failed: 2.0.0 failed",
    );
    check("", "\nnever: the pipeline has no environments");
}

/// Its own line, not only that of the environment behind.
#[test]
fn an_environment_says_what_its_verification_waits_for() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{verify smoke}[2.0.0 ok]
         check prod smoke 2.0.0 Error
         promotion prod 2.0.0 Verifying merged 5m",
    );
    world.promotions[0].status = Some(next_of(&world, "").status);
    let model = planner::apply(&world.plan(), &world.model(), now());
    let text = planner::explain(&world.pipeline, &model, &world.plan());
    let waits = "prod runs 2.0.0; smoke cannot be measured";
    let line = format!("  promotion of 2.0.0: Verifying\n  because: {waits} [Verifying]");
    assert!(text.contains(&line), "{text}");
    let message = planner::environment_message(model.environments.get("prod"));
    assert_eq!(message.as_deref(), Some(waits));
}

#[test]
fn a_promotion_that_ended_without_an_outcome_says_why() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod[2.0.0 ok]
         promotion prod 1.5.0 Withdrawn withdrawn
         promotion prod 1.6.0 Superseded superseded
         promotion prod 1.7.0 Withdrawn cancelled
         promotion prod 2.0.0 Succeeded asked r1 asker ann
         promotion prod 1.8.0 Failed withdrawn",
    );
    let successor = world.promotions[3].metadata.name.clone().unwrap();
    let reason = planner::superseded_by(&successor);
    world.promotions[1].spec.withdrawn = Some(Withdrawal { reason });
    let ended = |it| planner::ended_because(it, &world.promotions);
    let ended: Vec<_> = world.promotions.iter().map(ended).collect();
    let ended: Vec<_> = ended.iter().map(Option::as_deref).collect();
    assert_eq!(
        ended,
        [
            Some("withdrawn: it is no longer the next revision of prod"),
            Some("replaced by 2.0.0, requested by ann"),
            Some("cancelled by ada"),
            None,
            None
        ]
    );
    let lost = planner::ended_because(&world.promotions[1], &[]);
    assert_eq!(lost, Some(format!("replaced by {successor}")));
    // Another tenant's pipeline has the same name.
    let mut promotions = world.promotions.clone();
    let mut theirs = promotions[3].clone();
    theirs.metadata.namespace = Some("theirs".to_owned());
    theirs.spec.version = "3.0.0".to_owned();
    promotions.insert(0, theirs);
    let ended = planner::ended_because(&world.promotions[1], &promotions);
    assert_eq!(
        ended.as_deref(),
        Some("replaced by 2.0.0, requested by ann")
    );
}

#[test]
fn explain_says_why_the_last_promotion_was_withdrawn() {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running withdrawn");
    world.promotions[0].status = Some(next_of(&world, "").status);
    let model = planner::apply(&world.plan(), &world.model(), now());
    let text = planner::explain(&world.pipeline, &model, &world.plan());
    let line = "  promotion of 2.0.0: Withdrawn\n  \
                because: withdrawn: it is no longer the next revision of prod [Withdrawn]";
    assert!(text.contains(line), "{text}");
    let message = planner::environment_message(model.environments.get("prod"));
    assert_eq!(message, None, "that says nothing about what runs");
}

/// Only people, or a newer revision, change that: waiting for it would not end.
#[test]
fn what_only_people_change_is_not_waited_for() {
    let rolled_back = "dev[2.0.0 ok] > prod[1.0.0 ok]
         promotion prod 1.0.0 Succeeded back asker ada instead 2.0.0
         rejected prod 2.0.0";
    let held = "ready > held
         nothing comes: prod is held: ada rolled prod back from 2.0.0 to 1.0.0; resolved by a newer revision or a request for 2.0.0";
    check(rolled_back, held);
    check(
        "dev{verify smoke}[2.0.0 ok] > prod[1.0.0 ok]
         check dev smoke 2.0.0 Failed",
        "ready > held
         nothing comes: prod is held: 2.0.0 failed in dev: the check smoke failed: it was slow; resolved by a newer revision, a retry of the checks of dev, or a request for 2.0.0",
    );
    // A request is about to change it.
    let asked = draw(&format!(
        "{rolled_back}\nhandled prod r0\nrequest prod Promote 2.0.0 r1"
    ));
    let mut model = planned(rolled_back).model();
    model.requests = asked.model().requests;
    let completion = planner::completion(&asked.pipeline, &model, None, None);
    assert!(
        matches!(completion, Completion::InProgress(_)),
        "{completion:?}"
    );
    // So is one for another environment.
    let mut retried = planned(rolled_back);
    let retry = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\nrequest dev Retry - r2").model();
    retried.pipeline.status.as_mut().unwrap().requests = retry.requests;
    let completion = planner::completion(&retried.pipeline, &retried.model(), None, None);
    let expected = "a request for dev is about to be handled".to_owned();
    assert_eq!(completion, Completion::InProgress(expected));
    // What runs beside the revision that failed a check may come.
    let beside = |verdict: &str| {
        let world = planned(&format!(
            "dev{{verify smoke}}[2.1.0 ok 5m, 2.0.0 ok] > prod{{any}}[1.0.0 ok]
             check dev smoke 2.1.0 Failed\ncheck dev smoke 2.0.0 {verdict}"
        ));
        let hold = world.model().environments["prod"].hold.clone().unwrap();
        assert_eq!(hold.reason, "VerificationFailed", "{verdict}");
        planner::completion(&world.pipeline, &world.model(), None, None)
    };
    for (verdict, is_held) in [("Pending", false), ("Running", false), ("Failed", true)] {
        let completion = beside(verdict);
        let found = matches!(completion, Completion::Held(_));
        assert_eq!(found, is_held, "{verdict}: {completion:?}");
    }
    // Of another environment nothing is known yet.
    let unknown = rolled_back.replace("dev[2.0.0 ok]", "eu[] > dev[2.0.0 ok]");
    let mut world = planned(&unknown);
    world.pipeline.spec.environments[0]
        .targets
        .push(Target::default());
    let completion = planner::completion(&world.pipeline, &world.model(), None, None);
    assert!(
        matches!(completion, Completion::InProgress(_)),
        "{completion:?}"
    );
    // Elsewhere something comes by itself.
    let elsewhere = rolled_back.replace("dev[2.0.0 ok]", "eu{soak 2h}[1.0.0 ok] > dev[2.0.0 ok]");
    let elsewhere = elsewhere.replacen(
        "eu{soak 2h}[1.0.0 ok]",
        "hub[3.0.0 ok 5m] > eu{soak 2h}[1.0.0 ok]",
        1,
    );
    let world = planned(&elsewhere);
    let completion = planner::completion(&world.pipeline, &world.model(), None, None);
    assert!(
        matches!(completion, Completion::InProgress(_)),
        "{completion:?}"
    );
}

#[test]
fn a_revision_can_be_waited_for() {
    let world = planned("dev[2.0.0 ok] > test[] > prod[2.0.0 ok]");
    let settled =
        |only, revision| planner::completion(&world.pipeline, &world.model(), only, Some(revision));
    assert_eq!(settled(None, "2.0.0"), Completion::Complete);
    let not_yet = |text: &str| Completion::InProgress(text.to_owned());
    assert_eq!(settled(None, "3.0.0"), not_yet("dev runs 2.0.0, not 3.0.0"));
    assert_eq!(
        settled(Some("prod"), "3.0.0"),
        not_yet("prod runs 2.0.0, not 3.0.0")
    );
}

#[test]
fn a_revision_that_was_rejected_is_not_waited_for() {
    let drawing = "dev[2.0.0 ok] > prod{verify smoke, back}[1.0.0 ok]
         ran prod 2.0.0 1.0.0
         rejected prod 2.0.0";
    let settled = |drawing: &str, revision| {
        let world = planned(drawing);
        planner::completion(
            &world.pipeline,
            &world.model(),
            Some("prod"),
            Some(revision),
        )
    };
    let rejected = "prod rejected 2.0.0".to_owned();
    assert_eq!(settled(drawing, "2.0.0"), Completion::Failed(rejected));
    // What it waits for next does not matter to the revision that runs.
    assert_eq!(settled(drawing, "1.0.0"), Completion::Complete);
    // A person requested it nevertheless.
    let requested = format!("{drawing}\npromotion prod 2.0.0 WaitingForMerge asked r1");
    let under_way = settled(&requested, "2.0.0");
    assert!(
        matches!(under_way, Completion::InProgress(_)),
        "{under_way:?}"
    );
}

#[test]
fn a_rollback_goes_back_to_what_ran_before() {
    for (drawing, expected) in [
        ("prod[2.0.0 ok]\nran prod 2.0.0 1.0.0", Some("1.0.0")),
        (
            "prod[2.0.0 ok]\nran prod 2.0.0 1.5.0 1.0.0\nrejected prod 1.5.0",
            Some("1.0.0"),
        ),
        (
            "prod[2.0.0 ok, 1.0.0 ok]\nran prod 2.0.0 1.0.0 0.9.0",
            Some("0.9.0"),
        ),
        ("prod[2.0.0 ok]\nran prod 2.0.0", None),
        (
            "prod[3.0.0 ok] > canary[]\nran prod 3.0.0 2.0.0 1.0.0\nfailed-check canary smoke 2.0.0",
            Some("1.0.0"),
        ),
    ] {
        let model = draw(drawing).model();
        assert_eq!(
            planner::previous_revision(&model, "prod"),
            expected,
            "{drawing}"
        );
    }
}

#[test]
fn what_was_rejected_or_failed_is_offered_last_for_a_rollback() {
    let drawing = "prod[2.0.0 ok] > canary[]\nran prod 3.0.0 2.5.0 2.0.0 1.0.0\nrejected prod 3.0.0
                   failed-check canary smoke 2.5.0";
    let model = draw(drawing).model();
    let offered = planner::rollback_targets(&model, "prod");
    let offered = offered.iter().map(|it| (it.revision, it.caution));
    assert_eq!(
        offered.collect::<Vec<_>>(),
        [
            ("1.0.0", None),
            ("3.0.0", Some("rejected here")),
            ("2.5.0", Some("failed a check")),
        ]
    );
}

#[test]
fn only_what_waits_can_be_approved() {
    for (fact, expected) in [
        ("2.0.0 AwaitingApproval", 1),
        ("2.0.0", 1),
        ("2.0.0 AwaitingApproval approved", 0),
        ("2.0.0 AwaitingApproval withdrawn", 0),
        ("2.0.0 WaitingForMerge", 0),
    ] {
        let drawing = "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]";
        let world = draw(&format!("{drawing}\npromotion prod {fact}"));
        let count = |environment| planner::approvable(&world.promotions, "shop", environment).len();
        assert_eq!((count("prod"), count("dev")), (expected, 0), "{fact}");
        assert!(planner::approvable(&world.promotions, "other", "prod").is_empty());
    }
}

fn request(revision: &str, by: &str) -> Request {
    Request {
        id: format!("{revision} by {by}"),
        revision: revision.to_owned(),
        kind: RequestKind::Promote,
        by: Some(by.to_owned()),
        ..Request::default()
    }
}

#[test]
fn requests_are_added_to_those_that_wait() {
    let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]");
    let mut ask = |environment: &str, revision: &str, by: &str, replace| {
        let request = request(revision, by);
        let annotation = request_annotation(&world.pipeline, environment, &request, replace);
        if let Ok(text) = &annotation {
            let annotations = world.pipeline.metadata.annotations.get_or_insert_default();
            annotations.insert(REQUEST_ANNOTATION.to_owned(), text.clone());
        }
        annotation.map(|text| {
            let all: serde_json::Value = serde_json::from_str(&text).unwrap();
            let all = all.as_object().unwrap().iter();
            let all = all.map(|(name, it)| format!("{name} {}", it["revision"].as_str().unwrap()));
            all.collect::<Vec<_>>().join(", ")
        })
    };
    assert_eq!(ask("dev", "3.0.0", "ada", false).unwrap(), "dev 3.0.0");
    assert_eq!(
        ask("prod", "2.0.0", "ada", false).unwrap(),
        "dev 3.0.0, prod 2.0.0"
    );
    assert_eq!(
        ask("prod", "2.1.0", "ada", false).unwrap(),
        "dev 3.0.0, prod 2.1.0"
    );
    let other = ask("prod", "2.2.0", "bob", false).unwrap_err();
    assert_eq!(
        (other.environment.as_str(), other.by.as_str()),
        ("dev", "ada")
    );
    assert_eq!(ask("prod", "2.2.0", "bob", true).unwrap(), "prod 2.2.0");
}

#[test]
fn requests_that_were_taken_up_are_dropped() {
    let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\nhandled dev old");
    let waiting = r#"{"dev": {"id": "old", "revision": "3.0.0", "by": "ada"}}"#;
    let annotations = world.pipeline.metadata.annotations.get_or_insert_default();
    annotations.insert(REQUEST_ANNOTATION.to_owned(), waiting.to_owned());
    let text = request_annotation(&world.pipeline, "prod", &request("2.0.0", "bob"), false);
    assert!(!text.unwrap().contains("3.0.0"));
}

/// An override is written to an annotation of its own.
#[test]
fn a_written_request_has_no_override_in_it() {
    let world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]");
    let with_override = Request {
        override_gates: Some(Override {
            reason: "an outage".to_owned(),
            passes: vec!["freeze/weekend".to_owned()],
        }),
        ..request("2.0.0", "ada")
    };
    let text = request_annotation(&world.pipeline, "prod", &with_override, false).unwrap();
    assert!(
        text.contains("2.0.0") && !text.contains("weekend"),
        "{text}"
    );
}

#[track_caller]
fn check_lint(drawing: &str, expected: &[&str]) {
    let complaints = planner::lint(&draw(drawing).pipeline.spec);
    let complaints = complaints.into_iter().map(|it| match it.is_error {
        true => it.text,
        false => format!("(warning) {}", it.text),
    });
    assert_eq!(complaints.collect::<Vec<_>>(), expected);
}

#[test]
fn what_can_never_hold_is_told_before_it_runs() {
    check_lint("dev[2.0.0 ok] > prod{soak 5m}[1.0.0 ok on c1]", &[]);
    check_lint("", &["the pipeline has no environments"]);
    check_lint(
        "dev{manual}[2.0.0 ok] > prod[1.0.0 ok]",
        &["nothing is ever promoted into dev: it comes first and there is no source"],
    );
    check_lint(
        "dev{manual}[2.0.0 ok] > prod[1.0.0 ok]\nsource HelmChart",
        &[],
    );
    check_lint(
        "dev{soak 5m}[2.0.0 ok] > prod{no strategy}[1.0.0 ok]\nsource HelmChart",
        &[
            "(warning) the soak of dev has no effect: no environment comes before it",
            "the promotion into prod names no strategy: its own `promotion` replaces the pipeline's; repeat `strategy` there",
        ],
    );
    check_lint(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\nwithout appRef",
        &["nothing is promoted without appRef: apps found by their label are only shown"],
    );
    check_lint(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\nsource GitRepository",
        &[
            "a GitRepository proposes nothing for a HelmRelease; one of [HelmChart, OCIRepository, Hook] does",
        ],
    );
}

#[test]
fn an_approval_policy_that_nobody_can_meet_is_told() {
    let policy = |policy: &str, expected: &[&str]| {
        let drawing = format!("dev[2.0.0 ok] > prod{{policy {policy}}}[1.0.0 ok]");
        check_lint(&drawing, expected);
    };
    policy("2", &[]);
    policy("2 group:sre not-requester expires:1h", &[]);
    policy(
        "0",
        &["the approvalPolicy of prod asks for 0 approvals; from 1 to 16 are possible"],
    );
    policy(
        "17",
        &["the approvalPolicy of prod asks for 17 approvals; from 1 to 16 are possible"],
    );
    policy(
        "2 user:ann user:ann",
        &[
            "the approvalPolicy of prod can never be met: it asks for 2 approvals, and from names 1 users and no group",
        ],
    );
    policy("2 user:ann group:sre", &[]);
    policy(
        "1 expires:0s",
        &["the approvalPolicy of prod can never be met: approvals expire at once"],
    );
    policy(
        "1 user:ann not-requester",
        &[
            "(warning) the approvalPolicy of prod cannot be met for what one of its users requested: name one more",
        ],
    );
    check_lint(
        "dev[2.0.0 ok] > prod{manual, policy 1}[1.0.0 ok]",
        &["(warning) manual of prod has no effect beside approvalPolicy"],
    );
}

#[test]
fn a_target_belongs_to_one_environment() {
    let mut world = draw("dev[2.0.0 ok on c1] > prod[1.0.0 ok on c1]");
    let environments = &mut world.pipeline.spec.environments;
    environments[1].targets = environments[0].targets.clone();
    let complaints = planner::lint(&world.pipeline.spec);
    assert_eq!(
        complaints[0].text,
        "dev and prod have the same target c1/dev"
    );
}

#[test]
fn places_have_markers_and_revisions_have_versions() {
    let world = draw("dev[2.0.0 ok] > prod{per target}[1.0.0 ok on c1, 1.0.0 ok]");
    let places = planner::sites(&world.pipeline, "prod");
    let markers = places
        .iter()
        .map(|place| planner::marker("default", "shop", place));
    assert_eq!(
        markers.collect::<Vec<_>>(),
        ["default:shop:prod:c1/prod-1", "default:shop:prod:-/prod-2"]
    );
    let places = planner::sites(&world.pipeline, "dev");
    assert_eq!(
        planner::marker("default", "shop", &places[0]),
        "default:shop:dev"
    );
    assert_eq!(planner::version_for(&world.pipeline, &[], "3.0.0"), "3.0.0");
    let world = draw("dev[- ok] > prod[- ok]\nkustomization");
    let version = planner::version_for(&world.pipeline, &[], "v1.2.0@sha1:abc");
    assert_eq!(version, "v1.2.0");
}

#[test]
fn it_is_known_who_has_to_approve_and_what_to_request() {
    let another = |settings: &str, promotion: &str, user: &str| {
        let world = draw(&format!(
            "dev[2.0.0 ok] > prod{{{settings}}}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval {promotion}"
        ));
        planner::needs_another_person(&world.promotions[0], &world.pipeline, user)
    };
    assert!(another("policy 2", "by ann", "ann"));
    assert!(!another("policy 2", "by ann", "bob"));
    assert!(
        !another("policy 2", "asked r1 asker ann", "ann"),
        "a requester may"
    );
    assert!(another(
        "policy 1 not-requester",
        "asked r1 asker ann",
        "ann"
    ));
    assert!(!another(
        "policy 1 not-requester",
        "asked r1 asker ann",
        "bob"
    ));
    let requestable = |drawing: &str| {
        let world = draw(drawing);
        let hold = world.plan().environments["prod"].hold.as_ref()?.status();
        hold.requestable
    };
    const REJECTED: &str = "dev[2.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0";
    assert_eq!(requestable(REJECTED).as_deref(), Some("2.0.0"));
    assert_eq!(requestable("dev[2.0.0 ok] > prod[3.0.0 ok]"), None, "older");
    assert_eq!(requestable("dev[2.0.0 broken] > prod[1.0.0 ok]"), None);
}

/// Nobody can approve what cannot be read: the state and the forecast name that, not the approval.
#[test]
fn what_cannot_be_approved_does_not_await_approval() {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval unread because NoBaseBranch",
    );
    let text =
        "it cannot be approved yet, because what it changes is not known: there is no branch trunk";
    let status = world.promotions[0].status.get_or_insert_default();
    status.message = Some(text.to_owned());
    let plan = world.plan();
    assert_eq!(plan.environments["prod"].hold, None);
    let model = planner::apply(&plan, &world.model(), now());
    let state = planner::environment_state(&world.pipeline, &model, "prod");
    assert_eq!(state.word(), "held");
    let explained = planner::explain(&world.pipeline, &model, &plan);
    assert!(
        explained.contains("there is no branch trunk"),
        "{explained}"
    );
    let (pipeline, promotions) = (&world.pipeline, &world.promotions);
    let forecast = planner::forecast(pipeline, &model, promotions, now());
    let texts: Vec<_> = forecast.iter().map(|it| it.text()).collect();
    let expected = "prod: 2.0.0 after resolving why its change is not known (there is no branch trunk; \
                    resolved by a baseBranch that the repository has); an approval of 2.0.0";
    assert!(texts.contains(&expected.to_owned()), "{texts:?}");
}

#[test]
fn a_request_that_needs_approvals_says_so_and_a_rollback_is_called_one() {
    let drawing = "dev[2.0.0 ok] > prod{policy 2}[2.0.0 ok]\nran prod 2.0.0 1.0.0";
    let world = draw(&format!("{drawing}\nrequest prod Rollback 1.0.0 r1"));
    let prod = world.plan().environments["prod"].clone();
    let answer = prod.last_request.unwrap().message.unwrap();
    assert_eq!(answer, "waits for 2 approvals of 1.0.0");
    let sentence = prod.hold.unwrap().sentence;
    let expected = "1.0.0 needs 2 approvals to enter prod; ada requested this rollback";
    assert_eq!(sentence, expected);
    let world = draw(&format!(
        "{drawing}\npromotion prod 1.0.0 AwaitingApproval asked r1 back asker ada"
    ));
    let diff = planner::promotion_diff(&world.pipeline, "prod", &world.promotions);
    assert_eq!(
        diff[0].rollback.as_deref(),
        Some("ada requested this rollback")
    );
}

/// What failed, on how many targets, what still runs, and what to do.
#[track_caller]
fn check_failure(drawing: &str, expected: &str) {
    let world = draw(drawing);
    let model = world.model();
    let failure = planner::environment_failure(&world.pipeline, &model, "prod");
    let text = failure.map(|it| {
        let (failed, all) = it.targets;
        let runs = it.still_runs.join(", ");
        let since = it.since.map_or("", |_| " since then");
        let (revision, advice) = (it.revision, it.advice());
        format!("{revision} on {failed} of {all}{since}; runs {runs}: {advice}")
    });
    assert_eq!(text.as_deref().unwrap_or("nothing"), expected);
}

#[test]
fn a_failed_release_says_what_still_runs_and_what_helps() {
    check_failure("dev[2.0.0 ok] > prod[1.0.0 ok]", "nothing");
    check_failure(
        "dev[2.0.0 ok] > prod[1.0.0 broken failed 2.0.0, 1.0.0 ok]\nran prod 1.0.0\nfails prod 2.0.0 1h",
        "2.0.0 on 1 of 2 since then; runs 1.0.0: Roll back to 1.0.0, or push a fix.",
    );
    check_failure(
        "dev[2.0.0 ok] > prod[- broken failed 2.0.0]",
        "2.0.0 on 1 of 1; runs : Push a fix: a newer revision replaces the failed one.",
    );
    check_failure(
        "dev[2.0.0 ok] > prod{no strategy}[1.0.0 broken failed 2.0.0]\nran prod 1.0.0",
        "2.0.0 on 1 of 1; runs 1.0.0: Push a fix: a newer revision replaces the failed one. Or revert the change \
         in git: Sluice does not write here.",
    );
}

/// What does not come does not wait for the gates behind either.
#[test]
fn what_is_older_or_rejected_waits_for_nothing_else() {
    for (drawing, expected) in [
        (
            "dev[1.0.0 ok] > prod{manual}[2.0.0 ok]",
            "nothing newer to bring: prod runs 2.0.0",
        ),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\nrejected prod 2.0.0",
            "waits: 2.0.0 was rolled back",
        ),
    ] {
        let world = draw(drawing);
        let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("also waits"), "{text}");
    }
}
