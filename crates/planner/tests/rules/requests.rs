//! What people ask for.

use api::names::{PromotionSite, promotion_name};

use crate::{drawing::draw, plan::check, show::show};

#[test]
fn a_request_overrides_readiness_soak_and_the_way_forwards() {
    for drawing in [
        "dev[2.0.0 broken] > prod[1.0.0 ok]",
        "dev[2.0.0 ok 1m] > prod{soak 30m}[1.0.0 ok]",
        "dev[3.0.0 ok, 2.0.0 ok] > prod[1.0.0 ok]",
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nran prod 1.0.0 2.0.0",
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0",
        "dev[1.0.0 ok] > prod[1.0.0 ok]\npromotion dev 2.0.0 Failed",
    ] {
        check(
            &format!("{drawing}\nrequest prod Promote 2.0.0 r1"),
            "start prod 2.0.0 instead of 1.0.0\nprod request r1: bringing 2.0.0",
        );
    }
}

#[test]
fn a_request_is_taken_up_once() {
    check(
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nrequest prod Promote 2.0.0 r1\nhandled prod r1",
        "prod request r1: -",
    );
    // The promotion was created and the status was not written.
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\nrequest prod Promote 2.0.0 r1\npromotion prod 2.0.0 Running asked r1",
        "prod request r1: bringing 2.0.0",
    );
    check(
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nrequest prod Promote 2.0.0 r1\npromotion prod 2.0.0 Abandoned asked r1",
        "prod rejects 2.0.0\nprod request r1: bringing 2.0.0",
    );
}

#[test]
fn a_request_never_overrides_manual_or_suspend() {
    check(
        "dev[1.0.0 ok] > prod{manual}[1.0.0 ok]\nrequest prod Promote 2.0.0 r1 unseen",
        "start prod 2.0.0 instead of 1.0.0, needs approval
         prod: AwaitingApproval: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0
         prod request r1: waits for an approval of 2.0.0",
    );
    check(
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nsuspend\nrequest prod Promote 2.0.0 r1 unseen",
        "prod: Suspended: the pipeline is suspended, 2.0.0 waits; resolved by resuming the pipeline",
    );
}

/// The last good revision still counts as running, but git asks for the one that failed.
#[test]
fn a_failed_release_is_rolled_back_to_the_last_good_one() {
    check(
        "dev[3.0.0 ok] > prod[2.0.0 broken failed 3.0.0]\nran prod 2.0.0 1.0.0
         request prod Rollback 2.0.0 r1",
        "start prod 2.0.0 instead of 3.0.0
         prod rejects 3.0.0
         prod request r1: bringing 2.0.0",
    );
    let world = draw("dev[3.0.0 ok] > prod[2.0.0 broken failed 3.0.0]\nran prod 2.0.0 1.0.0");
    let status = world.pipeline.status.unwrap();
    let previous = planner::previous_revision(&status, "prod");
    assert_eq!(previous, Some("2.0.0"));
}

/// The process ended between taking the old promotion back and creating its successor.
#[test]
fn a_request_whose_successor_was_never_created_starts_again() {
    let drawing = "dev[2.0.0 ok] > prod[1.0.0 ok]\nhandled prod r1
                   promotion prod 1.5.0 WaitingForMerge superseded asked r1";
    let mut world = draw(drawing);
    let created = Some(api::Time(crate::drawing::now()));
    world.promotions[0].metadata.creation_timestamp = created;
    let shop = |ordinal| {
        promotion_name(
            "shop",
            &PromotionSite::environment("prod"),
            "1.5.0",
            ordinal,
        )
    };
    let successor = planner::superseded_by(&shop(1));
    let withdrawn = world.promotions[0].spec.withdrawn.as_mut().unwrap();
    withdrawn.reason = successor;
    let shown = show(&world, &world.plan());
    assert!(shown.starts_with("start prod 1.5.0 #1"), "{shown}");
}

#[test]
fn a_rollback_rejects_what_it_leaves() {
    check(
        "dev[2.0.0 ok] > prod[2.0.0 ok]\nran prod 2.0.0 1.0.0\nrequest prod Rollback 1.0.0 r1",
        "start prod 1.0.0 instead of 2.0.0
         prod rejects 2.0.0
         prod request r1: bringing 1.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\nran prod 1.0.0 2.0.0\nrejected prod 2.0.0\nhandled prod r1\npromotion prod 1.0.0 Succeeded merged 1m asked r1",
        "prod: Rejected: 2.0.0 was rolled back, rejected or cancelled in prod, or its pull request was closed; resolved by a newer revision or a request for 2.0.0
         prod rejects 2.0.0
         prod request r1: -",
    );
    check(
        "dev[2.0.0 ok] > prod[2.0.0 ok]\nrequest prod Promote 1.0.0 r1 unseen",
        "start prod 1.0.0 instead of 2.0.0\nprod request r1: bringing 1.0.0",
    );
}

