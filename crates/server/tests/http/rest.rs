//! REST: who may do what, by the roles that are stored, and what is kept of it.

use apiserver::User;
use http::{Request, StatusCode};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::{
    loops::Strategy,
    world::{Answer, World, ask, event, unlimited},
};

const APP: &str = "/api/v1/pipelines/default/app";

/// Gives a user of that name, whose token is their name, these verbs on a resource.
pub(crate) async fn grant(world: &World, user: &str, verbs: &[&str], resource: &str) {
    world.server.add_token(user, User::new(user, &[]));
    let roles: Api<Role> = Api::namespaced(world.client.clone(), "default");
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), "default");
    let name = format!("{user}-{}", resource.replace('/', "-"));
    let role = json!({
        "metadata": {"name": name},
        "rules": [{
            "apiGroups": ["pipelines.weave.works"], "resources": [resource], "verbs": verbs,
        }],
    });
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let parameters = PostParams::default();
    let role = serde_json::from_value(role).unwrap();
    roles.create(&parameters, &role).await.unwrap();
    let binding = serde_json::from_value(binding).unwrap();
    bindings.create(&parameters, &binding).await.unwrap();
}

pub(crate) async fn post(world: &World, user: &str, path: &str, body: Value) -> Answer {
    let request = Request::post(path)
        .header("Authorization", format!("Bearer {user}"))
        .header("Content-Type", "application/json");
    ask(&world.rest, request.body(body.to_string())).await
}

pub(crate) async fn get(world: &World, user: &str, path: &str) -> Answer {
    let request = Request::get(path).header("Authorization", format!("Bearer {user}"));
    ask(&world.rest, request.body(String::new())).await
}

/// The detail of a problem, which must be one of RFC 9457.
fn detail(answer: &Answer) -> String {
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    let problem: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(problem["status"], answer.code.as_u16());
    assert_eq!(
        problem["requestId"],
        answer.headers["x-request-id"].to_str().unwrap()
    );
    problem["detail"].as_str().unwrap().to_owned()
}

/// 5.0.0 waits to enter prod.
async fn waiting() -> World {
    let world = World::new().await;
    world
        .edit(json!({"spec": {"promotion": {"manual": true}}}))
        .await;
    world.promotes(Strategy::Opens);
    let body = event("app-dev", "5.0.0").to_string();
    assert_eq!(
        world.post("/promotion/default/app/dev", &body).await.code,
        204
    );
    world
}

