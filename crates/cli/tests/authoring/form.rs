//! A pipeline from the dashboard's form: filled in, previewed as YAML, proposed in git and merged.

use serde_json::{Value, json};
use testbed::browser::{ACCESSIBILITY_CHECK, Chromium};

use crate::setup::{AuthoringSetup, OWNER};

const PATH: &str = "pipelines/default/basket.yaml";

/// Types into a field, key by key as far as the page can tell.
fn enter(browser: &mut Chromium, id: &str, text: &str) {
    let id = json!(id);
    browser.evaluate(&format!(
        "(() => {{ const field = document.getElementById({id}); field.focus(); field.select(); }})()"
    ));
    browser.call("Input.insertText", json!({"text": text}));
}

fn sign_in(browser: &mut Chromium, setup: &AuthoringSetup, token: &str) {
    browser.go(&format!("{}/pipelines", setup.address));
    browser.fill("#token", token);
    browser.press("Sign in");
}

/// Faults that a person with a screen reader, a keyboard or weak eyes would meet.
fn faults(browser: &mut Chromium) -> Value {
    browser.evaluate(ACCESSIBILITY_CHECK)
}

#[test]
fn a_pipeline_is_filled_in_previewed_proposed_and_merged() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let setup = AuthoringSetup::new(&[("README.md", "hello\n")]);
    sign_in(&mut browser, &setup, OWNER);
    browser.until("Boolean(document.querySelector('a[href=\"/create\"]'))");
    browser.go(&format!("{}/create", setup.address));
    browser.screenshot("create-empty");
    enter(&mut browser, "name", "Basket");
    browser.shows("use lower-case letters");
    enter(&mut browser, "name", "basket");
    browser.until("document.getElementById('error-name').textContent === ''");
    for (field, text) in [
        ("namespace", "default"),
        ("app", "basket"),
        ("environment.0.target.0.namespace", "basket-dev"),
        ("environment.1.target.0.cluster", "eu"),
        ("environment.1.target.0.namespace", "basket"),
        ("url", "https://git.example.com/<apps>.git"),
        ("secret", "git"),
    ] {
        enter(&mut browser, field, text);
    }
    browser.evaluate("document.getElementById('forge').value = 'gitea'");
    browser.press("Add an environment");
    assert_eq!(
        browser.evaluate("document.getElementById('name').value"),
        "basket",
        "what was typed comes back with another environment"
    );
    assert_eq!(
        browser.evaluate("document.activeElement.id"),
        "environment.2.name",
        "the focus is where one goes on"
    );
    enter(&mut browser, "environment.2.name", "last");
    enter(&mut browser, "environment.2.target.0.namespace", "basket");
    enter(&mut browser, "environment.2.target.0.cluster", "eu");
    browser.shows("prod and last have the same target eu/basket");
    enter(&mut browser, "environment.2.target.0.cluster", "us");
    browser.until("document.getElementById('error-environment.2.name').textContent === ''");
    browser.until("document.getElementById('preview').innerText.includes('name: us')");
    assert_eq!(faults(&mut browser), json!([]));
    browser.screenshot("create-filled");
    browser.resize(390, 800);
    assert_eq!(faults(&mut browser), json!([]));
    browser.screenshot("create-narrow");
    browser.resize(1280, 860);
    let shown = browser.evaluate("document.querySelector('#preview pre').textContent");
    let shown = shown.as_str().unwrap().to_owned();
    assert!(
        shown.contains("url: https://git.example.com/<apps>.git"),
        "{shown}"
    );
    browser.press("Propose in git");
    browser.until("Boolean(document.querySelector('a.pull-request'))");
    browser.shows("the pull request waits to be merged");
    browser.evaluate("window.isSamePage = true");
    assert_eq!(faults(&mut browser), json!([]));
    browser.screenshot("create-proposed");
    let pulls = setup.runtime.block_on(setup.repository.pull_requests());
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].title, "Add pipeline default/basket");
    assert!(pulls[0].body.contains("`olivia`"), "{}", pulls[0].body);
    assert_eq!(setup.file(&pulls[0].head, PATH), Some(shown.clone()));
    let link = browser.evaluate("document.querySelector('a.pull-request').href");
    assert_eq!(Some(link.as_str().unwrap().to_owned()), url(&setup));
    let merged = setup.runtime.block_on(setup.repository.merge(1));
    merged.unwrap();
    browser.shows("once Flux has applied it");
    assert_eq!(browser.evaluate("window.isSamePage"), true);
    browser.screenshot("create-merged");
    assert_eq!(setup.file("main", PATH), Some(shown));
    browser.go(&format!("{}/changes", setup.address));
    browser.shows("Add pipeline default/basket");
    assert_eq!(faults(&mut browser), json!([]));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

fn url(setup: &AuthoringSetup) -> Option<String> {
    setup.changes().remove(0).status.unwrap().url
}

#[test]
fn who_may_not_propose_is_told_so() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let setup = AuthoringSetup::new(&[]);
    setup.add_user("vera");
    sign_in(&mut browser, &setup, "vera");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('a[href=\"/create\"]').length"),
        0
    );
    browser.go(&format!("{}/create", setup.address));
    for (field, text) in [
        ("name", "basket"),
        ("namespace", "default"),
        ("app", "basket"),
        ("environment.0.target.0.namespace", "dev"),
        ("environment.1.target.0.namespace", "prod"),
        ("url", "https://git.example.com/apps.git"),
        ("secret", "git"),
    ] {
        browser.fill(&format!("[name=\"{field}\"]"), text);
    }
    browser.press("Propose in git");
    browser.shows("vera may not create changes in namespace default");
    assert!(setup.changes().is_empty());
}
