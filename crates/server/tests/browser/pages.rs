//! What pages show, to whom, and how they look.

use serde_json::json;
use testbed::browser::Chromium;

use crate::{
    gallery::{shop_on, states, target},
    world::{OWNER, World, pipeline},
};

#[test]
fn pages_tell_what_is_wrong_until_the_viewer_signs_out() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    states(&world);
    world.go(&mut browser, "/pipelines");
    browser.fill("#token", "of nobody");
    browser.press("Sign in");
    browser.shows("does not accept this token");
    world.sign_in(&mut browser, OWNER);
    for (page, text) in [
        (
            "/pipelines/shop/basket",
            "prod: the Secret forge does not exist; create it",
        ),
        (
            "/pipelines/shop/fleet",
            "edge-7 does not answer: connection refused",
        ),
        (
            "/pipelines/shop/nothing",
            "pipeline shop/nothing does not exist",
        ),
        ("/clusters", "3 of 4 ready"),
        ("/freezes", "Europe/Berlinn"),
    ] {
        world.go(&mut browser, page);
        browser.shows(text);
    }
    browser.evaluate("document.querySelectorAll('tbody details').forEach((it) => it.open = true)");
    browser.shows("Deletes the Freeze.");
    browser.press("Sign out");
    world.go(&mut browser, "/clusters");
    browser.until("location.pathname === '/login'");
}

