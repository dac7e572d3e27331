//! What people who have signed in with the provider can do, and until when.

use http::{Request, header};
use serde_json::json;
use server::Settings;

use super::{SignInWorld, let_time_pass};
use crate::{
    loops::Strategy,
    session::{csrf, look, submit},
    world::{Answer, World, ask, event, unlimited},
};

#[tokio::test]
async fn signing_out_ends_the_session_of_the_provider_on_all_replicas() {
    let it = SignInWorld::new().await;
    let session = it.session("ann").await;
    let other = it.session("ann").await;
    let replica = it.world.rest_replica();
    let look_there = async |cookie: &str| {
        let request = Request::get("/pipelines").header(header::COOKIE, cookie);
        ask(&replica, request.body(String::new())).await.code
    };
    assert_eq!(look_there(&session).await, 200);
    let page = look(&it.world, "/pipelines", &session).await;
    let form = format!("csrf={}", csrf(&page.body));
    assert_eq!(
        submit(&it.world, "/logout", &session, &form).await.code,
        303
    );
    assert_eq!(look(&it.world, "/pipelines", &session).await.code, 303);
    let_time_pass(6).await;
    assert_eq!(look_there(&session).await, 303);
    assert_eq!(look_there(&other).await, 200);
}

#[tokio::test]
async fn a_session_ends_after_its_time_and_with_its_provider() {
    let it = SignInWorld::new().await;
    let session = it.session("ann").await;
    let there = |settings: Settings| {
        let replica = it.world.rest_replica_with(settings);
        let request = Request::get("/pipelines").header(header::COOKIE, &session);
        let request = request.body(String::new());
        async move { ask(&replica, request).await.code }
    };
    let same = it.world.settings.clone();
    let mut moved = same.clone();
    moved.oidc.as_mut().unwrap().issuer_url = "https://other.example".to_owned();
    assert_eq!(there(same).await, 200);
    assert_eq!(there(moved).await, 303, "another provider");
    assert_eq!(there(unlimited()).await, 303, "no provider");
    let_time_pass(3601).await;
    assert_eq!(look(&it.world, "/pipelines", &session).await.code, 303);
}

#[tokio::test]
async fn a_new_key_ends_all_sessions() {
    let it = SignInWorld::new().await;
    let session = it.session("ann").await;
    let client = it.world.client.clone();
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::default_namespaced(client);
    let parameters = kube::api::DeleteParams::default();
    secrets
        .delete("sluice-sessions", &parameters)
        .await
        .unwrap();
    let_time_pass(6).await;
    assert_eq!(look(&it.world, "/pipelines", &session).await.code, 303);
    let session = it.session("ann").await;
    assert_eq!(look(&it.world, "/pipelines", &session).await.code, 200);
}

#[tokio::test]
async fn failed_sign_ins_are_slowed_down() {
    let settings = Settings {
        rate_limit: 3,
        ..unlimited()
    };
    let it = SignInWorld::with(|_| {}, settings).await;
    let mut codes = Vec::new();
    for _ in 0..5 {
        let answer = look(&it.world, "/login/oidc/callback?code=guess", "").await;
        codes.push(answer.code.as_u16());
    }
    assert_eq!(codes, [403, 403, 403, 429, 429]);
}

#[tokio::test]
async fn members_of_a_group_approve_and_others_do_not() {
    let it = SignInWorld::new().await;
    let world = &it.world;
    it.provider.add(
        "bob",
        json!({"email": "bob@shop.example", "email_verified": true, "groups": ["dev"]}),
    );
    let policy = json!({"count": 1, "from": [{"group": "sre"}]});
    let approvals = json!({"spec": {"promotion": {"approvalPolicy": policy}}});
    world.edit(approvals).await;
    world.promotes(Strategy::Opens);
    let body = event("app-dev", "5.0.0").to_string();
    let reported = world.post("/promotion/default/app/dev", &body).await;
    assert_eq!(reported.code, 204);
    let (ann, bob) = (it.session("ann").await, it.session("bob").await);
    assert_eq!(approve(world, &ann).await.code, 403, "no role yet");
    grant_group(world, "sre").await;
    grant_group(world, "dev").await;
    let refused = approve(world, &bob).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(
        refused.body.contains("do not count from bob@shop.example"),
        "{}",
        refused.body
    );
    let forged = post_with_session(world, &ann, "").await;
    assert_eq!(forged.code, 403, "no CSRF token: {}", forged.body);
    assert!(world.promotions().await[0].spec.approvals.is_empty());
    let answer = approve(world, &ann).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let approval = world.promotions().await[0].spec.approvals[0].clone();
    assert_eq!(approval.by, "ann@shop.example");
    assert_eq!(approval.group.as_deref(), Some("sre"));
}

/// Approves by REST with the session of a browser.
async fn approve(world: &World, session: &str) -> Answer {
    let page = look(world, "/pipelines", session).await;
    post_with_session(world, session, &csrf(&page.body)).await
}

async fn post_with_session(world: &World, session: &str, csrf: &str) -> Answer {
    let path = "/api/v1/pipelines/default/app/environments/prod/approve";
    let request = Request::post(path)
        .header(header::COOKIE, session)
        .header(header::CONTENT_TYPE, "application/json")
        .header("X-CSRF-Token", csrf);
    ask(
        &world.rest,
        request.body(json!({"revision": "5.0.0"}).to_string()),
    )
    .await
}

/// Lets a group approve.
async fn grant_group(world: &World, group: &str) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": group, "namespace": "default"},
        "rules": [{
            "apiGroups": ["pipelines.weave.works"], "resources": ["pipelines"],
            "verbs": ["get", "list", "approve"],
        }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": group, "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": group},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    });
    for object in [role, binding] {
        crate::leaf::put(&world.server, &object).await;
    }
}
