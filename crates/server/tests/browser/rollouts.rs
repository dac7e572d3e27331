//! The map of a rollout: how it looks with few and with many targets, and what people do with it.

use api::Promotion;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use testbed::browser::Chromium;

use crate::{
    gallery::check,
    loops::Strategy,
    world::{OWNER, World, pipeline, report},
};

const AT: &str = "2026-11-01T10:00:00Z";

/// The state of the target of a number: those in the first waves are ready, then come all kinds of trouble.
fn state(number: usize, count: usize) -> &'static str {
    let started = count * 6 / 10;
    match number {
        number if number >= started => "waiting",
        number if number + 8 >= started => "in-flight",
        number if number % 41 == 2 => "failed",
        number if number % 53 == 5 => "unreachable",
        number if number % 97 == 7 => "skipped",
        _ => "ready",
    }
}

fn target(number: usize, count: usize) -> Value {
    let is_new = state(number, count) == "ready";
    let revision = if is_new { "6.2.0" } else { "6.1.0" };
    let mut target = json!({
        "clusterAppRef": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "fleet",
            "clusterRef": {"kind": "GitopsCluster", "name": format!("edge-{number}")},
        },
        "namespace": "shop", "ready": true, "revision": revision, "version": revision,
        "readySince": AT, "source": "Watch",
    });
    match state(number, count) {
        "failed" => {
            target["ready"] = json!(false);
            target["failed"] = json!("6.2.0");
            target["error"] = json!("install retries exhausted");
        }
        "unreachable" => {
            target["ready"] = json!(false);
            target["problem"] = json!("Unreachable");
            target["error"] = json!("connection refused");
        }
        "in-flight" => target["ready"] = json!(false),
        _ => {}
    }
    target
}

fn rollout() -> Value {
    json!({
        "waves": [
            {"selector": {"matchLabels": {"ring": "canary"}}, "soak": "30m"},
            {"percent": 20, "maxConcurrent": 10},
        ],
        "maxFailures": "5%",
    })
}

/// A wave of a twentieth of the targets, one of a fifth, and the rest.
fn wave(number: usize, count: usize) -> usize {
    match number {
        number if number < (count / 20).max(1) => 0,
        number if number < (count / 4).max(2) => 1,
        _ => 2,
    }
}

/// A pipeline whose prod has this many targets, of which some have 6.2.0.
pub(crate) fn create_fleet(world: &World, name: &str, count: usize) {
    let mut object = pipeline(name);
    object["spec"]["promotion"]["rollout"] = rollout();
    let targets: Vec<_> = (0..count).map(|number| target(number, count)).collect();
    let summary = |wave_number: usize| {
        let states = (0..count).filter(|number| wave(*number, count) == wave_number);
        let states: Vec<_> = states.map(|number| state(number, count)).collect();
        let number_of = |wanted: &str| states.iter().filter(|it| **it == wanted).count();
        json!({
            "targets": states.len(), "ready": number_of("ready"), "failed": number_of("failed"),
            "inFlight": number_of("in-flight"), "unreachable": number_of("unreachable"),
            "skipped": number_of("skipped"), "doneAt": (wave_number < 2).then_some(AT),
        })
    };
    object["status"] = json!({"environments": {
        "dev": {"targets": [target(0, 1000)]},
        "prod": {
            "targets": targets,
            "promotion": {"name": format!("{name}-prod"), "revision": "6.2.0", "phase": "Deploying"},
            "rollout": {
                "promotion": format!("{name}-prod"), "revision": "6.2.0",
                "waves": [summary(0), summary(1), summary(2)],
            },
        },
    }});
    world.create(&object);
    create_promotion(world, name, count);
}

fn create_promotion(world: &World, name: &str, count: usize) {
    let promotion = json!({
        "metadata": {
            "name": format!("{name}-prod"), "namespace": "shop",
            "labels": {"pipelines.weave.works/pipeline": name},
        },
        "spec": {
            "pipeline": name, "environment": "prod", "revision": "6.2.0", "version": "6.2.0",
            "replaces": "6.1.0", "ordinal": 0, "rollout": rollout(),
            "strategy": pipeline(name)["spec"]["promotion"]["strategy"],
        },
    });
    let members = (0..count).map(|number| {
        let state = state(number, count);
        json!({
            "target": format!("edge-{number}/shop"), "wave": wave(number, count),
            "batch": (state != "waiting").then_some(1), "ready": state == "ready",
            "failed": state == "failed", "skipped": state == "skipped",
        })
    });
    let members: Vec<_> = members.collect();
    // Whatever was started has time to become ready.
    let landed = jiff::Timestamp::now().to_string();
    let status = json!({
        "phase": "Deploying", "reason": "Deploying",
        "message": "wave 3 of 3: batch 1 is being deployed",
        "rollout": {
            "total": count,
            "waves": [{"openedAt": AT, "doneAt": AT}, {"openedAt": AT, "doneAt": AT}, {"openedAt": AT}],
            "targets": members,
            "batches": [{
                "number": 1, "startedAt": AT, "landedAt": landed, "url": "https://forge.example/shop/pulls/7",
            }],
        },
    });
    world.runtime.block_on(async {
        let api: Api<Promotion> = Api::namespaced(world.client.clone(), "shop");
        let promotion: Promotion = serde_json::from_value(promotion).unwrap();
        api.create(&PostParams::default(), &promotion)
            .await
            .unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        let parameters = PatchParams::default();
        let name = format!("{name}-prod");
        api.patch_status(&name, &parameters, &patch).await.unwrap();
    });
}

