//! What a promotion that starts is to write to git, which artifact that is, and since when it was verified.

use api::{
    Time,
    names::{ENVIRONMENT_LABEL, PIPELINE_LABEL, SITE_LABEL, label_value},
    pipeline::Report,
    promotion::PromotionSpec,
};
use planner::Step;

use crate::drawing::{World, ago, draw};

/// The only promotion that starts.
fn started(world: &World) -> PromotionSpec {
    let plan = world.plan();
    let mut started = plan.steps.iter().filter_map(|step| match step {
        Step::StartPromotion(promotion) => Some(promotion.spec.clone()),
        _ => None,
    });
    let spec = started.next().unwrap();
    assert!(started.next().is_none(), "{:?}", plan.steps);
    spec
}

fn version(drawing: &str) -> String {
    started(&draw(drawing)).version
}

fn with_digests(drawing: &str, dev: &[Option<&str>], prod: &[Option<&str>]) -> World {
    let mut world = draw(drawing);
    let status = world.pipeline.status.as_mut().unwrap();
    for (name, digests) in [("dev", dev), ("prod", prod)] {
        let environment = status.environments.get_mut(name).unwrap();
        for (target, digest) in environment.targets.iter_mut().zip(digests) {
            target.digest = digest.map(str::to_owned);
        }
    }
    world
}

#[test]
fn the_tag_of_a_digest_is_written() {
    let old = "[1.0.0@sha256:a ok]";
    for (settings, sources) in [("", ""), ("{any}", "")] {
        let drawing = format!("dev[2.0.0@sha256:b ok] > prod{settings}{old}{sources}");
        assert_eq!(version(&drawing), "2.0.0", "{drawing}");
    }
    let several = format!(
        "eu[2.0.0@sha256:b ok] > us{{after}}[2.0.0@sha256:b ok] > prod{{after eu us}}{old}"
    );
    assert_eq!(version(&several), "2.0.0");
}

#[test]
fn the_tag_that_a_report_names_is_written() {
    for (reported, expected) in [
        ("2.0.0@sha256:b", "2.0.0"),
        // It was about something else.
        ("3.0.0@sha256:c", "sha256:b"),
    ] {
        let mut world = draw(
            "dev[- broken told] > prod{any}[1.0.0@sha256:a ok]\nkustomization\nreported dev sha256:b",
        );
        let report = Report {
            revision: reported.to_owned(),
            ..Report::default()
        };
        let status = world.pipeline.status.as_mut().unwrap();
        status.reports.insert("dev".to_owned(), report);
        assert_eq!(started(&world).version, expected, "{reported}");
    }
}

#[test]
fn a_request_writes_the_tag_that_it_names_or_that_is_known() {
    let asked = |text: &str| {
        let mut world = draw(&format!(
            "dev[1.0.0@sha256:a ok] > prod[1.0.0@sha256:a ok]\nran prod sha256:c sha256:b\n\
             request prod Promote {text} r1 unseen"
        ));
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        for (ran, version) in prod.ran.iter_mut().zip(["3.0.0", "1.5.0"]) {
            ran.version = Some(version.to_owned());
        }
        let spec = started(&world);
        (spec.revision, spec.version)
    };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(asked("2.0.0@sha256:d"), pair("sha256:d", "2.0.0"));
    assert_eq!(asked("sha256:b"), pair("sha256:b", "1.5.0"));
    assert_eq!(asked("sha256:e"), pair("sha256:e", "sha256:e"));
    // A chart is no commit.
    let commit = "main@sha1:0123456789012345678901234567890123456789";
    assert_eq!(asked(commit), pair(commit, commit));
}

/// A text that is a revision itself is not taken for the tag of a digest.
#[test]
fn what_runs_under_its_own_name_is_meant() {
    let asked = |facts: &str| {
        let drawing = format!("{facts}\nrequest prod Promote 2.0.0 r1");
        started(&draw(&drawing)).revision
    };
    let runs = "dev[2.0.0@sha256:b ok] > test{after}[2.0.0 ok] > prod{after test}[1.0.0 ok]";
    assert_eq!(asked(runs), "2.0.0");
    let ran = "dev[2.0.0@sha256:b ok] > prod[1.0.0 ok]\nran prod 1.0.0 2.0.0";
    assert_eq!(asked(ran), "2.0.0");
    let tag = "dev[2.0.0@sha256:b ok] > prod[1.0.0 ok]";
    assert_eq!(asked(tag), "sha256:b");
}

#[test]
fn the_digest_that_is_replaced_is_known_where_all_targets_agree() {
    let drawing = "dev[2.0.0 ok] > prod[1.0.0 ok, 1.0.0 ok]";
    let (a, b) = (Some("sha256:a"), Some("sha256:b"));
    for (prod, expected) in [
        ([a, a], a),
        ([a, Some("sha256:c")], None),
        ([a, None], None),
        ([None, a], None),
        // It is the same artifact.
        ([b, b], None),
    ] {
        let spec = started(&with_digests(drawing, &[b], &prod));
        assert_eq!(spec.digest.as_deref(), b);
        assert_eq!(spec.replaces_digest.as_deref(), expected, "{prod:?}");
    }
}

#[test]
fn an_earlier_promotion_of_the_version_knows_its_artifact() {
    let mut world = draw(
        "dev[1.0.0 ok] > prod[1.0.0 ok]
         promotion prod 2.0.0 Succeeded
         promotion prod 3.0.0 Succeeded
         request prod Promote 2.0.0 r1 unseen",
    );
    for (promotion, digest) in world.promotions.iter_mut().zip(["sha256:b", "sha256:c"]) {
        promotion.spec.digest = Some(digest.to_owned());
    }
    assert_eq!(started(&world).digest.as_deref(), Some("sha256:b"));
}

/// The version is another artifact here than where it was verified.
#[test]
fn a_target_of_the_environment_tells_that_a_version_was_published_twice() {
    let hold = |prod: [Option<&str>; 2]| {
        let drawing = "dev[2.0.0 ok] > prod[2.0.0 ok, 1.0.0 ok]";
        let world = with_digests(drawing, &[Some("sha256:b")], &prod);
        let hold = world.plan().environments["prod"].hold.clone();
        hold.map(|it| it.reason.word())
    };
    assert_eq!(hold([Some("sha256:x"), None]), Some("DigestDiffers"));
    assert_eq!(hold([None, Some("sha256:x")]), None);
}

/// What failed in a source since then stops the promotion.
#[test]
fn with_several_sources_it_is_verified_since_the_last_of_them() {
    let world = draw("eu[2.0.0 ok 40m] > us{after}[2.0.0 ok 20m] > prod{after eu us}[1.0.0 ok]");
    let verified_at: Option<Time> = started(&world).verified_at;
    assert_eq!(verified_at, Some(ago("20m")));
}

#[test]
fn a_promotion_is_found_by_its_labels() {
    let plan = draw("dev[2.0.0 ok] > prod{per target}[1.0.0 ok on c1]").plan();
    let Some(Step::StartPromotion(promotion)) = plan.steps.first() else {
        panic!("it starts: {:?}", plan.steps);
    };
    let labels = promotion.metadata.labels.clone().unwrap();
    let label = |name: &str| labels[name].as_str();
    assert_eq!(label(PIPELINE_LABEL), "shop");
    assert_eq!(label(ENVIRONMENT_LABEL), "prod");
    assert_eq!(label(SITE_LABEL), label_value("prod/c1/prod"));
}
