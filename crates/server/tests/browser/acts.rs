//! What people do, from the button to what is stored, and what changes under their eyes.

use serde_json::json;
use testbed::browser::Chromium;

use crate::{
    loops::{Strategy, URL},
    world::{OWNER, World, pipeline, report},
};

/// 5.0.0 waits to enter prod of these pipelines.
pub(crate) fn waiting(names: &[&str]) -> World {
    let world = World::new();
    for name in names {
        world.create(&pipeline(name));
    }
    world.promotes(Strategy::Opens);
    for name in names {
        world.set_status(name, &json!({"reports": {"dev/-/dev": report("5.0.0")}}));
    }
    world
}

#[test]
fn a_release_appears_and_is_approved() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&[]);
    world.create(&pipeline("app"));
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.evaluate("window.isSamePage = true");
    browser.evaluate("document.getElementById('promote-1').open = true");
    browser.fill("#revision-1", "half-typed");
    world.set_status("app", &json!({"reports": {"dev/-/dev": report("5.0.0")}}));
    browser.shows("5.0.0 waits for approval to enter prod");
    let typed = browser.evaluate("document.getElementById('revision-1').value");
    assert_eq!(
        typed, "half-typed",
        "a form is not taken away from who fills it in"
    );
    browser.evaluate("document.getElementById('promote-1').open = false");
    browser.shows("Approve 5.0.0");
    assert_eq!(browser.evaluate("window.isSamePage"), true);
    browser.screenshot("waits-for-approval");
    browser.fill("form.approve [name=note]", "looks <b>good</b>");
    browser.press("Approve 5.0.0");
    browser.shows("5.0.0 is approved for prod.");
    browser.until(&format!(
        "Boolean(document.querySelector('.steps a[href=\"{URL}\"]'))"
    ));
    browser.screenshot("approved");
    browser.shows("approved by olivia: looks <b>good</b>");
    let approval = world.promotions()[0].spec.approvals[0].clone();
    assert_eq!(approval.by, "olivia");
    assert_eq!(approval.note.as_deref(), Some("looks <b>good</b>"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn what_is_not_known_is_not_offered_for_approval() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    world.create(&pipeline("app"));
    world.promotes(Strategy::Unreadable);
    world.set_status("app", &json!({"reports": {"dev/-/dev": report("5.0.0")}}));
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/approvals");
    browser.shows("what it changes is not known: cannot fetch the repository");
    browser.until("Boolean(document.querySelector('form.approve button.danger'))");
    assert_eq!(
        browser.evaluate("document.querySelector('form.approve button.main')"),
        json!(null)
    );
    // Who approves nevertheless reads why that is refused.
    let own = "fetch('/pipelines/shop/app/act', {method: 'POST', body: new URLSearchParams({
        csrf: document.querySelector('[name=csrf]').value, verb: 'approve', environment: 'prod',
        revision: '5.0.0'})}).then((it) => it.text())";
    let refused = browser.evaluate(own).to_string();
    assert!(
        refused.contains("5.0.0 cannot be approved for prod"),
        "{refused}"
    );
    assert_eq!(world.promotions()[0].spec.approvals, []);
}

#[test]
fn the_inbox_fills_and_empties() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["one", "two"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/approvals");
    browser.shows("2 promotions await approval.");
    browser.until("document.title === '(2) Approvals · Sluice'");
    browser.screenshot("approvals");
    browser.press("Approve 5.0.0");
    browser.shows("5.0.0 is approved for prod.");
    browser.shows("1 promotion awaits approval.");
    browser.until("document.title === '(1) Approvals · Sluice'");
    let approved = |world: &World| {
        let all = world.promotions();
        all.iter()
            .filter(|it| !it.spec.approvals.is_empty())
            .count()
    };
    assert_eq!(approved(&world), 1);
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#rows > article').length"),
        1
    );
}