#[test]
fn the_map_reads_well_with_few_and_with_a_thousand_targets() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    for (name, count) in [("few", 3), ("some", 60), ("many", 1000)] {
        create_fleet(&world, name, count);
    }
    world.sign_in(&mut browser, OWNER);
    for (name, count) in [("few", 3), ("some", 60), ("many", 1000)] {
        world.go(&mut browser, &format!("/pipelines/shop/{name}"));
        browser.shows("Wave 3 of 3");
        let cells = browser.evaluate("document.querySelectorAll('.cells .map-cell').length");
        assert_eq!(cells, json!(count), "{name}");
        check(&mut browser, &format!("rollout-{name}"));
        let states = "[...new Set([...document.querySelectorAll('.legend .map-cell')]
            .map((it) => getComputedStyle(it, '::before').content))].length
            === document.querySelectorAll('.legend .map-cell').length";
        assert_eq!(browser.evaluate(states), true, "a symbol for each state");
    }
    // Keyboards reach the targets that need a person, not all thousand.
    let stops = browser.evaluate("document.querySelectorAll('.cells a').length");
    let stops = stops.as_u64().unwrap();
    assert!((8..100).contains(&stops), "{stops}");
}

#[test]
fn a_rollout_is_stopped_while_it_moves_on() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let mut object = pipeline("app");
    object["spec"]["promotion"]["manual"] = json!(false);
    object["spec"]["promotion"]["rollout"] = json!({"waves": [{"percent": 34}, {"percent": 34}]});
    let targets = ["one", "two", "three"].map(|name| json!({"namespace": name}));
    object["spec"]["environments"][1]["targets"] = json!(targets);
    world.create(&object);
    world.promotes(Strategy::Delivers);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.evaluate("window.isSamePage = true");
    let mut reports = json!({"dev/-/dev": report("5.0.0")});
    for name in ["one", "two", "three"] {
        reports[format!("prod/-/{name}")] = report("4.0.0");
    }
    world.set_status("app", &json!({"reports": reports}));
    browser.shows("Wave 1 of 3");
    browser.until("document.querySelectorAll('.cells .in-flight').length === 1");
    browser.evaluate("document.getElementById('stop-rollout-1').open = true");
    browser.fill("#stop-rollout-1 [name=note]", "half-typed");
    let first =
        "document.querySelector('.cells .in-flight').textContent.split(':')[0].split('/')[1]";
    let first = browser.evaluate(first);
    let first = format!("prod/-/{}", first.as_str().unwrap());
    world.set_status("app", &json!({"reports": {first: report("5.0.0")}}));
    browser.until("document.querySelectorAll('.cells .ready').length === 1");
    let typed = browser.evaluate("document.querySelector('#stop-rollout-1 [name=note]').value");
    assert_eq!(typed, "half-typed", "the map changes, the form stays");
    assert_eq!(browser.evaluate("window.isSamePage"), true);
    browser.fill("#stop-rollout-1 [name=note]", "errors <b>here</b>");
    browser.press("Stop the rollout");
    browser.shows("stopped the rollout of 5.0.0");
    browser.shows("errors <b>here</b>");
    browser.shows("Resume the rollout");
    browser.screenshot("rollout-stopped");
    let stopped = world.pipeline("app").status.unwrap();
    let orders = stopped.environments["prod"].rollout_orders.clone().unwrap();
    assert_eq!(orders.stopped.unwrap().by.as_deref(), Some("olivia"));
    browser.evaluate("document.getElementById('resume-rollout-1').open = true");
    browser.press("Resume the rollout");
    browser.shows("resumed the rollout of 5.0.0");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn who_may_not_promote_sees_the_map_without_forms() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    create_fleet(&world, "some", 60);
    world.grant("vera", &["get", "list"]);
    world.sign_in(&mut browser, "vera");
    world.go(&mut browser, "/pipelines/shop/some");
    browser.shows("Wave 3 of 3");
    let forms = browser.evaluate("document.querySelectorAll('.rollout form').length");
    assert_eq!(forms, json!(0));
}