#[test]
fn clusters_tell_what_is_behind_a_target_and_every_app() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let well = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    shop_on(&world, "eu", &well);
    shop_on(&world, "us", &json!({"phase": "Pending"}));
    world.create_cluster("lost", "True", "");
    let mut object = pipeline("app");
    let targets = ["eu", "us", "lost"].map(|cluster| target(cluster, "5.0.0", true));
    object["status"] = json!({"environments": {"prod": {"targets": targets}}});
    world.create(&object);
    world.create_event("app", "prod waits until somebody merges the pull request");
    world.create_trigger("build", "app");
    world.grant("vera", &["get", "list"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("PipelineTrigger build starts Tekton runs for GitRepository code");
    browser.shows("last run build-1");
    world.go(&mut browser, "/triggers");
    browser.shows("GitRepository code");
    browser.follow("document.querySelector('tbody td a')");
    assert_eq!(browser.evaluate("location.pathname"), "/pipelines/shop/app");
    browser.follow(
        "[...document.querySelectorAll('.target a')].find((it) => it.textContent.startsWith('us'))",
    );
    browser.shows("Objects of app in prod");
    for text in ["charts", "main@sha1:ab", "web-7f9-a", "keys", "Pending"] {
        browser.shows(text);
    }
    browser.shows("prod waits until somebody merges the pull request (3 times)");
    world.go(
        &mut browser,
        "/pipelines/shop/app/objects?environment=prod&cluster=lost",
    );
    browser.shows("connection refused");
    world.go(&mut browser, "/apps");
    browser.shows("lost: connection refused");
    browser.shows("4 apps");
    world.go(&mut browser, "/apps?q=lonely+us&pipelines=outside");
    browser.shows("1 app");
    // Who may not look into clusters sees what pipelines see.
    world.go(&mut browser, "/login");
    browser.fill("#token", "vera");
    browser.press("Sign in");
    world.go(&mut browser, "/apps");
    browser.shows("you need the verb inspect on gitopsclusters");
    browser.shows("3 apps");
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("takes reports of what runs in dev");
    assert!(!browser.text().contains("PipelineTrigger"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn the_address_keeps_what_was_asked_for() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    states(&world);
    world.sign_in(&mut browser, OWNER);
    let names = "[...document.querySelectorAll('tbody th a')].map((it) => it.textContent).join()";
    for (query, expected) in [
        ("", "basket,catalogue,checkout,fleet,payments,search"),
        ("?q=CAT+6.2.0", "catalogue"),
        ("?state=held", "catalogue"),
        (
            "?sort=state",
            "payments,fleet,search,checkout,catalogue,basket",
        ),
        ("?namespace=other", ""),
        (
            "?page=99&q=a&sort=nonsense&state=nonsense",
            "basket,catalogue,payments,search",
        ),
    ] {
        world.go(&mut browser, &format!("/pipelines{query}"));
        assert_eq!(browser.evaluate(names), expected, "{query}");
    }
    world.go(&mut browser, "/pipelines?state=held");
    let type_text =
        "document.getElementById('q').dispatchEvent(new Event('input', {bubbles: true}))";
    browser.evaluate("window.isSamePage = true");
    browser.fill("#q", "nothing like that");
    browser.evaluate(type_text);
    browser.shows("No pipeline matches.");
    browser.until(&format!("{names} === ''"));
    let search = browser.evaluate("location.search");
    assert_eq!(search, "?q=nothing+like+that&state=held");
    browser.fill("#q", "cat");
    browser.evaluate(type_text);
    browser.until(&format!("{names} === 'catalogue'"));
    assert_eq!(browser.evaluate("window.isSamePage"), true);
}

#[test]
fn names_that_mean_harm_are_only_text() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let harm = "\"><img src=x onerror=alert(1)><script>alert(2)</script>'";
    let mut object = pipeline("victim");
    object["spec"]["environments"][0]["name"] = json!(harm);
    object["spec"]["appRef"]["name"] = json!(harm);
    object["spec"]["promotion"]["strategy"]["pull-request"]["url"] = json!("javascript:alert(3)");
    let mut bad = target(harm, harm, false);
    bad["error"] = json!(harm);
    bad["apps"][0]["message"] = json!(harm);
    bad["apps"][0]["images"] = json!([harm]);
    let promotion = json!({"name": "p", "revision": harm, "url": "javascript:alert(4)"});
    let hold = json!({"reason": harm, "message": harm});
    let environment = json!({"targets": [bad], "promotion": promotion, "hold": hold});
    object["status"] = json!({"environments": {(harm): environment}});
    world.create(&object);
    world.sign_in(&mut browser, OWNER);
    let markup =
        "document.querySelectorAll('main img, main script, [onerror], [href^=javascript]').length";
    for path in [
        "/pipelines",
        "/pipelines/shop/victim",
        "/pipelines/shop/victim/yaml",
    ] {
        world.go(&mut browser, path);
        browser.shows("<script>alert(2)</script>");
        assert_eq!(browser.evaluate(markup), 0, "{path}");
    }
    world.go(
        &mut browser,
        "/pipelines?q=%22%3E%3Cscript%3Ealert(5)%3C/script%3E",
    );
    browser.shows("No pipeline matches.");
    world.go(&mut browser, "/login?next=javascript:alert(6)");
    browser.fill("#token", OWNER);
    browser.press("Sign in");
    assert_eq!(browser.evaluate("location.pathname"), "/pipelines");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn without_script_pages_say_the_same() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    states(&world);
    browser.call(
        "Emulation.setScriptExecutionDisabled",
        json!({"value": true}),
    );
    world.sign_in(&mut browser, OWNER);
    browser.shows("6 pipelines");
    world.go(&mut browser, "/pipelines/shop/basket");
    browser.shows("since 2026-11-01 10:00 UTC");
    browser.press("Suspend the pipeline");
    browser.shows("basket is suspended.");
    assert!(world.pipeline("basket").spec.suspend);
}

/// A page of a thousand pipelines and ten thousand targets is small, and a change reaches it alone.
#[test]
fn a_thousand_pipelines_are_comfortable() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    world.create_many(1000, |number| {
        let mut object = pipeline(&format!("service-{number:04}"));
        let targets = |count: usize| {
            let all = (0..count).map(|n| target(&format!("cluster-{n}"), "6.2.0", true));
            all.collect::<Vec<_>>()
        };
        object["status"] = json!({"environments": {
            "dev": {"targets": targets(2)}, "prod": {"targets": targets(8)},
        }});
        object
    });
    world.sign_in(&mut browser, OWNER);
    browser.shows("1000 pipelines");
    let first_load = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .filter((it) => !it.name.includes('/live')).reduce((sum, it) => sum + it.decodedBodySize, 0)";
    let bytes = browser.evaluate(first_load).as_u64().unwrap();
    browser.until("performance.getEntriesByName('first-contentful-paint').length > 0");
    let painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
    let painted = browser.evaluate(painted);
    assert_eq!(
        browser.evaluate("document.querySelectorAll('tbody tr').length"),
        200
    );
    let changed =
        json!({"environments": {"dev": {"targets": [target("cluster-0", "7.0.0", true)]}}});
    let began = std::time::Instant::now();
    world.set_status("service-0007", &changed);
    browser.shows("7.0.0");
    eprintln!(
        "first load {bytes} bytes, painted after {painted} ms, a change shown after {:?}",
        began.elapsed()
    );
    assert!(bytes < 1_000_000, "{bytes} bytes");
}

#[test]
fn the_palette_finds_pipelines_clusters_and_pages() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    states(&world);
    world.grant("nora", &["create"]);
    world.sign_in(&mut browser, OWNER);
    browser.shows("6 pipelines");
    let open = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true}))";
    let found =
        "[...document.querySelectorAll('.palette a span')].map((it) => it.textContent).join()";
    let enter = |text: &str| {
        let text = json!(text);
        format!(
            "(() => {{ const field = document.querySelector('.palette input'); field.value = {text};
               field.dispatchEvent(new Event('input')); }})()"
        )
    };
    let press = |key: &str| {
        format!(
            "document.querySelector('.palette input').dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))"
        )
    };
    browser.evaluate(open);
    browser.until(&format!("{found}.startsWith('Pipelines,Approvals,')"));
    browser.evaluate(&enter("edge"));
    browser.until(&format!("{found} === 'edge-7'"));
    for (text, expected) in [
        ("approve", "Approvals"),
        ("new pipe", "Create a pipeline"),
        ("proposal", "Proposals"),
    ] {
        browser.evaluate(&enter(text));
        browser.until(&format!("{found} === '{expected}'"));
    }
    browser.evaluate(&enter("ca"));
    browser.until(&format!("{found} === 'catalogue'"));
    browser.evaluate(&press("ArrowDown"));
    browser.evaluate(&press("Enter"));
    browser.until("location.pathname === '/pipelines/shop/catalogue'");
    // An action of the page opens its form.
    browser.until("document.readyState === 'complete' && typeof openPalette === 'function'");
    browser.evaluate(open);
    browser.evaluate(&enter("prod suspend"));
    browser.until(&format!("{found} === 'prod: Suspend prod…'"));
    browser.evaluate(&press("Enter"));
    browser.until("document.activeElement.closest('#actions .group details[open]') !== null");
    // Nobody finds what they may not list.
    world.go(&mut browser, "/login");
    browser.fill("#token", "nora");
    browser.press("Sign in");
    let all = "fetch('/find?q=').then((it) => it.json()).then((it) => it.length)";
    assert_eq!(browser.evaluate(all), 0);
}

