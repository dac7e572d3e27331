//! The strategy oci: which tags can work, and which digests a promotion may replace.

use api::{Promotion, pipeline::PipelineSpec};
use planner::{lint, replaceable_digests};
use serde_json::{Value, json};

use crate::drawing::draw;

fn findings(promotion: Value) -> Vec<String> {
    let spec: PipelineSpec = serde_json::from_value(json!({
        "appRef": {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app"},
        "environments": [
            {"name": "dev", "targets": [{"namespace": "dev"}]},
            {"name": "prod", "targets": [{"namespace": "prod"}], "promotion": promotion},
        ],
    }))
    .unwrap();
    lint(&spec)
        .into_iter()
        .map(|finding| finding.text)
        .collect()
}

#[test]
fn a_tag_that_cannot_work_is_refused() {
    let oci = |url: &str, tag: &str| json!({"oci": {"url": url, "tag": tag}});
    let url = "oci://registry.example/shop";
    for (strategy, scope, expected) in [
        (oci(url, "prod"), None, None),
        (oci(url, "${environment}"), None, None),
        (oci(url, "${cluster}-${environment}"), Some("Target"), None),
        (
            oci("https://registry.example/shop", "prod"),
            None,
            Some("does not start with oci://"),
        ),
        (oci(url, "a/b"), None, Some("has the tag \"a/b\"")),
        (oci(url, "${revision}"), None, Some("has the tag")),
        (oci(url, ".prod"), None, Some("has the tag")),
        (oci(url, "prod"), Some("Target"), Some("one tag for all")),
        (oci(url, "${namespace}"), None, Some("set scope: Target")),
        (oci(url, "prod-${version}"), None, Some("exact tag")),
    ] {
        let found = findings(json!({"strategy": strategy, "scope": scope}));
        match expected {
            None => assert_eq!(found, Vec::<String>::new()),
            Some(text) => {
                assert!(
                    found.len() == 1 && found[0].contains(text),
                    "{text}: {found:?}"
                );
            }
        }
    }
    let two = json!({"oci": {"url": url, "tag": "prod"}, "notification": {}});
    let found = findings(json!({"strategy": two}));
    assert!(found[0].contains("notification, oci"), "{found:?}");
}

#[test]
fn a_range_with_a_version_in_the_tag_is_held() {
    let held = |follows: &str| {
        let mut world = draw("dev[2.0.0@sha256:b ok] > prod[1.0.0@sha256:a ok]\nkustomization");
        let tag = json!({"oci": {"url": "oci://registry.example/shop", "tag": "prod-${version}"}});
        let settings = json!({"strategy": tag});
        world.pipeline.spec.promotion = serde_json::from_value(settings).unwrap();
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        prod.targets[0].follows = Some(follows.to_owned());
        let hold = world.plan().environments["prod"].hold.clone();
        hold.map(|hold| hold.message()).unwrap_or_default()
    };
    let range = held("oci://registry.example/shop (semver >=1)");
    assert!(range.contains("could never roll back"), "{range}");
    assert_eq!(held("oci://registry.example/shop (tag prod)"), "");
}

fn promotion(name: &str, digest: &str, replaces: &str, status: Value) -> Promotion {
    let strategy = json!({"oci": {"url": "oci://registry.example/shop", "tag": "prod"}});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "pipeline": "app", "environment": "prod", "revision": digest, "version": "1",
            "replaces": replaces, "ordinal": 0, "strategy": strategy, "needsApproval": false,
        },
        "status": status,
    }))
    .unwrap()
}

