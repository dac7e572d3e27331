//! The checks page, and how checks stand on the card on which people decide.

use api::{CheckRun, names::check_run_name};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use testbed::browser::Chromium;

use crate::{
    gallery::check,
    leaf::put,
    loops::Strategy,
    world::{OWNER, World, pipeline, report},
};

const DIGEST: &str = "main@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn runs(world: &World) -> Api<CheckRun> {
    Api::namespaced(world.client.clone(), "shop")
}

/// A check run of the pipeline `checkout`, and its name.
fn create(world: &World, check: &Value, cause: &str, status: &Value) -> String {
    let mut spec = json!({
        "pipeline": "checkout", "environment": "staging", "check": check, "revision": "6.2.0",
        "version": "6.2.0", "attempt": 0, "cause": cause,
    });
    if cause == "Promotion" {
        spec["environment"] = json!("prod");
        spec["revision"] = json!(DIGEST);
        spec["version"] = json!("main");
        spec["attempt"] = json!(1);
    }
    let name = check_run_name(&serde_json::from_value(spec.clone()).unwrap());
    let run = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "CheckRun",
        "metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": status,
    });
    world.runtime.block_on(put(&world.server, &run));
    name
}

fn set_verdict(world: &World, name: &str, status: &Value) {
    let (runs, parameters) = (runs(world), PatchParams::default());
    let patch = Patch::Merge(json!({"status": status}));
    let patched = runs.patch_status(name, &parameters, &patch);
    world.runtime.block_on(patched).unwrap();
}

/// One check run of each verdict; the name of the one that runs.
pub(crate) fn verdicts(world: &World) -> String {
    let http = |name: &str| {
        let url = "https://shop.example.com/healthz";
        json!({"name": name, "http": {"url": url, "passExpr": "status == 200"}})
    };
    let at = "2026-11-01T10:00:00Z";
    let decided = |verdict: &str, message: &str| {
        let url = "https://grafana.example.com/d/1";
        json!({"verdict": verdict, "message": message, "decidedAt": at, "url": url})
    };
    for (check, status) in [
        (
            http("smoke"),
            decided(
                "Failed",
                "the answer has the status 500; status == 200 is not met",
            ),
        ),
        (http("login"), decided("Passed", "")),
        (
            http("search"),
            decided(
                "Error",
                "checks may not ask shop.example.com: add it to --check-hosts of the controller (checks.hosts of the chart)",
            ),
        ),
        (http("load"), json!({})),
    ] {
        create(world, &check, "Verify", &status);
    }
    let ticket = json!({"name": "ticket", "external": {}});
    create(world, &ticket, "Promotion", &json!({"verdict": "Running"}))
}

#[test]
fn check_runs_are_listed_filtered_and_kept_up_to_date() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    world.create(&pipeline("checkout"));
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/checks");
    browser.shows("No check runs");
    check(&mut browser, "checks-none");
    browser.evaluate("window.isSamePage = true");
    let running = verdicts(&world);
    for text in [
        "5 check runs",
        "the answer has the status 500",
        "attempt 2",
        "before it enters",
    ] {
        browser.shows(text);
    }
    assert_eq!(browser.evaluate("window.isSamePage"), true);
    check(&mut browser, "checks");
    let names = "[...document.querySelectorAll('tbody th')].map((it) => it.firstChild.textContent).sort().join()";
    // A verdict changes under the eyes of who looks.
    browser.evaluate("window.isSamePage = true");
    set_verdict(
        &world,
        &running,
        &json!({"verdict": "Passed", "message": "CHG-7 is approved"}),
    );
    browser.shows("CHG-7 is approved");
    assert_eq!(browser.evaluate("window.isSamePage"), true);
    for (query, expected) in [
        ("?verdict=Failed", "smoke"),
        ("?verdict=Passed", "login,ticket"),
        ("?q=CHECKOUT+prod", "ticket"),
        ("?q=nothing+like+that", ""),
        (
            "?page=99&verdict=nonsense",
            "load,login,search,smoke,ticket",
        ),
    ] {
        world.go(&mut browser, &format!("/checks{query}"));
        assert_eq!(browser.evaluate(names), expected, "{query}");
    }
    world.go(&mut browser, "/checks");
    browser.evaluate("document.querySelector('.tiles a.failed').click()");
    browser.until("location.search === '?verdict=Failed'");
    browser.until(&format!("{names} === 'smoke'"));
    browser.fill("#q", "tick");
    browser.evaluate(
        "document.getElementById('q').dispatchEvent(new Event('input', {bubbles: true}))",
    );
    browser.shows("No check run matches.");
    assert_eq!(
        browser.evaluate("location.search"),
        "?q=tick&verdict=Failed"
    );
    world.go(&mut browser, "/checks");
    browser.follow("document.querySelector('tbody td a')");
    assert_eq!(
        browser.evaluate("location.pathname"),
        "/pipelines/shop/checkout"
    );
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn who_may_not_list_check_runs_is_told_so() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    verdicts(&world);
    world.grant("vera", &["get", "list"]);
    world.sign_in(&mut browser, "vera");
    world.go(&mut browser, "/checks");
    browser.shows("You may not list check runs");
    browser.shows("vera needs a role with the verb list on checkruns");
    assert!(!browser.text().contains("smoke"));
}

