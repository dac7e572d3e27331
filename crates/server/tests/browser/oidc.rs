//! Sign-in with an OpenID provider, in a browser that crosses from one site to the other and back.

use serde_json::json;
use testbed::browser::Chromium;

use crate::{
    leaf::put,
    loops::Strategy,
    world::{World, pipeline, report},
};

/// 5.0.0 waits to enter prod, and somebody in the group sre has to approve it; ann is in it.
fn waiting() -> World {
    let world = World::with_provider();
    world.provider().add(
        "ann",
        json!({"email": "ann@shop.example", "email_verified": true, "groups": ["sre"]}),
    );
    let mut app = pipeline("app");
    app["spec"]["promotion"]["approvalPolicy"] = json!({"count": 1, "from": [{"group": "sre"}]});
    world.create(&app);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "sre", "namespace": "shop"},
        "rules": [{
            "apiGroups": ["pipelines.weave.works"], "resources": ["pipelines"],
            "verbs": ["get", "list", "approve"],
        }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "sre", "namespace": "shop"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sre"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "sre"}],
    });
    for object in [role, binding] {
        world.runtime.block_on(put(&world.server, &object));
    }
    world.promotes(Strategy::Opens);
    world.set_status("app", &json!({"reports": {"dev/-/dev": report("5.0.0")}}));
    world
}

#[test]
fn a_member_of_a_group_signs_in_approves_and_signs_out() {
    let Some(mut browser) = Chromium::start() else {
        return;
    };
    let world = waiting();
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("Sign in with single sign-on");
    browser.screenshot("single-sign-on");
    browser.follow("document.querySelector('a.button.main')");
    browser.until("document.title === 'Provider' && document.readyState === 'complete'");
    browser.fill("#login", "ann");
    browser.press("Log in");
    browser.until("location.pathname === '/pipelines/shop/app'");
    browser.shows("ann@shop.example");
    browser.press("Approve 5.0.0");
    browser.shows("5.0.0 is approved for prod.");
    let approval = world.promotions()[0].spec.approvals[0].clone();
    assert_eq!(approval.by, "ann@shop.example");
    assert_eq!(approval.group.as_deref(), Some("sre"));
    let stolen = browser.evaluate("document.cookie");
    assert_eq!(stolen, "", "scripts cannot read the session");
    browser.press("Sign out");
    browser.until("location.pathname === '/login'");
    world.go(&mut browser, "/pipelines/shop/app");
    browser.shows("Sign in with single sign-on");
    assert_eq!(browser.complaints, Vec::<String>::new());
}