/// The status may be lost with a hub that is restored from a backup.
#[test]
fn what_a_rollback_withdrew_stays_rejected_without_the_status_that_said_so() {
    let mut world = crate::drawing::draw(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Withdrawn withdrawn",
    );
    let withdrawn = world.promotions[0].spec.withdrawn.as_mut().unwrap();
    withdrawn.reason = "RolledBack".to_owned();
    world.promotions[0].status = None;
    let status = world.pipeline.status.clone().unwrap();
    let (promotions, now) = (&world.promotions, crate::drawing::now());
    let plan = planner::plan(&world.pipeline, &status, promotions, now);
    assert_eq!(plan.environments["prod"].rejected, ["2.0.0"]);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
}

#[test]
fn a_rollback_to_what_runs_stops_what_is_on_its_way() {
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge\nrequest prod Rollback 1.0.0 r1",
        "withdraw prod 2.0.0: RolledBack
         prod rejects 2.0.0
         prod request r1: 1.0.0 runs already",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying merged 1m\nrequest prod Rollback 1.0.0 r1",
        "supersede prod 2.0.0
         start prod 1.0.0 instead of 2.0.0
         prod rejects 2.0.0
         prod request r1: bringing 1.0.0",
    );
}

#[test]
fn what_a_person_asked_for_is_not_overtaken() {
    for phase in ["WaitingForMerge", "Deploying merged 1m"] {
        check(
            &format!("dev[3.0.0 ok] > prod[2.0.0 ok]\nhandled prod r1\npromotion prod 1.0.0 {phase} asked r1"),
            "prod: RequestUnderWay: 1.0.0, which a person requested, is in progress; resolved by the end of promotion shop-prod-abc9d2033870
             prod request r1: -",
        );
    }
    check(
        "dev[3.0.0 ok] > prod[2.0.0 ok]\nhandled prod r1\npromotion prod 1.0.0 Succeeded merged 1m asked r1",
        "start prod 3.0.0 instead of 2.0.0\nprod request r1: -",
    );
    check(
        "dev[3.0.0 ok] > prod[2.0.0 ok]\npromotion prod 1.0.0 WaitingForMerge asked r1\nrequest prod Promote 3.0.0 r2",
        "supersede prod 1.0.0
         start prod 3.0.0 instead of 2.0.0
         prod request r2: bringing 3.0.0",
    );
}

/// What the promotion of a drawing waits for while a request was not taken up.
#[test]
fn a_promotion_waits_for_a_request_that_goes_first() {
    let cancel = "a person asked to cancel what is in progress";
    let other = "a person requested 3.0.0, which goes first";
    for (request, expected) in [
        ("Cancel - r2", Some(cancel)),
        ("Cancel 2.0.0 r2", Some(cancel)),
        ("Cancel 3.0.0 r2", None),
        ("Promote 2.0.0 r2", None),
        ("Promote 3.0.0 r2", Some(other)),
        ("Rollback 3.0.0 r2", Some(other)),
        ("Retry 3.0.0 r2", None),
        ("Promote 3.0.0 r1", None),
    ] {
        let world = draw(&format!(
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running asked r1\nrequest prod {request}"
        ));
        let status = crate::attempt::next_of(&world, "missing").status;
        let is_held = status.reason.as_deref() == Some("RequestUnderWay");
        let message = status.message.unwrap_or_default();
        let found = message.split("; resolved by").next().filter(|_| is_held);
        assert_eq!(found, expected, "{request}");
    }
}

#[test]
fn a_request_that_cannot_be_met_is_refused() {
    check(
        "dev[1.0.0 ok] > prod{manual}[1.0.0 ok]\nwithout promotion\nrequest dev Promote 2.0.0 r1",
        "dev request r1: refused: nothing is promoted into this environment",
    );
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]\nrequest prod Promote x r1");
    let model = world.pipeline.status.as_mut().unwrap();
    model.requests.get_mut("prod").unwrap().revision = "\u{7}".to_owned();
    let plan = world.plan();
    assert_eq!(
        show(&world, &plan),
        "prod request r1: refused: it names no revision"
    );
}