#[test]
fn promote_roll_back_suspend_and_resume() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    for (revision, at) in [
        ("4.0.0", "2026-11-01T10:00:00Z"),
        ("4.5.0", "2026-11-02T10:00:00Z"),
    ] {
        let mut said = report(revision);
        said["at"] = json!(at);
        world.set_status("app", &json!({"reports": {"prod/-/prod": said}}));
        world.until(revision, |world| {
            let status = world.pipeline("app").status.unwrap();
            let prod = status.environments.get("prod");
            prod.is_some_and(|prod| prod.ran_revisions().next() == Some(revision))
        });
    }
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.evaluate("document.getElementById('actions-menu').open = true");
    browser.shows("Roll back…");
    browser.screenshot("actions");
    browser.fill("#earlier-1", "4.0.0");
    browser.press("Roll prod back");
    browser.shows("Requested 4.0.0 for prod");
    let asked = |world: &World| world.pipeline("app").status.unwrap().requests["prod"].clone();
    assert_eq!(json!(asked(&world).kind), "Rollback");
    assert_eq!(asked(&world).by.as_deref(), Some("olivia"));
    browser.fill("#revision-1", "6.0.0");
    browser.press("Promote into prod");
    browser.shows("no target, source or report of this pipeline has 6.0.0");
    browser.fill("#revision-1", "6.0.0");
    browser.evaluate("document.querySelector('#unseen-1').click()");
    browser.press("Promote into prod");
    browser.shows("Requested 6.0.0 for prod");
    assert_eq!(
        (json!(asked(&world).kind), asked(&world).revision.as_str()),
        (json!("Promote"), "6.0.0")
    );
    // Known revisions can be chosen, and of the forms in the menu one is open.
    browser.evaluate("document.getElementById('promote-1').open = true");
    browser.evaluate("document.querySelector('#promote-1 [name=known][value=\"4.0.0\"]').click()");
    browser.evaluate("document.getElementById('suspend-1').open = true");
    browser.until("!document.getElementById('promote-1').open");
    browser.press("Promote into prod");
    browser.shows("Requested 4.0.0 for prod");
    assert_eq!(asked(&world).revision, "4.0.0");
    for (button, told, is_suspended) in [
        ("Suspend the pipeline", "app is suspended.", true),
        ("Resume the pipeline", "app is resumed.", false),
    ] {
        browser.press(button);
        browser.shows(told);
        assert_eq!(world.pipeline("app").spec.suspend, is_suspended);
    }
    browser.press("Suspend dev");
    browser.shows("dev is suspended: no promotion into it starts.");
    assert!(world.pipeline("app").spec.environments[0].suspend);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn buttons_are_for_who_may() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.grant("vera", &["get", "list"]);
    world.grant("paul", &["get", "list", "promote"]);
    world.sign_in(&mut browser, "vera");
    browser.shows("1 pipeline");
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("waits for approval to enter prod");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('main form').length"),
        0
    );
    world.go(&mut browser, "/approvals");
    browser.shows("You may not approve this");
    // Who writes the form themselves gets no further, with their own token or somebody else's.
    let post = |csrf: &str| {
        format!(
            "fetch('/pipelines/shop/app/act', {{method: 'POST', body: new URLSearchParams({{csrf: {csrf}, \
             verb: 'approve', environment: 'prod', revision: '5.0.0'}})}}).then((it) => it.text())"
        )
    };
    let own = post("document.querySelector('[name=csrf]').value");
    let refused = browser.evaluate(&own).to_string();
    assert!(refused.contains("vera may not approve"), "{refused}");
    let foreign = browser.evaluate(&post("'0123'")).to_string();
    assert!(foreign.contains("belongs to another session"), "{foreign}");
    assert!(world.promotions()[0].spec.approvals.is_empty());
    world.go(&mut browser, "/login");
    browser.fill("#token", "paul");
    browser.press("Sign in");
    world.go(&mut browser, "/pipelines/shop/app");
    let verbs = "[...new Set([...document.querySelectorAll('main [name=verb]')].map((it) => it.value))].join()";
    assert_eq!(browser.evaluate(verbs), "promote,cancel");
}

#[test]
fn a_lost_connection_is_said_and_heals() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    world.create(&pipeline("app"));
    world.create(&pipeline("other"));
    world.sign_in(&mut browser, OWNER);
    browser.shows("2 pipelines");
    browser.evaluate(
        "window.isSamePage = true; document.querySelectorAll('tbody tr')[1].isSameRow = true",
    );
    browser.until("performance.getEntriesByType('resource').length > 0");
    let dev = |revision: &str| json!({"environments": {"dev": {"targets": [{"namespace": "dev", "ready": true, "revision": revision}]}}});
    world.set_status("app", &dev("1.0.0"));
    browser.shows("1.0.0");
    world.cut(true);
    browser.shows("Connection lost: this page may be out of date.");
    browser.screenshot("connection-lost");
    world.set_status("app", &dev("2.0.0"));
    world.create(&pipeline("new"));
    world.cut(false);
    browser.shows("2.0.0");
    browser.shows("3 pipelines");
    browser.until("document.getElementById('live').textContent === ''");
    let names = "[...document.querySelectorAll('tbody th a')].map((it) => it.textContent).join()";
    assert_eq!(browser.evaluate(names), "app,new,other");
    assert_eq!(browser.evaluate("window.isSamePage"), true);
}

#[test]
fn buttons_are_off_while_the_connection_is_lost() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("Approve 5.0.0");
    let enabled =
        "[...document.querySelectorAll('main form button')].filter((it) => !it.disabled).length";
    browser.until(&format!("{enabled} > 3"));
    world.cut(true);
    browser.until(&format!("{enabled} === 0"));
    world.cut(false);
    browser.until(&format!("{enabled} > 3"));
}