#[test]
fn only_what_it_replaces_and_what_sluice_put_there_is_overwritten() {
    let time = |minute: u32| format!("2026-01-01T00:{minute:02}:00Z");
    let landed = |name, digest, minute| {
        let times = json!({"startedAt": time(minute), "mergedAt": time(minute)});
        promotion(name, digest, "sha256:0", times)
    };
    let own = promotion("own", "sha256:d", "sha256:a", json!({}));
    let check = |others: &[Promotion], expected: &[&str]| {
        let mut all = others.to_vec();
        all.push(own.clone());
        assert_eq!(replaceable_digests(&own, &all, "default"), expected);
    };
    check(&[], &["sha256:a"]);
    // The last one counts: an older tag was put back by somebody else.
    let history = [landed("one", "sha256:b", 1), landed("two", "sha256:c", 2)];
    check(&history, &["sha256:a", "sha256:c"]);
    // It may have set the tag before it could say so.
    let crashed = promotion(
        "three",
        "sha256:e",
        "sha256:c",
        json!({"startedAt": time(3)}),
    );
    let earlier = promotion(
        "zero",
        "sha256:f",
        "sha256:c",
        json!({"startedAt": time(0)}),
    );
    let mut all = history.to_vec();
    all.extend([crashed, earlier]);
    check(&all, &["sha256:a", "sha256:c", "sha256:e"]);
    // Another environment, or another tag.
    let mut elsewhere = landed("four", "sha256:9", 9);
    elsewhere.spec.environment = "staging".to_owned();
    let mut another = landed("five", "sha256:8", 9);
    another.spec.strategy.oci.as_mut().unwrap().tag = "stable".to_owned();
    check(&[elsewhere, another], &["sha256:a"]);
    // Another pipeline that moves the same tag.
    let mut foreign = landed("six", "sha256:7", 9);
    foreign.spec.pipeline = "other".to_owned();
    check(&[foreign], &["sha256:a"]);
}

#[test]
fn a_version_of_two_artifacts_is_held() {
    let drawing = "dev[1.1.0 ok, 1.1.0 ok] > prod[1.0.0 ok]";
    let mut world = draw(drawing);
    let status = world.pipeline.status.as_mut().unwrap();
    let dev = status.environments.get_mut("dev").unwrap();
    dev.targets[0].digest = Some("sha256:a".to_owned());
    dev.targets[1].digest = Some("sha256:a".to_owned());
    let plan = world.plan();
    let started = plan.steps.iter().find_map(|step| match step {
        planner::Step::StartPromotion(promotion) => Some(promotion.spec.artifact_digest()),
        _ => None,
    });
    assert_eq!(started, Some(Some("sha256:a")));
    let status = world.pipeline.status.as_mut().unwrap();
    let dev = status.environments.get_mut("dev").unwrap();
    dev.targets[1].digest = Some("sha256:b".to_owned());
    let hold = world.plan().environments["prod"].hold.clone().unwrap();
    assert_eq!(hold.reason.word(), "DigestDiffers");
    assert!(
        hold.message().contains("sha256:a and sha256:b"),
        "{}",
        hold.message()
    );
}

/// A rollback to what ran before, by its version: nothing runs it any more.
#[test]
fn the_history_knows_which_artifact_a_version_was() {
    let started = |drawing: &str, version: &str, entry: Value| {
        let mut world = draw(&format!("{drawing}\nrequest prod Rollback {version} r1"));
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        prod.ran.push(serde_json::from_value(entry).unwrap());
        let start = world.plan().steps.into_iter().find_map(|step| match step {
            planner::Step::StartPromotion(promotion) => Some(promotion.spec),
            _ => None,
        });
        let spec = start.unwrap();
        let digest = spec.artifact_digest().map(str::to_owned);
        (spec.revision, spec.version, digest.unwrap_or_default())
    };
    let text = |text: &str| text.to_owned();
    let kustomization = "dev[2.0.0@sha256:b ok] > prod[2.0.0@sha256:b ok]\nkustomization";
    let entry = json!({"revision": "sha256:a", "version": "1.0.0", "digest": "sha256:a"});
    assert_eq!(
        started(kustomization, "1.0.0", entry),
        (text("sha256:a"), text("1.0.0"), text("sha256:a"))
    );
    let chart = "dev[2.0.0 ok] > prod[2.0.0 ok]";
    let entry = json!({"revision": "1.0.0", "version": "1.0.0", "digest": "sha256:a"});
    assert_eq!(
        started(chart, "1.0.0", entry),
        (text("1.0.0"), text("1.0.0"), text("sha256:a"))
    );
}