/// A typing mistake must not become a pull request.
#[test]
fn a_revision_that_was_never_seen_is_refused() {
    let refused = |revision: &str| {
        format!(
            "prod request r1: refused: no target, source or report of this pipeline has {revision}, \
             and it never ran; check the revision, or ask for it as unseen (`--unseen`, `unseen: true`)"
        )
    };
    let drawing = "dev[1.0.0 ok] > prod[1.0.0 ok]";
    for kind in ["Promote", "Rollback"] {
        for revision in ["9.9.9", "not-a-version"] {
            check(
                &format!("{drawing}\nrequest prod {kind} {revision} r1"),
                &refused(revision),
            );
        }
    }
    check(
        &format!("{drawing}\nrequest prod Promote 9.9.9 r1 unseen"),
        "start prod 9.9.9 instead of 1.0.0\nprod request r1: bringing 9.9.9",
    );
    for known in [
        "dev[1.0.0 broken failed 2.0.0] > prod[1.0.0 ok]",
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nran dev 1.0.0 2.0.0",
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nrejected prod 2.0.0",
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nreported dev 2.0.0",
        "dev[1.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Withdrawn",
    ] {
        let world = draw(&format!("{known}\nrequest prod Promote 2.0.0 r1"));
        let shown = show(&world, &world.plan());
        assert!(
            shown.contains("request r1: bringing 2.0.0"),
            "{known}: {shown}"
        );
    }
    check(
        &format!(
            "{drawing}\npromotion prod 9.9.9 Withdrawn asked r0\nrequest prod Promote 9.9.9 r1"
        ),
        &refused("9.9.9"),
    );
    let world = draw("dev[1.0.0 ok]\nsource Hook 2.0.0\nrequest dev Promote 2.0.0 r1");
    let shown = show(&world, &world.plan());
    assert!(shown.contains("request r1: bringing 2.0.0"), "{shown}");
    // What a report named counts as it would be compared.
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]\nrequest prod Promote 2.0.0 r1");
    let model = world.pipeline.status.as_mut().unwrap();
    let report = api::pipeline::Report {
        revision: "2.0.0+0123456789ab".to_owned(),
        ..Default::default()
    };
    model.reports.insert("dev/-/dev".to_owned(), report);
    let shown = show(&world, &world.plan());
    assert!(shown.contains("request r1: bringing 2.0.0"), "{shown}");
}

#[test]
fn a_request_for_what_runs_is_done() {
    check(
        "dev[1.0.0 ok] > prod[1.0.0 ok]\nrejected prod 1.0.0\nrequest prod Promote 1.0.0 r1",
        "prod request r1: 1.0.0 runs already",
    );
}

#[test]
fn per_target_a_request_stays_until_every_target_has_taken_it_up() {
    check(
        "dev[1.0.0 ok] > prod{per target}[1.0.0 ok on c1, 1.0.0 unreachable on c2]\nrequest prod Promote 2.0.0 r1 unseen",
        "start prod/c1/prod-1 2.0.0 instead of 1.0.0
         prod: TargetUnreachable: prod target c2/prod-2: no answer; resolved by making the target readable again",
    );
    check(
        "dev[1.0.0 ok] > prod{per target}[1.0.0 ok on c1, 1.0.0 ok on c2]
         request prod Promote 2.0.0 r1
         promotion prod 2.0.0 Succeeded merged 1m asked r1 at c1 prod-1",
        "start prod/c2/prod-2 2.0.0 instead of 1.0.0
         prod request r1: bringing 2.0.0",
    );
}

#[track_caller]
fn check_annotation(annotation: &str, expected: &str) {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]\nran dev 1.0.0 2.0.0");
    let annotations = [(
        api::names::REQUEST_ANNOTATION.to_owned(),
        annotation.to_owned(),
    )];
    world.pipeline.metadata.annotations = Some(annotations.into());
    let plan = world.plan();
    assert_eq!(show(&world, &plan), expected);
}

#[test]
fn a_request_can_be_written_with_kubectl() {
    let expected = "start prod 2.0.0 instead of 1.0.0\nprod request r1: bringing 2.0.0";
    check_annotation(
        r#"{"prod": {"id": "r1", "revision": "2.0.0", "kind": "Promote"}}"#,
        expected,
    );
    check_annotation(
        r#"{"environment": "prod", "id": "r1", "revision": "2.0.0"}"#,
        expected,
    );
    check_annotation(
        r#"{"environment": "prod", "revision": "2.0.0"}"#,
        "start prod 2.0.0 instead of 1.0.0\nprod request 6d14f0d73151: bringing 2.0.0",
    );
    check_annotation(
        "soon",
        "warning: the annotation pipelines.weave.works/request: expected value at line 1 column 1",
    );
    check_annotation(
        r#"{"test": {"revision": "2.0.0"}}"#,
        "warning: the annotation pipelines.weave.works/request is no request for an environment of this pipeline",
    );
}

