//! Decisions that become outdated while somebody looks at them, and notes that are being typed.

use serde_json::json;
use testbed::browser::Chromium;

use crate::{
    acts::waiting,
    world::{OWNER, World, report},
};

const NOTE: &str = "document.querySelector('form.approve [name=note]')";
const APPROVE: &str = "document.querySelector('form.approve button.main')";

/// dev runs a newer revision.
fn release(world: &World, revision: &str) {
    let mut said = report(revision);
    said["at"] = json!("2026-11-01T11:00:00Z");
    world.set_status("app", &json!({"reports": {"dev/-/dev": said}}));
}

#[test]
fn an_outdated_decision_keeps_the_note_and_cannot_be_approved() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("Approve 5.0.0");
    browser.evaluate(&format!("{NOTE}.focus(); {NOTE}.value = 'looks good'"));
    release(&world, "6.0.0");
    browser.shows("This decision is out of date. Current: “Decision: let 6.0.0 into prod?”");
    browser.screenshot("decision-outdated");
    assert_eq!(browser.evaluate(&format!("{NOTE}.value")), "looks good");
    assert_eq!(browser.evaluate(&format!("{APPROVE}.disabled")), true);
    // The note is not lost either when the focus goes elsewhere.
    browser.evaluate(&format!("{NOTE}.blur()"));
    browser.shows("Approve 5.0.0");
    assert_eq!(browser.evaluate(&format!("{NOTE}.value")), "looks good");
    browser.evaluate("document.querySelector('.outdated button').click()");
    browser.shows("Approve 6.0.0");
    browser.until(&format!("{NOTE}.value === 'looks good'"));
    browser.press("Approve 6.0.0");
    browser.shows("6.0.0 is approved for prod.");
    let all = world.promotions();
    let approved: Vec<_> = all
        .iter()
        .filter(|it| !it.spec.approvals.is_empty())
        .collect();
    assert_eq!(approved.len(), 1);
    assert_eq!(approved[0].spec.revision, "6.0.0");
    let note = approved[0].spec.approvals[0].note.as_deref();
    assert_eq!(note, Some("looks good"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn the_palette_leads_to_the_decision() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    // From another page, and on the page itself.
    for page in ["/clusters", "/pipelines/shop/app"] {
        world.go(&mut browser, page);
        browser.until("document.readyState === 'complete' && typeof openPalette === 'function'");
        browser.evaluate("document.getElementById('find').click()");
        browser.evaluate(
            "(() => { const field = document.querySelector('.palette input'); field.value = 'approve prod';
             field.dispatchEvent(new Event('input')) })()",
        );
        browser.until("document.querySelector('.palette a')?.textContent.startsWith('Approve')");
        browser.evaluate("document.querySelector('.palette a').click()");
        browser.until("location.pathname === '/pipelines/shop/app'");
        browser.until("document.activeElement.matches('.decision')");
        assert_eq!(
            browser.evaluate("Boolean(document.querySelector('dialog[open]'))"),
            false
        );
    }
}

#[test]
fn a_note_survives_an_update_of_the_same_decision() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/approvals");
    browser.shows("Approve 5.0.0");
    browser.evaluate(&format!(
        "{NOTE}.value = 'looks good'; {NOTE}.isSame = true"
    ));
    let card = "document.querySelector('#rows > article')";
    let id = browser.evaluate(&format!("{card}.id"));
    // As when the forecast of the card differs.
    browser.evaluate(&format!(
        "applyChange({{set: {{[{id}]: {card}.outerHTML}}}}); true"
    ));
    assert_eq!(browser.evaluate(&format!("{NOTE}.isSame ?? false")), false);
    assert_eq!(browser.evaluate(&format!("{NOTE}.value")), "looks good");
    // A button that is being pressed is not replaced.
    browser.evaluate(&format!(
        "{APPROVE}.dispatchEvent(new PointerEvent('pointerdown', {{bubbles: true}})); {APPROVE}.isSame = true;
         applyChange({{set: {{[{id}]: {card}.outerHTML}}}}); true"
    ));
    assert_eq!(browser.evaluate(&format!("{APPROVE}.isSame")), true);
    browser.evaluate(&format!(
        "{APPROVE}.dispatchEvent(new PointerEvent('pointerup', {{bubbles: true}})); true"
    ));
    browser.until(&format!("!{APPROVE}.isSame"));
    browser.press("Approve 5.0.0");
    browser.shows("5.0.0 is approved for prod.");
    let approval = world.promotions()[0].spec.approvals[0].clone();
    assert_eq!(approval.note.as_deref(), Some("looks good"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn the_inbox_keeps_a_card_whose_note_is_being_typed() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/approvals");
    browser.shows("Approve 5.0.0");
    browser.evaluate(&format!("{NOTE}.focus(); {NOTE}.value = 'looks good'"));
    let approve = "fetch('/pipelines/shop/app/act', {method: 'POST', body: new URLSearchParams({
        csrf: document.querySelector('[name=csrf]').value, verb: 'approve', environment: 'prod', revision: '5.0.0'})})
        .then((it) => it.ok)";
    assert_eq!(browser.evaluate(approve), true);
    browser.shows("the promotion does not await approval any more");
    browser.shows("Nothing awaits approval.");
    assert_eq!(browser.evaluate(&format!("{NOTE}.value")), "looks good");
    assert_eq!(browser.evaluate(&format!("{APPROVE}.disabled")), true);
    browser.evaluate("document.querySelector('.outdated button').click()");
    browser.until("document.querySelectorAll('#rows > article').length === 0");
    assert_eq!(browser.complaints, Vec::<String>::new());
}