#[test]
fn what_a_check_says_is_only_text() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let harm = "<img src=x onerror=alert(1)><script>alert(2)</script>";
    let check = json!({"name": "ticket", "external": {}});
    let status = json!({"verdict": "Failed", "message": harm, "url": "javascript:alert(3)"});
    create(&world, &check, "Verify", &status);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/checks");
    browser.shows("<script>alert(2)</script>");
    let markup =
        "document.querySelectorAll('main img, main script, [onerror], [href^=javascript]').length";
    assert_eq!(browser.evaluate(markup), 0);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// The check run of a check, once the loop has created it.
fn run_of(world: &World, check: &str) -> String {
    let find = |world: &World| {
        let (runs, parameters) = (runs(world), ListParams::default());
        let listed = world.runtime.block_on(runs.list(&parameters)).unwrap();
        let mut listed = listed.into_iter();
        listed.find(|it| it.spec.check.name == check)
    };
    world.until(&format!("a check run of {check}"), |world| {
        find(world).is_some()
    });
    find(world).unwrap().name_any()
}

#[test]
fn the_decision_shows_how_the_checks_stand() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let mut object = pipeline("app");
    let checks = ["smoke", "ticket"].map(|name| json!({"name": name, "external": {}}));
    object["spec"]["checks"] = json!(checks);
    object["spec"]["environments"][0]["verify"] = json!({"checks": ["smoke"]});
    object["spec"]["promotion"]["checks"] = json!(["ticket"]);
    world.create(&object);
    world.promotes(Strategy::Opens);
    world.set_status("app", &json!({"reports": {"dev/-/dev": report("5.0.0")}}));
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("5.0.0 has not passed the checks of dev");
    let passed = json!({
        "verdict": "Passed", "message": "twelve of twelve", "url": "https://ci.example.com/12",
        "decidedAt": "2026-11-01T10:00:00Z",
    });
    set_verdict(&world, &run_of(&world, "smoke"), &passed);
    browser.shows("Decision: let 5.0.0 into prod?");
    for text in [
        "smoke in dev",
        "twelve of twelve",
        "ticket before prod",
        "Checks",
    ] {
        browser.shows(text);
    }
    check(&mut browser, "decision-with-checks");
    world.go(&mut browser, "/approvals");
    for text in [
        "smoke in dev",
        "ticket before prod",
        "Forecast",
        "prod: 5.0.0",
    ] {
        browser.shows(text);
    }
    check(&mut browser, "approvals-with-checks");
    let failed = json!({"verdict": "Failed", "message": "CHG-7 was rejected"});
    set_verdict(&world, &run_of(&world, "ticket"), &failed);
    browser.shows("CHG-7 was rejected");
    assert_eq!(browser.complaints, Vec::<String>::new());
}
