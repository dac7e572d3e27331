//! What pages say about environments that are frozen, failed or ahead of the one before.

use serde_json::json;
use testbed::browser::Chromium;

use crate::{
    gallery::{frozen_without_release, rolled_back, target},
    world::{OWNER, World, pipeline},
};

#[test]
fn a_freeze_is_shown_where_nothing_waits() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    world.create(&frozen_without_release());
    world.create(&pipeline("other"));
    world.sign_in(&mut browser, OWNER);
    browser.shows("2 pipelines");
    let cell = "document.querySelector('td[data-label=prod] .frozen')?.title";
    let frozen = "frozen by stop (incident 7): only rollbacks pass";
    assert_eq!(browser.evaluate(cell), frozen);
    browser.evaluate("document.querySelector('#counts a.frozen').click()");
    browser.shows("1 pipeline");
    world.go(&mut browser, "/pipelines/shop/invoices");
    browser.shows("frozen: incident 7");
    let note = "document.querySelector('.freeze-note a').title";
    assert_eq!(browser.evaluate(note), frozen);
    let gate = "document.querySelector('.connector .gate-freeze.stopped .label')?.textContent";
    assert_eq!(browser.evaluate(gate), "frozen");
    world.set_status("invoices", &json!({"freezes": []}));
    browser.until("!document.querySelector('.freeze-note, .gate-freeze')");
}

#[test]
fn a_failed_release_says_what_still_runs_and_is_rolled_back() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let mut failed = target("eu", "6.1.0", false);
    failed["failed"] = json!("6.2.0");
    let mut object = pipeline("payments");
    object["status"] = json!({"environments": {
        "dev": {"targets": [target("dev", "6.2.0", true)]},
        "prod": {
            "targets": [failed], "ran": [{"revision": "6.1.0", "version": "6.1.0"}],
            "failures": [{"revision": "6.2.0", "target": "eu", "at": "2026-11-01T10:00:00Z"}],
        },
    }});
    world.create(&object);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/payments");
    browser.shows("prod failed: 6.2.0");
    let card = "document.getElementById('failure-1').innerText";
    let text = browser.evaluate(card);
    let text = text.as_str().unwrap();
    for expected in [
        "on 1 of 1 target",
        "install retries exhausted",
        "6.1.0",
        "Roll back to 6.1.0, or push a fix.",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    browser.evaluate("document.getElementById('failure-rollback-1').open = true");
    browser.press("Roll prod back to 6.1.0");
    browser.shows("6.1.0 for prod");
    let requests = world.pipeline("payments").status.unwrap().requests;
    assert_eq!(requests["prod"].revision, "6.1.0");
    world.set_status(
        "payments",
        &json!({"environments": {"prod": {"targets": [target("eu", "6.1.0", true)]}}}),
    );
    browser.until("document.getElementById('failure-1').hidden");
}

#[test]
fn an_environment_ahead_of_the_one_before_is_ready() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let mut object = rolled_back();
    object["status"]["environments"]["prod"]["hold"] = json!({
        "reason": "OlderThanRunning", "message": "prod runs 6.2.0, which is newer than 6.1.0",
    });
    world.create(&object);
    world.sign_in(&mut browser, OWNER);
    browser.shows("ready");
    world.go(&mut browser, "/pipelines/shop/refunds");
    browser.shows("Nothing newer for prod");
    let states =
        "[...document.querySelectorAll('.environment .badge')].map((it) => it.innerText).join()";
    assert_eq!(browser.evaluate(states), "ready,ready");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('.moving').length"),
        0
    );
    let lane = "document.querySelector('#timeline .lane svg').getAttribute('aria-label')";
    let lane = browser.evaluate(lane);
    let stays: Vec<_> = lane.as_str().unwrap().split("; ").collect();
    assert_eq!(stays.len(), 5, "{stays:?}");
    assert!(stays[0].contains("6.1.0 rolled back to"), "{stays:?}");
}

/// A message tells of a moment; what comes after it is not hidden behind it.
#[test]
fn a_message_ends_once_something_has_changed() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    world.create(&pipeline("app"));
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.evaluate("document.querySelectorAll('main details').forEach((it) => it.open = true)");
    browser.press("Suspend prod");
    browser.shows("prod is suspended: no promotion into it starts.");
    let message = "document.querySelector('main > .notice[role]')";
    // As if it had been read for a minute.
    browser.evaluate("performance.now = () => 60000");
    browser.until(&format!("Boolean({message})"));
    let targets = json!({"targets": [target("eu", "6.2.0", true)]});
    world.set_status("app", &json!({"environments": {"prod": targets}}));
    browser.shows("6.2.0");
    browser.until(&format!("!{message}"));
}
