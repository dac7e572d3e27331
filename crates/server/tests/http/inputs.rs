//! `/inputs`: what clusters that ask are answered, and that nothing makes the list empty or the answer old.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Router, body::Body};
use http::{Method, Request};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use server::{AppState, Caches, Metrics, Settings};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::world::{Answer, World, ask, unlimited};

const TOKEN: &str = "the token of the clusters";
const PATH: &str = "/inputs/default/app/prod";

/// Prod publishes inputs, and nothing has landed yet.
async fn world(settings: Settings) -> World {
    let world = World::with(settings).await;
    token(&world, "inputs", TOKEN).await;
    let strategy = json!({"resourceSetInputs": {"secretRef": {"name": "inputs"}}});
    let promotion = json!({"strategy": {"pull-request": null, "resourceSetInputs": strategy["resourceSetInputs"]}});
    world.edit(json!({"spec": {"promotion": promotion}})).await;
    world
}

async fn token(world: &World, name: &str, token: &str) {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let secret = json!({"metadata": {"name": name}, "stringData": {"inputs-token": token}});
    let secret = serde_json::from_value(secret).unwrap();
    let created = secrets.create(&PostParams::default(), &secret).await;
    created.unwrap();
}

/// A promotion of this version into prod has landed.
async fn publish(world: &World, version: &str) {
    let desired = json!({
        "revision": version, "version": version, "digest": null, "since": "2026-01-01T00:00:00Z",
    });
    let status = json!({"environments": {"prod": {"desired": desired}}});
    world.edit_status(status).await;
}

async fn poll(router: &Router, path: &str, token: &str) -> Answer {
    let request = Request::get(path).header("authorization", format!("Bearer {token}"));
    ask(router, request.body(String::new())).await
}