#[tokio::test(start_paused = true)]
async fn without_a_known_token_nothing_is_answered() {
    let world = World::new().await;
    for request in [
        Request::get(APP),
        Request::get(APP).header("Authorization", "Bearer unknown"),
        Request::get(APP).header("Authorization", "Basic YTpi"),
        Request::get(APP).header("Authorization", "Bearer "),
    ] {
        let answer = ask(&world.rest, request.body(String::new())).await;
        assert_eq!(answer.code, 401);
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert!(detail(&answer).contains("Authorization: Bearer"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_keeps_who_when_and_why() {
    let world = waiting().await;
    grant(&world, "alice", &["approve"], "pipelines/prod").await;
    grant(&world, "bob", &["promote", "suspend", "get"], "pipelines").await;
    let path = format!("{APP}/environments/prod/approve");
    let words = json!({"revision": "5.0.0", "note": "looks good"});
    let refused = post(&world, "bob", &path, words.clone()).await;
    assert_eq!(refused.code, 403);
    assert!(detail(&refused).contains("bob may not approve pipelines or pipelines/prod"));
    let elsewhere = format!("{APP}/environments/dev/approve");
    assert_eq!(
        post(&world, "alice", &elsewhere, words.clone()).await.code,
        403
    );
    let other = post(&world, "alice", &path, json!({"revision": "4.0.0"})).await;
    assert_eq!(other.code, 409);
    assert!(detail(&other).contains("but 5.0.0 is"));
    assert_eq!(post(&world, "alice", &path, json!({})).await.code, 422);

    let answer = post(&world, "alice", &path, words.clone()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let approval = world.promotions().await[0].spec.approvals[0].clone();
    assert_eq!(
        (approval.by.as_str(), approval.note.as_deref()),
        ("alice", Some("looks good"))
    );
    assert!(approval.at.is_some());
    world.settle().await;
    assert_eq!(
        post(&world, "alice", &path, words).await.code,
        409,
        "it waits no more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_is_kept_and_taken_up() {
    let world = World::new().await;
    grant(&world, "bob", &["promote"], "pipelines").await;
    world.promotes(Strategy::Opens);
    world.settle().await;
    for (verb, kind, revision) in [
        ("promote", "Promote", "5.0.0"),
        ("rollback", "Rollback", "4.0.0"),
    ] {
        let path = format!("{APP}/environments/prod/{verb}");
        let words = json!({"revision": revision, "note": "please", "unseen": true});
        let answer = post(&world, "bob", &path, words).await;
        assert_eq!(answer.code, 202, "{}", answer.body);
        let told: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(told["message"], format!("bringing {revision}"));
        let request = json!(world.pipeline().await.status.unwrap().requests["prod"]);
        assert_eq!(request["id"], told["id"]);
        assert_eq!(request["by"], "bob");
        assert_eq!(request["kind"], kind);
        assert_eq!(request["note"], "please");
        assert!(request["at"].is_string());
    }
    let promotions = world.promotions().await;
    let brought = promotions.iter().filter(|it| it.spec.request.is_some());
    assert_eq!(brought.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_was_never_seen_is_refused() {
    let world = World::new().await;
    grant(&world, "bob", &["promote"], "pipelines").await;
    world.promotes(Strategy::Opens);
    world.settle().await;
    for verb in ["promote", "rollback"] {
        let path = format!("{APP}/environments/prod/{verb}");
        let answer = post(&world, "bob", &path, json!({"revision": "9.9.9"})).await;
        assert_eq!(answer.code, 422, "{}", answer.body);
        let detail = detail(&answer);
        assert!(
            detail.contains("refused: no target, source or report"),
            "{detail}"
        );
    }
    assert_eq!(world.promotions().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_release_is_told_with_its_message() {
    let world = World::new().await;
    grant(&world, "bob", &["get"], "pipelines").await;
    let app = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
        "ready": false, "message": "timed out",
    });
    let target = json!({
        "namespace": "prod", "ready": false, "revision": "1.0.0", "failed": "2.0.0", "apps": [app],
    });
    world
        .edit_status(json!({"environments": {"prod": {"targets": [target]}}}))
        .await;
    let shown = get(&world, "bob", &format!("{APP}/environments")).await;
    let shown: Value = serde_json::from_str(&shown.body).unwrap();
    let all = shown["items"].as_array().unwrap();
    let prod = all.iter().find(|it| it["name"] == "prod").unwrap();
    assert_eq!(prod["state"], "failed");
    let failed = json!([{"revision": "2.0.0", "target": "prod", "message": "timed out"}]);
    assert_eq!(prod["failed"], failed);
}

#[tokio::test(start_paused = true)]
async fn who_may_approve_does_so_by_asking() {
    for (verbs, is_approved) in [(&["promote"][..], false), (&["promote", "approve"], true)] {
        let world = World::new().await;
        world
            .edit(json!({"spec": {"promotion": {"manual": true}}}))
            .await;
        grant(&world, "bob", verbs, "pipelines").await;
        world.promotes(Strategy::Opens);
        world.settle().await;
        let path = format!("{APP}/environments/prod/promote");
        let words = json!({"revision": "5.0.0", "unseen": true});
        let answer = post(&world, "bob", &path, words).await;
        assert_eq!(answer.code, 202);
        let approval = world.promotions().await[0].spec.approvals.first().cloned();
        assert_eq!(
            approval.map(|it| it.by).as_deref(),
            is_approved.then_some("bob")
        );
    }
}

/// RFC-0001, story 10: who may pause and resume is controlled.
#[tokio::test(start_paused = true)]
async fn story_10_only_who_may_pauses_and_resumes() {
    let world = World::new().await;
    grant(&world, "alice", &["suspend"], "pipelines").await;
    grant(&world, "carol", &["suspend"], "pipelines/prod").await;
    grant(
        &world,
        "bob",
        &["promote", "approve", "get", "list"],
        "pipelines",
    )
    .await;
    let state = async || {
        let spec = world.pipeline().await.spec;
        let environments = spec.environments.iter();
        (
            spec.suspend,
            environments.map(|it| it.suspend).collect::<Vec<_>>(),
        )
    };
    let act = async |user: &str, path: &str| {
        let request = Request::post(path).header("Authorization", format!("Bearer {user}"));
        ask(&world.rest, request.body(String::new())).await.code
    };
    let (whole, prod, dev) = (
        APP.to_owned(),
        format!("{APP}/environments/prod"),
        format!("{APP}/environments/dev"),
    );
    for (user, path) in [
        ("bob", &whole),
        ("bob", &prod),
        ("carol", &whole),
        ("carol", &dev),
    ] {
        for verb in ["suspend", "resume"] {
            let code = act(user, &format!("{path}/{verb}")).await;
            assert_eq!(code, StatusCode::FORBIDDEN, "{user} {path} {verb}");
        }
    }
    assert_eq!(state().await, (false, vec![false, false, false]));
    assert_eq!(act("alice", &format!("{whole}/suspend")).await, 200);
    assert_eq!(act("carol", &format!("{prod}/suspend")).await, 200);
    assert_eq!(state().await, (true, vec![false, true, false]));
    assert_eq!(act("alice", &format!("{whole}/resume")).await, 200);
    assert_eq!(act("carol", &format!("{prod}/resume")).await, 200);
    assert_eq!(state().await, (false, vec![false, false, false]));
    let fields = world.pipeline().await.metadata.managed_fields.unwrap();
    let managers: Vec<_> = fields
        .iter()
        .filter_map(|it| it.manager.as_deref())
        .collect();
    assert!(managers.contains(&"sluice"), "{managers:?}");
    assert_eq!(
        act("alice", "/api/v1/pipelines/default/other/suspend").await,
        404
    );
    assert_eq!(
        act("alice", &format!("{APP}/environments/x/suspend")).await,
        404
    );
    assert_eq!(
        act("alice", &format!("{APP}/environments/dev/destroy")).await,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn a_right_that_was_taken_away_is_gone_at_once() {
    let world = World::new().await;
    grant(&world, "alice", &["suspend"], "pipelines").await;
    let path = format!("{APP}/suspend");
    assert_eq!(post(&world, "alice", &path, json!({})).await.code, 200);
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), "default");
    bindings
        .delete("alice-pipelines", &Default::default())
        .await
        .unwrap();
    assert_eq!(post(&world, "alice", &path, json!({})).await.code, 403);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_asked_about_once_a_minute() {
    let world = World::new().await;
    grant(&world, "bob", &["get"], "pipelines").await;
    let reviews = || {
        let calls = world.calls();
        calls
            .iter()
            .filter(|(_, path)| path.ends_with("/tokenreviews"))
            .count()
    };
    reviews();
    for user in ["bob", "bob", "nobody", "nobody"] {
        get(&world, user, APP).await;
    }
    assert_eq!(reviews(), 2);
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    get(&world, "bob", APP).await;
    assert_eq!(reviews(), 1);
}

/// Neither unsigned hooks nor wrong tokens from the same address, such as an ingress, get in the way.
#[tokio::test(start_paused = true)]
async fn a_good_token_is_not_locked_out_by_others() {
    let settings = server::Settings {
        rate_limit: 3,
        ..unlimited()
    };
    let world = World::with(settings).await;
    grant(&world, "bob", &["get"], "pipelines").await;
    for _ in 0..5 {
        world.post("/promotion/default/none/dev", "{}").await;
    }
    assert_eq!(get(&world, "bob", APP).await.code.as_u16(), 200);
    for _ in 0..5 {
        get(&world, "wrong", APP).await;
    }
    assert_eq!(get(&world, "wrong", APP).await.code.as_u16(), 429);
    assert_eq!(get(&world, "bob", APP).await.code.as_u16(), 200);
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_are_limited() {
    let settings = server::Settings {
        rate_limit: 3,
        ..unlimited()
    };
    let world = World::with(settings).await;
    for code in [401, 401, 401, 429, 429] {
        let answer = get(&world, "wrong", APP).await;
        assert_eq!(answer.code.as_u16(), code);
    }
    let answer = get(&world, "wrong", APP).await;
    assert!(
        answer.headers["retry-after"]
            .to_str()
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_is_what_is_stored_and_planned() {
    let world = waiting().await;
    grant(&world, "bob", &["get", "list"], "pipelines").await;
    grant(&world, "carol", &["promote"], "pipelines").await;
    world.settle().await;
    let shown: Value = serde_json::from_str(&get(&world, "bob", APP).await.body).unwrap();
    assert_eq!(shown["metadata"]["name"], "app");
    assert_eq!(
        shown["status"]["environments"]["prod"]["waitingApproval"]["revision"],
        "5.0.0"
    );
    assert!(shown["metadata"]["managedFields"].is_null());
    let list = get(&world, "bob", "/api/v1/pipelines/default").await;
    let list: Value = serde_json::from_str(&list.body).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let promotions = get(&world, "bob", &format!("{APP}/promotions")).await;
    let promotions: Value = serde_json::from_str(&promotions.body).unwrap();
    assert_eq!(promotions["items"][0]["spec"]["revision"], "5.0.0");
    let diff = get(&world, "bob", &format!("{APP}/environments/prod/diff")).await;
    let diff: Value = serde_json::from_str(&diff.body).unwrap();
    assert_eq!(diff["items"][0]["to"], "5.0.0", "{diff}");
    let unknown = get(&world, "bob", &format!("{APP}/environments/moon/diff")).await;
    assert_eq!(unknown.code, 404);
    let explained = get(&world, "bob", &format!("{APP}/explain")).await;
    assert!(
        explained
            .body
            .contains("5.0.0 waits for approval to enter prod"),
        "{}",
        explained.body
    );
    let gates = get(&world, "bob", &format!("{APP}/gates")).await;
    let gates: Value = serde_json::from_str(&gates.body).unwrap();
    let mut items = gates["items"].as_array().unwrap().iter();
    let of_prod = items.find(|it| it["environment"] == "prod").unwrap();
    assert_eq!(of_prod["revision"], "5.0.0");
    let asked: Vec<_> = of_prod["gates"].as_array().unwrap().iter().collect();
    let names = asked.iter().map(|it| it["gate"].as_str().unwrap());
    assert!(names.eq(planner::gate_names()), "{of_prod}");
    let last = asked.last().unwrap();
    assert_eq!(
        (&last["verdict"], &last["reason"]),
        (&json!("wait"), &json!("AwaitingApproval"))
    );
    let forecast = get(&world, "bob", &format!("{APP}/forecast")).await;
    let forecast: Value = serde_json::from_str(&forecast.body).unwrap();
    let mut items = forecast["items"].as_array().unwrap().iter();
    let of_prod = items.find(|it| it["environment"] == "prod").unwrap();
    let needs = &of_prod["needs"];
    assert_eq!(needs[0]["reason"], "AwaitingApproval", "{forecast}");
    let wrong = get(&world, "bob", &format!("{APP}/forecast?at=tomorrow")).await;
    assert_eq!(wrong.code, 400);
    assert!(detail(&wrong).contains("2027-01-04T08:00:00Z"));
    // All namespaces are more than one.
    assert_eq!(get(&world, "bob", "/api/v1/pipelines").await.code, 403);
    for path in [
        APP.to_owned(),
        format!("{APP}/promotions"),
        format!("{APP}/explain"),
        format!("{APP}/gates"),
        format!("{APP}/forecast"),
        format!("{APP}/environments/prod/diff"),
    ] {
        assert_eq!(get(&world, "carol", &path).await.code, 403, "{path}");
    }
    assert_eq!(
        get(&world, "bob", &format!("{APP}/secrets")).await.code,
        404
    );
    let wrong = post(&world, "bob", APP, json!({})).await;
    assert_eq!(wrong.code, 405);
}

#[tokio::test(start_paused = true)]
async fn bodies_are_bounded_and_request_ids_are_kept() {
    let world = World::new().await;
    grant(&world, "bob", &["promote"], "pipelines").await;
    let path = format!("{APP}/environments/prod/promote");
    let long = json!({"revision": "1", "note": "x".repeat(100_000)});
    assert_eq!(post(&world, "bob", &path, long).await.code, 413);
    let long = json!({"revision": "1", "note": "x".repeat(2000)});
    assert_eq!(post(&world, "bob", &path, long).await.code, 422);
    let typo = post(&world, "bob", &path, json!({"revison": "1"})).await;
    assert_eq!(typo.code, 422);
    assert!(detail(&typo).contains("revison"));
    for (brought, is_kept) in [("build-17", true), ("a b", false), (&"x".repeat(65), false)] {
        let request = Request::get(APP).header("X-Request-Id", brought);
        let answer = ask(&world.rest, request.body(String::new())).await;
        assert_eq!(answer.headers["x-request-id"] == brought, is_kept);
        detail(&answer);
    }
}
