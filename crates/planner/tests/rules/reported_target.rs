//! Which target an event is about, and which events are stored.

use api::pipeline::{Report, Source, SourceKind};
use planner::{
    RELEASE_REPORT,
    hook::{SignatureTrust, evaluate_event, evaluate_release},
};
use serde_json::{Value, json};

use crate::{
    drawing::{World, draw, now},
    hook::{event, heard, said},
    reports::report,
};

/// Under which key an event from a namespace of dev is stored, with the name of its cluster.
fn key(world: &World, namespace: &str, cluster: Option<&str>) -> String {
    let metadata = match cluster {
        Some(cluster) => json!({"revision": "2.0.0", "cluster": cluster}),
        None => json!({"revision": "2.0.0"}),
    };
    let event = event(namespace, json!({"metadata": metadata}));
    let trust = SignatureTrust::Signed;
    let heard = evaluate_event(&world.pipeline, "dev", &event, trust, now());
    heard.report.unwrap().0
}

#[test]
fn the_only_target_of_a_namespace_is_meant() {
    let world = draw("dev[1.0.0 ok on east, 1.0.0 ok] > prod[1.0.0 ok]");
    assert_eq!(key(&world, "dev-1", None), "dev/east/dev-1");
    assert_eq!(key(&world, "dev-2", None), "dev/-/dev-2");
    // The hub has no name of its own.
    assert_eq!(key(&world, "dev-2", Some("anything")), "dev/-/dev-2");
    assert_eq!(key(&world, "dev-2", Some("")), "dev/-/dev-2");
    assert_eq!(key(&world, "dev-1", Some("anything")), "dev");
}

#[test]
fn a_target_that_a_selector_matches_is_known_by_the_status() {
    let world = draw("dev[1.0.0 ok on east selected, 1.0.0 ok on west selected] > prod[1.0.0 ok]");
    assert_eq!(key(&world, "dev-1", None), "dev/east/dev-1");
    assert_eq!(key(&world, "dev-2", None), "dev/west/dev-2");
    assert_eq!(key(&world, "dev-1", Some("west")), "dev");
}

#[test]
fn a_cluster_of_another_namespace_has_three_names() {
    let mut world = draw("dev[1.0.0 ok on east, 1.0.0 ok on west] > prod[1.0.0 ok]");
    for target in &mut world.pipeline.spec.environments[0].targets {
        target.namespace = "dev".to_owned();
        target.cluster_ref.as_mut().unwrap().namespace = Some("fleet".to_owned());
    }
    world.pipeline.status = None;
    for name in ["fleet.east", "fleet/east", "east"] {
        assert_eq!(
            key(&world, "dev", Some(name)),
            "dev/fleet.east/dev",
            "{name}"
        );
    }
    assert_eq!(key(&world, "dev", Some("other/east")), "dev");
}

#[test]
fn another_object_may_report_from_another_environment() {
    let mut world = draw("dev[1.0.0 ok] > devil[1.0.0 ok] > prod[1.0.0 ok]");
    let known = Report {
        uid: Some("another".to_owned()),
        ..report("1.0.0", now())
    };
    let reports = &mut world.pipeline.status.as_mut().unwrap().reports;
    reports.insert("dev/-/dev".to_owned(), known);
    let expected = "devil/-/devil=2.0.0; 2.0.0 into prod";
    assert_eq!(heard(&world, "devil", &event("devil", json!({}))), expected);
}

#[test]
fn the_last_environment_says_first_that_nothing_comes_after_it() {
    let world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    assert_eq!(
        heard(&world, "prod", &event("dev", json!({}))),
        "nothing; refused: cannot promote beyond last environment prod"
    );
}

#[test]
fn what_comes_after_the_environment_is_next() {
    let world = draw(
        "dev[1.0.0 ok] > qa{after lab}[1.0.0 ok] > prod{after dev}[1.0.0 ok] > lab{after}[1.0.0 ok]",
    );
    assert_eq!(
        heard(&world, "dev", &event("dev", json!({}))),
        "dev/-/dev=2.0.0; 2.0.0 into prod"
    );
}

#[test]
fn a_revision_that_cannot_be_shown_is_refused() {
    let world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    for revision in ["2.0.0\u{1b}[31m".to_owned(), "2".repeat(257)] {
        let metadata = json!({"metadata": {"revision": revision}});
        assert_eq!(
            heard(&world, "dev", &event("dev", metadata)),
            "nothing; refused: the revision has more than 256 characters or unprintable ones"
        );
    }
}

#[test]
fn a_kind_without_a_group_is_no_other_version_of_itself() {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    world.pipeline.spec.app_ref.as_mut().unwrap().api_version = "v1".to_owned();
    let said = |version: &str| {
        let mut object: Value = json!({"kind": "HelmRelease", "name": "shop", "namespace": "dev"});
        object["apiVersion"] = version.into();
        let event = event("dev", json!({"involvedObject": object}));
        heard(&world, "dev", &event)
    };
    let refused = "nothing; refused: involved object does not match Pipeline definition";
    assert_eq!(said("v1"), "dev/-/dev=2.0.0; 2.0.0 into prod");
    assert_eq!(said("v2"), refused);
    assert_eq!(said("apps/v1"), refused);
}

#[test]
fn a_proposed_revision_is_stored_once_and_an_older_one_never() {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    world.pipeline.spec.source = Some(Source {
        kind: SourceKind::Hook,
        name: None,
    });
    let heard = evaluate_release(&world.pipeline, "2.0.0", now());
    let (key, stored) = heard.report.unwrap();
    let expected = Report {
        severity: None,
        reason: None,
        ..report("2.0.0", now())
    };
    assert_eq!((key.as_str(), &stored), (RELEASE_REPORT, &expected));
    let reports = &mut world.pipeline.status.as_mut().unwrap().reports;
    reports.insert(key, stored);
    let second = std::time::Duration::from_secs(1);
    for (revision, at, answer, is_stored) in [
        ("2.0.0", now(), "2.0.0 into dev", false),
        ("1.9.0", now() - second, "noted", false),
        ("2.1.0", now() + second, "2.1.0 into dev", true),
    ] {
        let heard = evaluate_release(&world.pipeline, revision, at);
        assert_eq!(said(&heard.answer), answer);
        assert_eq!(heard.report.is_some(), is_stored, "{revision}");
    }
}