/// The version that a cluster is answered, or the code.
async fn version(router: &Router) -> Result<String, u16> {
    let answer = poll(router, PATH, TOKEN).await;
    if answer.code != 200 {
        return Err(answer.code.as_u16());
    }
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let inputs = body["inputs"].as_array().unwrap();
    assert_eq!(inputs.len(), 1, "{body}");
    Ok(inputs[0]["version"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_what_flux_operator_reads() {
    let world = world(unlimited()).await;
    publish(&world, "6.0.0").await;
    let answer = poll(&world.hooks, &format!("{PATH}?cluster=eu-1"), TOKEN).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/json");
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let input = json!({"id": "app-prod", "version": "6.0.0", "revision": "6.0.0", "digest": ""});
    assert_eq!(body, json!({"inputs": [input]}));
}

#[tokio::test(start_paused = true)]
async fn only_the_token_of_the_environment_is_answered() {
    let world = world(unlimited()).await;
    publish(&world, "6.0.0").await;
    let get = |path: &str| Request::get(path).body(String::new());
    assert_eq!(ask(&world.hooks, get(PATH)).await.code, 401);
    for wrong in ["", "another", "the token of the cluster"] {
        assert_eq!(poll(&world.hooks, PATH, wrong).await.code, 401, "{wrong}");
    }
    let basic = Request::get(PATH).header("authorization", format!("Basic {TOKEN}"));
    assert_eq!(ask(&world.hooks, basic.body(String::new())).await.code, 401);
    for path in [
        "/inputs/default/other/prod",
        "/inputs/default/app/unknown",
        "/inputs/default/app",
        "/inputs/default/app/prod/more",
        "/inputs/..%2f/app/prod",
    ] {
        assert_eq!(poll(&world.hooks, path, TOKEN).await.code, 404, "{path}");
    }
    let posted = Request::post(PATH).header("authorization", format!("Bearer {TOKEN}"));
    let posted = ask(&world.hooks, posted.body(String::new())).await;
    assert_eq!(posted.code, 405);
    // Another environment's token is not this one's.
    token(&world, "others", "the token of dev").await;
    let strategy = json!({"resourceSetInputs": {"secretRef": {"name": "others"}}});
    let dev = json!({"name": "dev", "targets": [{"namespace": "app-dev"}], "promotion": {"strategy": strategy}});
    let prod = json!({"name": "prod", "targets": [{"namespace": "app-prod"}]});
    world
        .edit(json!({"spec": {"environments": [dev, prod]}}))
        .await;
    let answer = poll(&world.hooks, PATH, "the token of dev").await;
    assert_eq!(answer.code, 401);
    let answer = poll(&world.hooks, "/inputs/default/app/dev", "the token of dev").await;
    assert_eq!(answer.code, 503, "it has no value yet");
}

#[tokio::test(start_paused = true)]
async fn an_environment_without_a_value_is_unavailable() {
    let world = world(unlimited()).await;
    let answer = poll(&world.hooks, PATH, TOKEN).await;
    assert_eq!(answer.code, 503);
    assert!(
        answer.body.contains("no promotion into prod"),
        "{}",
        answer.body
    );
}

#[tokio::test(start_paused = true)]
async fn a_suspended_pipeline_is_answered_as_before() {
    let world = world(unlimited()).await;
    publish(&world, "6.0.0").await;
    world.edit(json!({"spec": {"suspend": true}})).await;
    assert_eq!(version(&world.hooks).await, Ok("6.0.0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pipeline_is_not_found() {
    let world = world(unlimited()).await;
    publish(&world, "6.0.0").await;
    let (stalled, replica) = stalled_replica(&world).await;
    stalled.cancel();
    let pipelines: Api<api::Pipeline> = Api::namespaced(world.client.clone(), "default");
    let deleted = pipelines.delete("app", &DeleteParams::default()).await;
    deleted.unwrap();
    assert_eq!(version(&world.hooks).await, Err(404));
    // One that has not heard of it asks.
    assert_eq!(version(&replica).await, Err(404));
}

/// A replica whose watches end when the token is cancelled.
async fn stalled_replica(world: &World) -> (CancellationToken, Router) {
    let stalled = CancellationToken::new();
    let caches = Caches::watched(&world.client, None, &stalled);
    caches.pipelines.synced().await;
    let app_state = AppState::with_caches(
        world.client.clone(),
        caches,
        world.settings.clone(),
        Metrics::default(),
        &CancellationToken::new(),
    );
    (stalled, server::hooks::router(app_state))
}

#[tokio::test(start_paused = true)]
async fn a_replica_whose_watch_is_stalled_never_answers_an_older_revision() {
    let world = world(unlimited()).await;
    publish(&world, "6.0.0").await;
    let (stalled, replica) = stalled_replica(&world).await;
    assert_eq!(version(&replica).await, Ok("6.0.0".to_owned()));
    stalled.cancel();
    for newer in ["6.1.0", "6.2.0", "6.1.0"] {
        publish(&world, newer).await;
        for router in [&world.hooks, &replica] {
            assert_eq!(version(router).await, Ok(newer.to_owned()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_replaced_is_refused_by_a_stalled_replica() {
    let world = world(unlimited()).await;
    publish(&world, "6.0.0").await;
    let (stalled, replica) = stalled_replica(&world).await;
    assert_eq!(version(&replica).await, Ok("6.0.0".to_owned()));
    stalled.cancel();
    token(&world, "newer", "another token").await;
    let inputs = json!({"secretRef": {"name": "newer"}});
    let strategy = json!({"resourceSetInputs": inputs});
    world
        .edit(json!({"spec": {"promotion": {"strategy": strategy}}}))
        .await;
    assert_eq!(version(&replica).await, Err(401));
}

/// The API server's client of a replica, which can be cut off.
fn fragile(world: &World) -> (Arc<AtomicBool>, Client) {
    let is_down = Arc::new(AtomicBool::new(false));
    let router = world.server.router(apiserver::User::in_process());
    let switch = is_down.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (router, is_down) = (router.clone(), switch.load(Ordering::SeqCst));
        async move {
            if is_down {
                return Err(std::io::Error::other("the API server is down"));
            }
            let answered = router.oneshot(request.map(Body::new)).await;
            answered.map_err(std::io::Error::other)
        }
    });
    (is_down, Client::new(service, "default"))
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_down_nothing_is_answered() {
    let world = world(unlimited()).await;
    publish(&world, "6.0.0").await;
    let (is_down, client) = fragile(&world);
    let stop = CancellationToken::new();
    let app_state = AppState::new(client, world.settings.clone(), Metrics::default(), &stop);
    let replica = server::hooks::router(app_state);
    world.settle().await;
    assert_eq!(version(&replica).await, Ok("6.0.0".to_owned()));
    is_down.store(true, Ordering::SeqCst);
    assert_eq!(version(&replica).await, Err(503));
    // The token is not known any more either.
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(version(&replica).await, Err(503));
    is_down.store(false, Ordering::SeqCst);
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(version(&replica).await, Ok("6.0.0".to_owned()));
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn polls_that_arrive_together_share_one_request_for_the_version() {
    let world = world(unlimited()).await;
    publish(&world, "6.0.0").await;
    assert!(version(&world.hooks).await.is_ok());
    world.calls();
    let polls = (0..200).map(|_| version(&world.hooks));
    for answer in futures::future::join_all(polls).await {
        assert_eq!(answer, Ok("6.0.0".to_owned()));
    }
    let calls = world.calls();
    let path = "/apis/pipelines.weave.works/v1alpha1/namespaces/default/pipelines/app";
    let expected = (Method::GET, path.to_owned());
    // Each request answers all polls that arrived before it was sent.
    assert!(calls.len() <= 10, "{calls:?}");
    assert!(calls.iter().all(|call| *call == expected), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn polls_are_limited() {
    let limited = Settings {
        rate_limit: 3,
        ..unlimited()
    };
    let world = world(limited).await;
    publish(&world, "6.0.0").await;
    // Without a valid token by address.
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(poll(&world.hooks, PATH, "wrong").await.code.as_u16());
    }
    assert_eq!(codes, [401, 401, 401, 429, 429]);
    // With one by pipeline, three for each of its two targets.
    let mut codes = Vec::new();
    for _ in 0..8 {
        codes.push(poll(&world.hooks, PATH, TOKEN).await.code.as_u16());
    }
    assert_eq!(codes, [200, 200, 200, 200, 200, 200, 429, 429]);
}

#[tokio::test(start_paused = true)]
async fn people_see_on_the_dashboard_what_clusters_are_answered() {
    let world = world(unlimited()).await;
    let cookie = crate::session::signed_in(&world).await;
    let page = async || {
        let page = crate::session::look(&world, "/pipelines/default/app", &cookie).await;
        assert_eq!(page.code, 200);
        page.body
    };
    assert!(!page().await.contains("Clusters that ask get"));
    let target = json!({"namespace": "app-prod", "ready": true, "revision": "5.0.0"});
    let status = json!({"environments": {"prod": {"targets": [target]}}});
    world.edit_status(status).await;
    publish(&world, "6.0.0").await;
    let shown = page().await;
    let (_, shown) = shown.split_once("Clusters that ask get").unwrap();
    assert!(shown[..200].contains("6.0.0"), "{shown}");
}
