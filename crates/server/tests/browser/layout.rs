//! The picture of a pipeline at several widths: cards are in line, and menus show what is current.

use serde_json::{Value, json};
use testbed::browser::Chromium;

use crate::{
    acts::waiting,
    world::{OWNER, World, pipeline, report},
};

/// The vertical position of something in each card.
fn tops(browser: &mut Chromium, selector: &str) -> Vec<Value> {
    let all = browser.evaluate(&format!(
        "[...document.querySelectorAll('.environment {selector}')].map((it) => Math.round(it.getBoundingClientRect().top))"
    ));
    all.as_array().cloned().unwrap_or_default()
}

#[test]
fn versions_and_bars_of_all_cards_are_in_line() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("Approve 5.0.0");
    // A name that leaves no space for the state beside it.
    browser.evaluate(
        "document.querySelectorAll('.environment h3 a')[1].textContent = 'production-europe-west'",
    );
    for width in [1280, 1000, 800] {
        browser.resize(width, 860);
        browser.screenshot(&format!("cards-{width}"));
        for selector in [".versions", ".segments", ".foot"] {
            let mut tops = tops(&mut browser, selector);
            assert_eq!(tops.len(), 2, "{selector}");
            tops.dedup();
            assert_eq!(tops.len(), 1, "{selector} at {width}: {tops:?}");
        }
    }
}

#[test]
fn an_open_menu_is_updated_and_an_open_form_is_not() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("Approve 5.0.0");
    browser.evaluate("document.getElementById('actions-menu').open = true");
    let release = |revision: &str, at: &str| {
        let mut said = report(revision);
        said["at"] = json!(at);
        world.set_status("app", &json!({"reports": {"dev/-/dev": said}}));
    };
    let known = |revision: &str| {
        format!("Boolean(document.querySelector('#promote-1 [name=known][value=\"{revision}\"]'))")
    };
    release("6.0.0", "2026-11-01T11:00:00Z");
    browser.until(&known("6.0.0"));
    assert_eq!(
        browser.evaluate("document.getElementById('actions-menu').open"),
        true
    );
    browser.evaluate("document.getElementById('promote-1').open = true");
    release("7.0.0", "2026-11-01T12:00:00Z");
    browser.shows("Approve 7.0.0");
    assert_eq!(browser.evaluate(&known("7.0.0")), false);
    browser.evaluate("document.getElementById('promote-1').open = false");
    browser.until(&known("7.0.0"));
}

#[test]
fn the_menu_ends_a_freeze_of_the_pipeline() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let mut app = pipeline("app");
    let weekend = json!({"closed": [{"cron": "0 16 * * FRI", "window": "64h"}]});
    app["status"] = json!({"freezes": [
        {"name": "stop-app", "reason": "incident <7>", "environments": ["prod"], "times": {}},
        {"name": "weekend", "environments": ["prod"], "times": weekend},
        {"name": "stop", "namespace": "other", "environments": ["prod"], "times": {}},
    ]});
    world.create(&app);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.evaluate("document.getElementById('actions-menu').open = true");
    browser.shows("End the freeze “incident <7>”…");
    // A schedule is not ended in passing, nor what another namespace decided.
    let forms = "[...document.querySelectorAll('#actions [value=thaw]')].length";
    assert_eq!(browser.evaluate(forms), 1);
    browser.press("End the freeze stop-app");
    browser.shows("stop-app");
    browser.until("location.pathname === '/pipelines/shop/app'");
    browser.until("Boolean(document.querySelector('main > .notice[role]'))");
}
