//! The stop button: who may freeze, what is stored, and overrides.

use api::Freeze;
use http::Request;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use server::Settings;

use crate::{
    rest::{get, grant, post},
    session::{csrf, look, signed_in, signed_in_as, submit},
    world::{World, ask, unlimited},
};

const FREEZES: &str = "/api/v1/freezes/default";

async fn stored(world: &World) -> Vec<Freeze> {
    let freezes: Api<Freeze> = Api::namespaced(world.client.clone(), "default");
    freezes.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn who_may_freeze_stops_and_lets_go_on() {
    let world = World::new().await;
    grant(&world, "ann", &["freeze"], "pipelines").await;
    grant(
        &world,
        "eve",
        &["promote", "approve", "suspend"],
        "pipelines",
    )
    .await;
    let name = world.pipeline().await.metadata.name.unwrap();
    let body = json!({"pipeline": name, "environments": ["prod"], "reason": "incident 7"});
    let refused = post(&world, "eve", FREEZES, body.clone()).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(
        refused.body.contains("eve may not freeze pipelines"),
        "{}",
        refused.body
    );
    let created = post(&world, "ann", FREEZES, body.clone()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let all = stored(&world).await;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].spec.environments, ["prod"]);
    let annotations = all[0].metadata.annotations.clone().unwrap();
    assert_eq!(annotations[api::names::AUTHOR_ANNOTATION], "ann");
    assert_eq!(all[0].spec.pipelines, [name]);
    // Nobody ends the freeze of somebody else by the way.
    let mut shorter = body.clone();
    shorter["until"] = json!("2030-01-01T00:00:00Z");
    let refused = post(&world, "ann", FREEZES, shorter).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert!(refused.body.contains("is stricter"), "{}", refused.body);
    // Again: the same Freeze with another reason.
    let mut again = body;
    again["reason"] = json!("incident 8");
    assert_eq!(post(&world, "ann", FREEZES, again).await.code, 201);
    let all = stored(&world).await;
    assert_eq!((all.len(), all[0].spec.reason.as_str()), (1, "incident 8"));
    let location = created.headers["location"].to_str().unwrap().to_owned();
    let delete = |user: &str| {
        let request = Request::delete(&location).header("Authorization", format!("Bearer {user}"));
        request.body(String::new())
    };
    assert_eq!(ask(&world.rest, delete("eve")).await.code, 403);
    assert_eq!(ask(&world.rest, delete("ann")).await.code, 204);
    assert_eq!(ask(&world.rest, delete("ann")).await.code, 404);
    assert_eq!(stored(&world).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_environment_is_refused_and_a_list_needs_its_right() {
    let world = World::new().await;
    grant(&world, "ann", &["freeze"], "pipelines").await;
    grant(&world, "bob", &["list"], "freezes").await;
    let name = world.pipeline().await.metadata.name.unwrap();
    let wrong = json!({"pipeline": name, "environments": ["nowhere"]});
    assert_eq!(post(&world, "ann", FREEZES, wrong).await.code, 404);
    let nobodys = json!({"environments": ["nowhere"], "reason": "a typing mistake"});
    let refused = post(&world, "ann", FREEZES, nobodys).await;
    assert_eq!(refused.code, 404, "{}", refused.body);
    let over = json!({"reason": "too late", "until": "2020-01-01T00:00:00Z"});
    let refused = post(&world, "ann", FREEZES, over).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert_eq!(stored(&world).await.len(), 0);
    let all = json!({"reason": "everything"});
    assert_eq!(post(&world, "ann", FREEZES, all).await.code, 201);
    assert_eq!(get(&world, "ann", FREEZES).await.code, 403);
    let listed = get(&world, "bob", FREEZES).await;
    let listed: Value = serde_json::from_str(&listed.body).unwrap();
    assert_eq!(listed["items"][0]["spec"]["reason"], "everything");
}

#[tokio::test(start_paused = true)]
async fn an_override_needs_its_right_and_a_reason() {
    let world = World::new().await;
    grant(&world, "ann", &["promote", "override"], "pipelines").await;
    grant(&world, "eve", &["promote"], "pipelines").await;
    let name = world.pipeline().await.metadata.name.unwrap();
    let path = format!("/api/v1/pipelines/default/{name}/environments/prod/promote");
    let body = |reason: &str, pass: &str| json!({"revision": "1.2.3", "override": {"reason": reason, "passes": [pass]}});
    let good = body("incident 7", "freeze/weekend");
    let refused = post(&world, "eve", &path, good.clone()).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    let unnamed = post(&world, "ann", &path, body("", "freeze/weekend")).await;
    assert_eq!(unnamed.code, 422, "{}", unnamed.body);
    let unknown = post(&world, "ann", &path, body("why", "approvals")).await;
    assert_eq!(unknown.code, 422, "{}", unknown.body);
    assert_eq!(post(&world, "ann", &path, good).await.code, 202);
    let status = world.pipeline().await.status.unwrap();
    let request = &status.requests["prod"];
    let overriding = request.override_gates.as_ref().unwrap();
    assert_eq!(overriding.reason, "incident 7");
}

#[tokio::test(start_paused = true)]
async fn the_page_creates_a_freeze_for_who_may() {
    let world = World::new().await;
    grant(&world, "eve", &["get", "list"], "pipelines").await;
    let eve = signed_in_as(&world, "eve").await;
    let page = look(&world, "/freezes", &eve).await;
    assert!(!page.body.contains("Create a freeze"), "{}", page.body);
    let cookie = signed_in(&world).await;
    let page = look(&world, "/freezes", &cookie).await;
    assert!(page.body.contains("Create a freeze"), "{}", page.body);
    let csrf = csrf(&page.body);
    let name = world.pipeline().await.metadata.name.unwrap();
    for (pipeline, environment) in [(name.as_str(), "prod"), ("", "")] {
        let form = format!(
            "csrf={csrf}&verb=freeze&namespace=default&pipeline={pipeline}&environment={environment}\
             &reason=incident&until=&back=%2Ffreezes"
        );
        let answer = submit(&world, "/freezes/act", &cookie, &form).await;
        assert_eq!(answer.code, 303, "{}", answer.body);
        assert_eq!(answer.headers["location"], "/freezes");
    }
    let all = stored(&world).await;
    let mut scopes: Vec<_> = all
        .iter()
        .map(|it| (it.spec.pipelines.concat(), it.spec.environments.concat()))
        .collect();
    scopes.sort();
    assert_eq!(
        scopes,
        [(String::new(), String::new()), (name, "prod".to_owned())]
    );
}

/// Without a pipeline, a Freeze covers its namespace; in the freeze namespace all of them.
#[tokio::test(start_paused = true)]
async fn environments_are_those_of_the_pipelines_that_a_freeze_covers() {
    let settings = Settings {
        freeze_namespace: Some("sluice".to_owned()),
        ..unlimited()
    };
    let world = World::with(settings).await;
    let cookie = signed_in(&world).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    for name in ["sluice", "other"] {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        created.unwrap();
    }
    let in_prod = json!({"environments": ["prod"], "reason": "incident"});
    for (namespace, code) in [("sluice", 201), ("other", 404), ("default", 201)] {
        let path = format!("/api/v1/freezes/{namespace}");
        let answer = post(&world, "owner", &path, in_prod.clone()).await;
        assert_eq!(answer.code, code, "{namespace}: {}", answer.body);
    }
    let page = look(&world, "/freezes", &cookie).await.body;
    let told = "A freeze in sluice covers the pipelines of all namespaces.";
    assert!(page.contains(told), "{page}");
}

#[tokio::test(start_paused = true)]
async fn the_sign_in_page_says_which_token_it_needs() {
    let world = World::new().await;
    let page = ask(&world.rest, Request::get("/login").body(String::new())).await;
    for text in ["bearer token", "kubectl create token", "sluice demo"] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
}
