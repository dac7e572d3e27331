//! Names in paths and parameters: text that no object can be named after never becomes a part of a
//! path of the Kubernetes API.

use api::{Change, change::ChangeSpec};
use apiserver::User;
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::{
    loops::Strategy,
    rest::{get, post},
    session::{csrf, look, signed_in, submit},
    world::{KEY, World, ask, event, sign, whole_call},
};

/// `default/changes/app?`: in an API path, this namespace would lead to a Change.
const DETOUR: &str = "default%2fchanges%2fapp%3f";

/// Stores a Change of the pipeline's name that is newer than the pipeline.
async fn create_change(world: &World) {
    let changes: Api<Change> = Api::namespaced(world.client.clone(), "default");
    let spec = ChangeSpec {
        path: "a.yaml".to_owned(),
        content: "a: 1\n".to_owned(),
        title: "Add a".to_owned(),
        by: None,
    };
    let change = Change::new("app", spec);
    let created = changes.create(&PostParams::default(), &change).await;
    created.unwrap();
}

/// The paths that were asked for, apart from who asks and what they may.
fn paths(world: &World) -> Vec<String> {
    let calls = world.calls().into_iter().map(|(_, path)| path);
    calls.filter(|path| !path.contains("reviews")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hook_about_something_else_leaves_the_known_pipeline_alone() {
    let world = World::new().await;
    world.demand_signatures().await;
    create_change(&world).await;
    world.promotes(Strategy::Opens);
    world.settle().await;
    world.calls();
    for path in [
        format!("/promotion/{DETOUR}/x/dev"),
        "/promotion/default/app%3f/dev".to_owned(),
        "/promotion/default/app%0ax/dev".to_owned(),
        "/promotion/default/%1b%5b31m/dev".to_owned(),
        "/promotion/default/../dev".to_owned(),
        "/promotion/DEFAULT/app/dev".to_owned(),
        format!("/promotion/default/{}/dev", "x".repeat(254)),
        format!("/approval/{DETOUR}/x/prod/5.0.0"),
        format!("/release/{DETOUR}/x"),
    ] {
        let body = event("app-dev", "5.0.0").to_string();
        let answer = world.post_signed(&path, &body, &sign(KEY, &body)).await;
        assert_eq!(answer.code, 404, "{path}: {}", answer.body);
        let whole = ask(&world.hooks, Ok(whole_call(&path, "", 0))).await;
        assert_eq!(whole.code, 404, "{path}: {}", whole.body);
    }
    assert_eq!(paths(&world), Vec::<String>::new());
    let body = event("app-dev", "5.0.0").to_string();
    let path = "/promotion/default/app/dev";
    let answer = world.post_signed(path, &body, &sign(KEY, &body)).await;
    assert_eq!(
        answer.code, 201,
        "signatures are still checked with its key"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_environment_is_named_without_control_characters() {
    let world = World::new().await;
    let body = event("app-dev", "5.0.0").to_string();
    let answer = world
        .post("/promotion/default/app/d%0aev%1b%5b31m", &body)
        .await;
    assert_eq!(answer.code, 422);
    let text = "app default/app has no environment d\u{fffd}ev\u{fffd}[31m defined";
    assert_eq!(answer.body, text);
    let status = world.pipeline().await.status.unwrap_or_default();
    assert!(status.reports.is_empty(), "nothing is stored");
}

#[tokio::test(start_paused = true)]
async fn rest_asks_for_nothing_that_cannot_be_a_name() {
    let world = World::new().await;
    create_change(&world).await;
    let root = User::new("root", &["system:masters"]);
    world.server.add_token("root", root);
    world.settle().await;
    world.calls();
    for path in [
        format!("/api/v1/pipelines/{DETOUR}"),
        format!("/api/v1/pipelines/{DETOUR}/x"),
        "/api/v1/pipelines/default/..%2fchanges%2fapp".to_owned(),
        format!("/api/v1/pipelines/{DETOUR}/x/environments"),
        format!("/api/v1/pipelines/{DETOUR}/x/promotions"),
        format!("/api/v1/pipelines/{DETOUR}/x/triggers"),
        format!("/api/v1/pipelines/{DETOUR}/x/explain"),
        format!("/api/v1/pipelines/{DETOUR}/x/environments/dev/tree"),
        "/api/v1/changes/default%2fpipelines%2fapp%3f".to_owned(),
        "/api/v1/changes/default%2fpipelines%2fapp%3f/x".to_owned(),
        "/api/v1/clusters?namespace=default%2fclusters%3f".to_owned(),
        "/api/v1/triggers?namespace=default%2ftriggers%3f".to_owned(),
    ] {
        let answer = get(&world, "root", &path).await;
        assert_eq!(answer.code, 404, "{path}: {}", answer.body);
    }
    for (path, body) in [
        (format!("/api/v1/pipelines/{DETOUR}/x/suspend"), json!({})),
        (format!("/api/v1/pipelines/{DETOUR}/x/resume"), json!({})),
        (
            format!("/api/v1/pipelines/{DETOUR}/x/environments/dev/approve"),
            json!({"revision": "1.0.0"}),
        ),
        (
            format!("/api/v1/changes/{DETOUR}"),
            json!({"path": "a.yaml", "content": "a: 1\n", "title": "Add a"}),
        ),
    ] {
        let answer = post(&world, "root", &path, body).await;
        assert_eq!(answer.code, 404, "{path}: {}", answer.body);
    }
    assert_eq!(paths(&world), Vec::<String>::new());
    let answer = get(&world, "root", "/api/v1/pipelines/default/app").await;
    assert_eq!(answer.code, 200);
}

#[tokio::test(start_paused = true)]
async fn the_dashboard_asks_for_nothing_that_cannot_be_a_name() {
    let world = World::new().await;
    create_change(&world).await;
    let cookie = signed_in(&world).await;
    let page = look(&world, "/pipelines", &cookie).await;
    let csrf = csrf(&page.body);
    world.calls();
    for path in [
        format!("/pipelines/{DETOUR}/x"),
        format!("/pipelines/{DETOUR}/x/yaml"),
        format!("/pipelines/{DETOUR}/x/objects"),
        "/changes/default%2fpipelines%2fapp%3f/x".to_owned(),
        format!("/live?page=/pipelines/{}/x", DETOUR.replace('%', "%25")),
    ] {
        let answer = look(&world, &path, &cookie).await;
        assert_eq!(answer.code, 404, "{path}: {}", answer.body);
    }
    let path = format!("/pipelines/{DETOUR}/x/act");
    let form = format!("csrf={csrf}&verb=suspend");
    let answer = submit(&world, &path, &cookie, &form).await;
    assert_eq!(answer.code, 404, "{}", answer.body);
    assert_eq!(paths(&world), Vec::<String>::new());
}

/// A pipeline's author writes the name of the Secret, and must not read another object by it.
#[tokio::test(start_paused = true)]
async fn a_secret_is_read_by_its_name_only() {
    let world = World::new().await;
    world.create_key("keys", KEY).await;
    let strategy = json!({"secretRef": {"name": "keys?x"}});
    world
        .edit(json!({"spec": {"promotion": {"strategy": strategy}}}))
        .await;
    world.calls();
    let body = event("app-dev", "5.0.0").to_string();
    let path = "/promotion/default/app/dev";
    let answer = world.post_signed(path, &body, &sign(KEY, &body)).await;
    assert_eq!(answer.code, 401);
    assert_eq!(paths(&world), Vec::<String>::new());
}
