//! A revision with a digest is that digest, whatever tag stands before it.

use api::{
    Pipeline, Revision,
    app::AppReading,
    names::{PromotionSite, promotion_name},
    pipeline::{PipelineStatus, Report},
};
use planner::{
    ObservedApp, ObservedEnvironment, ObservedPipeline, ObservedTarget, Step, TargetState, fold,
};
use serde_json::json;

use crate::{
    drawing::{World, draw, now},
    plan::check,
};

#[test]
fn tags_of_one_digest_are_one_revision() {
    check(
        "dev[dev@sha256:b ok] > prod[prod@sha256:b ok]\nkustomization",
        "nothing",
    );
    check(
        "dev[latest@sha256:b ok] > prod[latest@sha256:a ok]\nkustomization",
        "start prod sha256:b instead of sha256:a",
    );
    check(
        "dev[latest@sha256:b ok, 1.2.0@sha256:b ok] > prod[sha256:b ok]\nkustomization",
        "nothing",
    );
    check(
        "dev[1.2.0@sha256:b ok, 1.2.0@sha256:c ok] > prod[sha256:a ok]\nkustomization",
        "prod: SourceTargetsDiffer: dev targets run 1.2.0@sha256:b and 1.2.0@sha256:c; resolved by one revision on all targets of dev",
    );
}

#[test]
fn tags_say_which_is_older() {
    check(
        "dev[1.9.0@sha256:b ok] > prod[1.10.0@sha256:a ok]\nkustomization",
        "prod: OlderThanRunning: prod runs 1.10.0@sha256:a, which is newer than 1.9.0@sha256:b; resolved by a newer revision or a request for 1.9.0@sha256:b",
    );
    check(
        "dev[1.10.0@sha256:b ok] > prod[1.9.0@sha256:a ok, 1.8.0@sha256:c ok]\nkustomization",
        "start prod sha256:b instead of sha256:a",
    );
}

#[test]
fn what_was_rejected_or_left_is_known_by_its_digest() {
    check(
        "dev[latest@sha256:b ok] > prod[latest@sha256:a ok]\nkustomization\nrejected prod sha256:b",
        "prod: Rejected: latest@sha256:b was rolled back, rejected or cancelled in prod, or its pull request was closed; resolved by a newer revision or a request for latest@sha256:b
         prod rejects sha256:b",
    );
    check(
        "dev[latest@sha256:b ok] > prod[latest@sha256:a ok]\nkustomization\nran prod sha256:a sha256:b",
        "prod: AlreadyRan: latest@sha256:b ran in prod before and was replaced; resolved by a newer revision or a request for latest@sha256:b",
    );
}

fn started(world: &World) -> api::Promotion {
    let plan = world.plan();
    let start = plan.steps.into_iter().find_map(|step| match step {
        Step::StartPromotion(promotion) => Some(*promotion),
        _ => None,
    });
    start.unwrap()
}

#[test]
fn a_promotion_is_named_after_the_digest_and_keeps_the_tag() {
    let names = ["dev@sha256:b", "latest@sha256:b"].map(|revision| {
        let drawing = format!("dev[{revision} ok] > prod[prod@sha256:a ok]\nkustomization");
        let promotion = started(&draw(&drawing));
        let tag = revision.split('@').next().unwrap();
        assert_eq!(promotion.spec.version, tag);
        promotion.metadata.name.unwrap()
    });
    let expected = promotion_name("shop", &PromotionSite::environment("prod"), "sha256:b", 0);
    assert_eq!(names, [expected.clone(), expected]);
}

#[test]
fn people_may_ask_by_tag_if_it_is_unique() {
    let drawing = "dev[2.0.0@sha256:c ok] > prod[1.0.0@sha256:a ok]\nkustomization\n\
                   promotion prod 1.2.0@sha256:b Abandoned";
    let ask = |asked: &str| format!("{drawing}\nrequest prod Promote {asked} r1");
    for asked in ["1.2.0", "sha256:b", "1.2.0@sha256:b"] {
        let promotion = started(&draw(&ask(asked)));
        let spec = (promotion.spec.revision, promotion.spec.version);
        assert_eq!(spec, ("sha256:b".to_owned(), "1.2.0".to_owned()), "{asked}");
    }
    let drawing = format!("{}\npromotion prod 1.2.0@sha256:d Abandoned", ask("1.2.0"));
    let plan = draw(&drawing).plan();
    let answer = plan.environments["prod"].last_request.clone().unwrap();
    assert_eq!(
        answer.message.as_deref(),
        Some("refused: 1.2.0 is the tag of several digests; name one of sha256:b and sha256:d")
    );
}