/// Whatever clock it was written by, and however it came.
#[test]
fn a_request_is_not_hidden_by_one_that_was_taken_up() {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]\nrequest prod Promote 2.0.0 r1 unseen");
    crate::show::settle(&mut world);
    let mut annotate = |id: &str, at: &str| {
        let text = format!(
            r#"{{"environment": "prod", "id": "{id}", "revision": "3.0.0", "unseen": true {at}}}"#
        );
        let annotations = [(api::names::REQUEST_ANNOTATION.to_owned(), text)];
        world.pipeline.metadata.annotations = Some(annotations.into());
        let shown = show(&world, &world.plan());
        crate::show::settle(&mut world);
        shown
    };
    assert!(annotate("r2", "").contains("start prod 3.0.0"));
    // Neither it nor the first one comes back.
    assert!(!annotate("r2", "").contains("start"));
    assert!(annotate("r3", r#", "at": "2050-01-01T00:00:00Z""#).contains("prod request r3"));
    let request = api::pipeline::Request {
        id: "r4".to_owned(),
        revision: "4.0.0".to_owned(),
        unseen: true,
        ..Default::default()
    };
    let model = world.pipeline.status.as_mut().unwrap();
    model.requests.insert("prod".to_owned(), request);
    let shown = show(&world, &world.plan());
    assert!(shown.contains("start prod 4.0.0"), "{shown}");
}

#[test]
fn the_later_of_two_requests_counts() {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]\nrequest prod Promote 2.0.0 r1 unseen");
    let mut annotate = |at: &str| {
        let text = format!(
            r#"{{"environment": "prod", "id": "r2", "revision": "3.0.0", "unseen": true, "at": "{at}"}}"#
        );
        let annotations = [(api::names::REQUEST_ANNOTATION.to_owned(), text)];
        world.pipeline.metadata.annotations = Some(annotations.into());
        show(&world, &world.plan())
    };
    assert!(annotate("2020-01-01T00:00:00Z").starts_with("start prod 2.0.0"));
    assert!(annotate("2050-01-01T00:00:00Z").starts_with("start prod 3.0.0"));
}

/// Cancel is offered where the request would be accepted, and nowhere else.
#[test]
fn only_what_can_still_be_taken_back_is_offered_for_cancelling() {
    let check = |drawing: &str, expected: Option<&str>| {
        let world = draw(&format!("dev[2.0.0 ok] > prod[1.0.0 ok]\n{drawing}"));
        let (pipeline, model) = (&world.pipeline, world.model());
        let offered = planner::cancellable(pipeline, &model, &world.promotions, "prod");
        assert_eq!(offered.as_deref(), expected, "{drawing}");
    };
    check("suspend", None);
    check("promotion prod 2.0.0 WaitingForMerge", Some("2.0.0"));
    check("promotion prod 2.0.0 Deploying merged 1m", None);
    check("promotion prod 2.0.0 Succeeded", None);
    check("promotion dev 2.0.0 WaitingForMerge", None);
    check("request prod Promote 1.5.0 r1", Some("1.5.0"));
    check("request prod Rollback 1.0.0 r1\nhandled prod r1", None);
    check("request prod Cancel - r1", None);
}

#[test]
fn what_is_not_merged_can_be_rejected() {
    let world = draw(
        "dev[2.0.0 ok] > prod[1.0.0 ok]
         promotion prod 1.1.0 Succeeded merged 1h
         promotion prod 1.2.0 Deploying merged 5m
         promotion prod 1.3.0 WaitingForMerge merged 1m
         promotion prod 1.4.0 AwaitingApproval rejected-by ann
         promotion prod 1.5.0 Running withdrawn
         promotion dev 1.6.0 Running
         promotion prod 1.7.0 AwaitingApproval
         promotion prod 2.0.0 WaitingForMerge",
    );
    let rejectable = |revision| {
        let found = planner::rejectable(&world.promotions, "shop", "prod", revision);
        let found = found.iter().map(|it| it.spec.revision.as_str());
        found.collect::<Vec<_>>()
    };
    assert_eq!(rejectable(None), ["1.7.0", "2.0.0"]);
    assert_eq!(rejectable(Some("2.0.0")), ["2.0.0"]);
    assert_eq!(rejectable(Some("1.2.0")), Vec::<&str>::new());
}

/// What was tried without success and never ran comes last, then the older ones.
#[test]
fn choices_are_sorted_by_cautions_and_versions() {
    let world = draw(
        "dev[3.0.0 ok] > prod[1.0.0 ok]\nran prod 1.0.0 0.9.0\nrejected prod 2.0.0\nfails prod 2.1.0 1h\nfails prod 0.9.0 1h",
    );
    let mut choices = ["1.5.0", "2.0.0", "0.9.0", "3.0.0", "2.1.0"].map(str::to_owned);
    planner::sort_choices(&mut choices, &world.model(), "prod");
    assert_eq!(choices, ["3.0.0", "1.5.0", "0.9.0", "2.1.0", "2.0.0"]);
    let cautions = |revision| planner::caution(&world.model(), "prod", revision);
    assert_eq!(cautions("2.1.0"), Some("failed to deploy here"));
    assert_eq!(cautions("0.9.0"), None, "it ran later");
}
