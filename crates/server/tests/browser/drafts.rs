//! The form for a new pipeline, and what it warns about.

use serde_json::json;
use testbed::browser::Chromium;

use crate::{
    gallery::shop_on,
    world::{OWNER, World, pipeline},
};

/// A draft that promotes `app`, which dev and prod have.
const DRAFT: [(&str, &str); 7] = [
    ("#name", "second"),
    ("#namespace", "shop"),
    ("#app", "app"),
    ("#url", "https://forge.example/fleet.git"),
    ("#secret", "git"),
    ("[id='environment.0.target.0.namespace']", "dev"),
    ("[id='environment.1.target.0.namespace']", "prod"),
];

fn fill(browser: &mut Chromium, fields: &[(&str, &str)]) {
    for (field, value) in fields {
        browser.fill(field, value);
    }
}

#[test]
fn a_check_says_what_does_not_exist() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    shop_on(&world, "west", &ready);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/create");
    browser.press("Check");
    browser.shows("fields to correct before it can be proposed.");
    browser.until("document.activeElement.id === 'name'");
    fill(&mut browser, &DRAFT);
    let cluster = "[id='environment.1.target.0.cluster']";
    browser.fill(cluster, "nowhere");
    browser.press("Check");
    browser.shows("No errors, ");
    for text in [
        "dev: the HelmRelease dev/app on the hub does not exist",
        "prod: the GitopsCluster shop/nowhere does not exist: its targets cannot be read",
        "prod: the Secret shop/git does not exist: promotions fail until it does",
    ] {
        browser.shows(text);
    }
    assert!(!browser.text().contains("prod/app on nowhere"));
    // An app that exists is not mentioned.
    browser.fill(cluster, "west");
    browser.fill("[id='environment.1.target.0.namespace']", "shop");
    browser.press("Check");
    browser.shows("dev: the HelmRelease dev/app on the hub does not exist");
    assert!(!browser.text().contains("on west does not exist"));
    // Who may not look is told so.
    world.grant("paul", &["get", "list", "create"]);
    world.go(&mut browser, "/login");
    browser.fill("#token", "paul");
    browser.press("Sign in");
    world.go(&mut browser, "/create");
    fill(&mut browser, &DRAFT);
    browser.fill(cluster, "west");
    browser.press("Check");
    for text in [
        "whether the GitopsCluster shop/west exists was not checked: you may not list GitopsClusters there",
        "whether the Secret shop/git exists was not checked: you may not get Secrets there",
        "whether the HelmRelease prod/app on west exists was not checked: you may not inspect the cluster",
    ] {
        browser.shows(text);
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn two_pipelines_with_the_same_target_are_told() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    world.create(&pipeline("app"));
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/create");
    fill(&mut browser, &DRAFT);
    let typed =
        "document.getElementById('name').dispatchEvent(new Event('input', {bubbles: true}))";
    browser.evaluate(typed);
    let warning = "prod: the pipeline shop/app promotes the same app in namespace prod";
    browser.shows(warning);
    // The pages of both say so once there are two.
    let mut second = pipeline("second");
    second["spec"]["appRef"]["name"] = json!("app");
    world.create(&second);
    world.go(&mut browser, "/pipelines/shop/second");
    browser.shows(warning);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("prod: the pipeline shop/second promotes the same app in namespace prod");
    assert_eq!(browser.complaints, Vec::<String>::new());
}