#[test]
fn the_release_on_its_way_moves_with_the_updates() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("Approve 5.0.0");
    let place = "Math.round(document.querySelector('[data-move]').getBoundingClientRect().x)";
    browser.until("document.querySelector('.gate.waits .label').textContent === 'approval'");
    browser.evaluate(&format!(
        "window.before = {place}; window.moves = []; const animate = Element.prototype.animate;
         Element.prototype.animate = function (frames, ...rest) {{ window.moves.push(frames[0]); return animate.call(this, frames, ...rest); }}"
    ));
    let approve = "fetch('/pipelines/shop/app/act', {method: 'POST', body: new URLSearchParams({
        csrf: document.querySelector('[name=csrf]').value, verb: 'approve', environment: 'prod', revision: '5.0.0'})})
        .then((it) => it.ok)";
    assert_eq!(browser.evaluate(approve), true);
    browser.until(&format!("{place} > window.before"));
    browser.until("window.moves.some((it) => 'translate' in it)");
    browser.until("!document.querySelector('.gate.waits')");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn one_of_two_approvals_does_not_let_it_in() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = World::new();
    let mut app = pipeline("app");
    app["spec"]["promotion"]["approvalPolicy"] = json!({"count": 2});
    world.create(&app);
    world.promotes(Strategy::Opens);
    world.set_status("app", &json!({"reports": {"dev/-/dev": report("5.0.0")}}));
    world.grant("bob", &["get", "list", "approve"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.press("Approve 5.0.0");
    browser.shows("Your approval of 5.0.0 for prod is recorded; one more approval is needed.");
    browser.shows("✓ You approved; one more approval is needed.");
    let button = "document.querySelector('form.approve button.main')";
    assert_eq!(browser.evaluate(button), json!(null));
    // What nobody asked for is not said to have passed.
    browser.evaluate("document.getElementById('gates-1').open = true");
    let signature = "[...document.querySelectorAll('#gates-1 .gate')].map((it) => it.innerText)
        .some((it) => it.includes('signature of the source') && it.includes('not required'))";
    browser.until(signature);
    world.go(&mut browser, "/login");
    browser.fill("#token", "bob");
    browser.press("Sign in");
    world.go(&mut browser, "/approvals");
    browser.press("Approve 5.0.0");
    browser.shows("5.0.0 is approved for prod.");
    assert_eq!(world.promotions()[0].spec.approvals.len(), 2);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_promotion_is_rejected_with_a_note() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/approvals");
    browser.shows("Approve 5.0.0");
    browser.fill("form.approve [name=note]", "not on a Friday");
    browser.press("Reject");
    browser.shows("5.0.0 is rejected");
    let rejection = world.promotions()[0].spec.rejection.clone().unwrap();
    assert_eq!(rejection.by, "olivia");
    assert_eq!(rejection.note.as_deref(), Some("not on a Friday"));
    browser.shows("Nothing awaits approval.");
    browser.until("document.title === 'Approvals · Sluice'");
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("rejected by olivia: not on a Friday");
    browser.shows("olivia rejected 5.0.0 in prod: not on a Friday.");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_pipeline_is_frozen_and_goes_on() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting(&["app"]);
    world.grant("vera", &["get", "list"]);
    world.sign_in(&mut browser, OWNER);
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("Approve 5.0.0");
    browser.evaluate("document.getElementById('actions-menu').open = true");
    browser.fill("#freeze-environment", "prod");
    browser.fill("#freeze-reason", "no <b>releases</b> today");
    browser.fill("#freeze-until", "2036-12-24T18:00");
    browser.press("Stop promotions");
    browser.shows("Promotions of app into prod are stopped by the freeze");
    world.go(&mut browser, "/freezes");
    browser.shows("no <b>releases</b> today");
    browser.shows("active");
    browser.shows("by olivia, just now");
    browser.screenshot("freezes");
    let name = browser.evaluate("document.querySelector('tbody th').firstChild.textContent");
    let name = name.as_str().unwrap().to_owned();
    browser.press(&format!("End the freeze {name}"));
    browser.shows(&format!("The freeze {name} has ended."));
    browser.shows("No freezes");
    // The page itself creates one, and stays.
    browser.evaluate("document.getElementById('create-freeze').open = true");
    browser.screenshot("freezes-create");
    browser.fill("#freeze-pipeline", "app");
    browser.fill("#freeze-reason", "incident 7");
    browser.press("Stop promotions");
    browser.shows("Promotions of app are stopped by the freeze");
    browser.shows("incident 7");
    // Who may not freeze is offered nothing, and gets no further with a form of their own.
    world.go(&mut browser, "/login");
    browser.fill("#token", "vera");
    browser.press("Sign in");
    world.go(&mut browser, "/freezes");
    browser.shows("You may not list freezes");
    let own = "fetch('/freezes/act', {method: 'POST', body: new URLSearchParams({
        csrf: document.querySelector('[name=csrf]').value, verb: 'freeze', namespace: 'shop', pipeline: 'app'})})
        .then((it) => it.text())";
    let refused = browser.evaluate(own).to_string();
    assert!(refused.contains("vera may not freeze"), "{refused}");
    assert_eq!(browser.complaints, Vec::<String>::new());
}