#[test]
fn pages_say_what_is_missing_instead_of_none() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    world.sign_in(&mut browser, OWNER);
    browser.shows("No pipelines yet");
    world.go(&mut browser, "/clusters");
    browser.shows("No GitopsClusters");
    world.create(&pipeline("app"));
    for (page, text) in [
        ("/nothing/here", "A page at this address does not exist"),
        (
            "/pipelines/shop/app/objects",
            "A page of objects without ?environment=NAME does not exist",
        ),
        (
            "/pipelines/shop/app/objects?environment=qa",
            "The environment qa of shop/app does not exist",
        ),
        (
            "/pipelines/shop/nothing/yaml",
            "The pipeline shop/nothing does not exist",
        ),
        ("/changes/shop/nothing", "does not exist"),
    ] {
        world.go(&mut browser, page);
        browser.shows(text);
        browser.until("Boolean(document.querySelector('header.top nav'))");
    }
    states(&world);
    world.grant("nora", &["create"]);
    world.go(&mut browser, "/login");
    browser.fill("#token", "nora");
    browser.press("Sign in");
    browser.shows("You may not list pipelines");
    browser.shows("nora needs a role with the verb list on pipelines");
    world.go(&mut browser, "/clusters");
    browser.shows("You may not list clusters");
    world.go(&mut browser, "/triggers");
    browser.shows("You may not list triggers");
    world.go(&mut browser, "/pipelines/shop/basket");
    browser.shows("nora may not see shop/basket");
    browser.until("Boolean(document.querySelector('header.top nav'))");
}