/// What the version before stored: Flux's whole text, everywhere.
#[test]
fn objects_of_the_version_before_are_understood() {
    let target = |revision: &str, namespace: &str| {
        json!({
            "targets": [{
                "revision": revision, "version": "latest", "ready": true, "namespace": namespace,
                "readySince": "2026-01-01T00:00:00Z", "source": "Watch", "clusterAppRef": {},
            }],
            "ran": [revision],
        })
    };
    let mut world = draw("dev[x ok] > prod[y ok]\nkustomization");
    let mut status = json!({"environments": {
        "dev": target("dev@sha256:b", "dev"), "prod": target("prod@sha256:b", "prod"),
    }});
    let read = |status: &serde_json::Value| serde_json::from_value(status.clone()).unwrap();
    world.pipeline.status = Some(read(&status));
    assert!(world.plan().steps.is_empty());
    status["environments"]["prod"] = target("prod@sha256:a", "prod");
    status["environments"]["prod"]["rejected"] = json!(["latest@sha256:b"]);
    world.pipeline.status = Some(read(&status));
    let hold = world.plan().environments["prod"].hold.clone().unwrap();
    assert_eq!(hold.reason.word(), "Rejected");
    status["environments"]["prod"]["rejected"] = json!([]);
    world.pipeline.status = Some(read(&status));
    let promotion = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Promotion",
        "metadata": {"name": "old"},
        "spec": {
            "pipeline": "shop", "environment": "prod", "version": "dev", "ordinal": 0,
            "revision": "dev@sha256:b", "strategy": serde_json::to_value(started(&world).spec.strategy).unwrap(),
            "needsApproval": false,
        },
        "status": {"phase": "WaitingForMerge"},
    });
    world
        .promotions
        .push(serde_json::from_value(promotion).unwrap());
    assert!(world.plan().steps.is_empty(), "it is in progress");
}

/// What one look shows of dev and of prod: texts as they stand behind an image's name.
fn look(dev: &str, prod: &str) -> ObservedPipeline {
    let environment = |name: &str, text: &str| {
        let version = text.split('@').next().map(str::to_owned);
        let app = ObservedApp {
            reading: AppReading {
                revision: Revision::new(text),
                version,
                ready: true,
                ..AppReading::default()
            },
            ..ObservedApp::default()
        };
        let target = ObservedTarget {
            cluster: None,
            namespace: name.to_owned(),
            relies_on_reports: false,
            state: TargetState::Observed(vec![app]),
        };
        ObservedEnvironment {
            name: name.to_owned(),
            targets: vec![target],
        }
    };
    ObservedPipeline {
        environments: vec![environment("dev", dev), environment("prod", prod)],
        ..ObservedPipeline::default()
    }
}

fn revision(status: &PipelineStatus, environment: &str) -> String {
    let target = &status.environments[environment].targets[0];
    target.revision.clone().unwrap()
}

/// One environment pins tag and digest, the next the tag alone.
#[test]
fn a_tag_alone_stands_for_the_digest_it_is_known_by() {
    let mut pipeline: Pipeline = draw("dev[- ok] > prod[- ok]\ntrack acme/shop").pipeline;
    pipeline.status = None;
    let mut prod = Vec::new();
    for (dev, tag) in [
        ("1.1.0@sha256:b", "1.0.0"),
        ("1.1.0@sha256:b", "1.1.0"),
        ("1.2.0@sha256:c", "1.1.0"),
        ("1.2.0@sha256:c", "1.2.0"),
        ("1.2.0@sha256:d", "1.2.0"),
    ] {
        let status = fold(&pipeline, &look(dev, tag), now());
        prod.push(revision(&status, "prod"));
        pipeline.status = Some(status);
    }
    let expected = ["1.0.0", "sha256:b", "sha256:b", "sha256:c", "sha256:d"];
    assert_eq!(prod, expected);
}

#[test]
fn a_failure_of_a_tag_alone_is_one_of_its_digest() {
    let mut pipeline: Pipeline = draw("dev[- ok] > prod[- ok]\ntrack acme/shop").pipeline;
    pipeline.status = None;
    let mut seen = look("1.1.0@sha256:b", "1.1.0");
    let TargetState::Observed(apps) = &mut seen.environments[1].targets[0].state else {
        panic!("an app was seen");
    };
    let reading = &mut apps[0].reading;
    reading.ready = false;
    reading.failed = true;
    reading.attempted.clone_from(&reading.revision);
    let status = fold(&pipeline, &seen, now());
    let target = &status.environments["prod"].targets[0];
    assert_eq!(target.failed.as_deref(), Some("sha256:b"));
}

/// A watch and a report of the same event must agree.
#[test]
fn a_report_says_what_a_watch_would() {
    let mut pipeline: Pipeline = draw("dev[- ok] > prod[- ok]\nkustomization").pipeline;
    let digest = "55609ff9d959589ed917ce32e6bc0f0a36809565f308602c15c3668965979edc";
    for (text, version) in [
        (format!("latest@sha256:{digest}"), "latest".to_owned()),
        (format!("sha256:{digest}"), format!("sha256:{digest}")),
        (format!("latest/{digest}"), "latest".to_owned()),
    ] {
        let mut status = PipelineStatus::default();
        let report = Report {
            revision: text.clone(),
            signed: true,
            ..Report::default()
        };
        status.reports.insert("dev/-/dev".to_owned(), report);
        pipeline.status = Some(status);
        let mut seen = look("x", "x");
        seen.environments.truncate(1);
        seen.environments[0].targets[0].state = TargetState::NotWatched;
        seen.environments[0].targets[0].relies_on_reports = true;
        let status = fold(&pipeline, &seen, now());
        assert_eq!(
            revision(&status, "dev"),
            format!("sha256:{digest}"),
            "{text}"
        );
        let target = &status.environments["dev"].targets[0];
        assert_eq!(target.version, Some(version), "{text}");
    }
}
