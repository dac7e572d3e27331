//! Every page of the dashboard, from one table: it is accessible, wide and narrow, light and dark.
//!
//! `SLUICE_SCREENSHOTS=FOLDER cargo test -p sluice-server --test browser gallery` writes the screenshots to
//! a folder. A route without a row in the table fails a test.

mod objects;
mod orders;
mod table;

use serde_json::{Value, json};
use testbed::browser::{ACCESSIBILITY_CHECK, Chromium};

use crate::world::{OWNER, World};

pub(crate) use objects::{frozen_without_release, rolled_back, shop_on, states, target};
use table::{PAGES, Page, Setting};

/// Addresses that are no pages: redirects, streams, JSON and files.
const NOT_PAGES: [&str; 6] = [
    "/",
    "/login/oidc",
    "CALLBACK",
    "/live",
    "/find",
    "/assets/{name}",
];

/// The addresses in the source of the dashboard's router that answer to GET.
fn routes() -> Vec<String> {
    let source = include_str!("../../src/dashboard.rs");
    let routes = source.split(".route(").skip(1).filter_map(|rest| {
        let (address, rest) = rest.split_once(',')?;
        let is_get = rest.trim_start().starts_with("get(");
        let address = address.trim().trim_start_matches("&format!(");
        let address = address.trim_end_matches(')').trim_matches('"');
        let address = address.replace("{PIPELINE}", "PIPELINE");
        is_get.then(|| address.replace("PIPELINE", "/pipelines/{namespace}/{name}"))
    });
    routes.collect()
}

fn is_at(page: &Page, route: &str) -> bool {
    let path = page.address.split('?').next().unwrap_or_default();
    let (path, route): (Vec<_>, Vec<_>) = (path.split('/').collect(), route.split('/').collect());
    let same = |(own, wanted): (&&str, &&str)| own == wanted || wanted.starts_with('{');
    path.len() == route.len() && path.iter().zip(&route).all(same)
}

#[test]
fn every_route_has_a_page_in_the_table() {
    let routes = routes();
    assert!(routes.len() > 15, "{routes:?}");
    for route in &routes {
        let mut pages = PAGES.iter().filter(|page| page.setting != Setting::Forge);
        let is_listed = pages.any(|page| is_at(page, route));
        let is_excepted = NOT_PAGES.contains(&route.as_str());
        assert!(
            is_listed != is_excepted,
            "{route} needs a row in PAGES, or an entry in NOT_PAGES"
        );
    }
    let mut names: Vec<_> = PAGES.iter().map(|page| page.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PAGES.len(), "each page has a name of its own");
}

#[test]
fn sign_in_and_empty_pages() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    look(&mut browser, &world.address, Setting::SignedOut);
    world.sign_in(&mut browser, OWNER);
    look(&mut browser, &world.address, Setting::Empty);
    let world = World::with_provider();
    look(&mut browser, &world.address, Setting::SingleSignOn);
}

#[test]
fn full_pages() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    objects::something_of_everything(&world);
    world.sign_in(&mut browser, OWNER);
    look(&mut browser, &world.address, Setting::Full);
    world.grant("nora", &["create"]);
    world.go(&mut browser, "/login");
    browser.fill("#token", "nora");
    browser.press("Sign in");
    look(&mut browser, &world.address, Setting::Forbidden);
}

#[test]
fn the_page_of_a_pull_request_of_the_demo() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let forge = world.runtime.block_on(objects::forge());
    look(&mut browser, forge.web_origin(), Setting::Forge);
}

/// Opens every page of a setting; all faults are listed together.
fn look(browser: &mut Chromium, origin: &str, setting: Setting) {
    let mut faults = Vec::new();
    let pages: Vec<_> = PAGES.iter().filter(|it| it.setting == setting).collect();
    assert!(!pages.is_empty(), "{setting:?}");
    for page in pages {
        browser.resize(1280, 860);
        browser.go(&format!("{origin}{}", page.address));
        browser.evaluate(&format!("{}; true", page.first));
        let text = json!(page.shows);
        if !browser.becomes_true(&format!("document.body.innerText.includes({text})")) {
            faults.push(format!("{} does not show {text}", page.name));
        }
        faults.extend(faults_of(browser, page.name));
    }
    assert_eq!(faults, Vec::<String>::new());
}

/// The page is accessible, and the browser does not complain about it.
pub(crate) fn check(browser: &mut Chromium, name: &str) {
    assert_eq!(faults_of(browser, name), Vec::<String>::new());
}

fn faults_of(browser: &mut Chromium, name: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (width, height, is_dark) in [
        (1280, 860, false),
        (1280, 860, true),
        (390, 800, false),
        (390, 800, true),
    ] {
        browser.resize(width, height);
        browser.dark(is_dark);
        let theme = if is_dark { "-dark" } else { "" };
        let picture = format!("{name}-{width}{theme}");
        // Rows out of sight are not drawn otherwise.
        browser.evaluate(
            "document.querySelectorAll('#rows > tr').forEach((it) => it.style.contentVisibility = 'visible')",
        );
        browser.screenshot(&picture);
        for found in [browser.evaluate(ACCESSIBILITY_CHECK), axe(browser)] {
            let found = found.as_array().cloned().unwrap_or_default();
            all.extend(found.iter().map(|fault| format!("{picture}: {fault}")));
        }
    }
    browser.resize(1280, 860);
    browser.dark(false);
    let complaints = std::mem::take(&mut browser.complaints);
    // Browsers complain about every page that is not found or forbidden.
    let of_the_page = complaints
        .into_iter()
        .filter(|it| !it.contains("the server responded with a status of 40"));
    all.extend(of_the_page.map(|complaint| format!("{name}: {complaint}")));
    all
}

/// What axe-core finds, where `AXE_CORE` names its file: `npm install axe-core` has `axe.min.js`.
fn axe(browser: &mut Chromium) -> Value {
    let Some(file) = std::env::var_os("AXE_CORE") else {
        return json!([]);
    };
    let source = std::fs::read_to_string(file).unwrap();
    browser.call("Runtime.evaluate", json!({"expression": source}));
    browser.evaluate(
        "axe.run().then((it) => it.violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(' ')}`))",
    )
}
