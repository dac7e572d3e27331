//! REST's lists: what runs where, pages, what a caller has already, and the document about it all.

use http::Request;
use serde_json::{Value, json};

use crate::{
    rest::{get, grant},
    world::{World, ask},
};

fn target(cluster: &str, version: &str) -> Value {
    json!({
        "clusterAppRef": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            "clusterRef": {"kind": "GitopsCluster", "name": cluster},
        },
        "namespace": "shop", "ready": true, "revision": version, "version": version,
        "apps": [{
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app", "ready": true,
            "images": [format!("registry.example/app:{version}"), "registry.example/proxy:1"],
        }],
    })
}

async fn world() -> World {
    let world = World::new().await;
    world
        .edit_status(json!({"environments": {
            "dev": {"targets": [target("one", "5.0.0")]},
            "prod": {"targets": [target("one", "4.0.0"), target("two", "5.0.0")]},
        }}))
        .await;
    grant(&world, "vera", &["get", "list"], "pipelines").await;
    world
}

async fn items(world: &World, user: &str, path: &str) -> Vec<Value> {
    let answer = get(world, user, path).await;
    assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    body["items"].as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn versions_and_images_are_found_by_what_is_known_of_them() {
    let world = world().await;
    for (query, count) in [
        ("versions", 3),
        ("versions?version=5.0.0", 2),
        ("versions?version=5.0.0&environment=prod", 1),
        ("versions?cluster=one", 2),
        ("versions?pipeline=other", 0),
        ("images", 6),
        ("images?image=registry.example/app", 3),
        ("images?image=registry.example/app&tag=4.0.0", 1),
        ("images?tag=1&namespace=default", 3),
    ] {
        let found = items(&world, "vera", &format!("/api/v1/{query}")).await;
        assert_eq!(found.len(), count, "{query}");
    }
    let one = items(&world, "vera", "/api/v1/images?tag=4.0.0").await;
    assert_eq!(
        one[0],
        json!({
            "namespace": "default", "pipeline": "app", "environment": "prod", "cluster": "one",
            "clusterNamespace": "default", "targetNamespace": "shop", "kind": "HelmRelease", "app": "app",
            "image": "registry.example/app", "tag": "4.0.0",
        })
    );
    world
        .server
        .add_token("nobody", apiserver::User::new("nobody", &[]));
    assert!(items(&world, "nobody", "/api/v1/versions").await.is_empty());
}

/// A target of a pipeline without `appRef`: its apps are found by label.
fn labelled(cluster: Value, apps: Value) -> Value {
    let cluster = json!({"apiVersion": "", "kind": "", "name": "", "clusterRef": cluster});
    json!({"clusterAppRef": cluster, "namespace": "shop", "ready": true, "apps": apps})
}

/// The version that failed is named beside the last good one, which still runs.
#[tokio::test(start_paused = true)]
async fn a_failed_release_has_its_version_and_message() {
    let world = World::new().await;
    let app = json!([{
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web",
        "ready": false, "revision": "1.0.0", "message": "upgrade failed",
    }]);
    let mut target = labelled(json!({"kind": "GitopsCluster", "name": "one"}), app);
    target["ready"] = json!(false);
    target["revision"] = json!("1.0.0");
    target["failed"] = json!("1.1.0");
    world
        .edit_status(json!({"environments": {"dev": {"targets": [target]}}}))
        .await;
    grant(&world, "vera", &["get", "list"], "pipelines").await;
    let rows = items(&world, "vera", "/api/v1/versions").await;
    let told = ["revision", "failed", "message"].map(|it| rows[0][it].as_str().unwrap());
    assert_eq!(told, ["1.0.0", "1.1.0", "upgrade failed"]);
}

#[tokio::test(start_paused = true)]
async fn each_app_found_by_label_has_its_own_row() {
    let world = World::new().await;
    let app = |api: &str, kind: &str, name: &str, revision: &str| json!({"apiVersion": api, "kind": kind, "name": name, "ready": true, "revision": revision});
    let cluster = json!({"kind": "GitopsCluster", "name": "one"});
    let three = json!([
        app("helm.toolkit.fluxcd.io/v2", "HelmRelease", "web", "5.0.0"),
        app(
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            "jobs",
            "v1.2.0@sha1:abc"
        ),
        app("apps/v1", "Deployment", "cache", "7"),
    ]);
    let mut single = labelled(
        cluster.clone(),
        json!([app(
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            "web",
            "4.0.0"
        )]),
    );
    single["revision"] = json!("4.0.0");
    single["version"] = json!("4.0.0");
    world
        .edit_status(json!({"environments": {
            "dev": {"targets": [labelled(cluster, three)]},
            "prod": {"targets": [single]},
        }}))
        .await;
    grant(&world, "vera", &["get", "list"], "pipelines").await;
    let rows = items(&world, "vera", "/api/v1/versions").await;
    let told: Vec<_> = rows
        .iter()
        .map(|row| ["environment", "kind", "app", "version"].map(|it| row[it].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ["dev", "Deployment", "cache", "7"],
            ["dev", "HelmRelease", "web", "5.0.0"],
            ["dev", "Kustomization", "jobs", "v1.2.0"],
            ["prod", "HelmRelease", "web", "4.0.0"],
        ]
    );
    let found = items(&world, "vera", "/api/v1/versions?version=v1.2.0").await;
    assert_eq!(found[0]["revision"], "v1.2.0@sha1:abc");
}

#[tokio::test(start_paused = true)]
async fn clusters_of_the_same_name_are_told_apart_and_no_row_is_repeated() {
    let world = World::new().await;
    let mut elsewhere = target("one", "5.0.0");
    elsewhere["clusterAppRef"]["clusterRef"]["namespace"] = json!("other");
    // The same cluster by name and by selector is one target listed twice.
    let targets = json!([target("one", "5.0.0"), elsewhere, target("one", "5.0.0")]);
    world
        .edit_status(json!({"environments": {"dev": {"targets": targets}}}))
        .await;
    grant(&world, "vera", &["get", "list"], "pipelines").await;
    let rows = items(&world, "vera", "/api/v1/versions").await;
    let clusters: Vec<_> = rows
        .iter()
        .map(|row| ["cluster", "clusterNamespace"].map(|it| row[it].as_str().unwrap()))
        .collect();
    assert_eq!(clusters, [["one", "default"], ["one", "other"]]);
    for (query, count) in [
        ("versions?cluster=one&clusterNamespace=other", 1),
        ("images", 4),
        ("images?clusterNamespace=default", 2),
    ] {
        let found = items(&world, "vera", &format!("/api/v1/{query}")).await;
        assert_eq!(found.len(), count, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages() {
    let world = world().await;
    let mut seen = Vec::new();
    let mut path = "/api/v1/images?limit=4".to_owned();
    loop {
        let answer = get(&world, "vera", &path).await;
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        seen.push(body["items"].as_array().unwrap().len());
        match body["continue"].as_str() {
            Some(next) => path = format!("/api/v1/images?limit=4&continue={next}"),
            None => break,
        }
    }
    assert_eq!(seen, [4, 2]);
    let wrong = get(&world, "vera", "/api/v1/images?continue=elsewhere").await;
    assert_eq!(wrong.code, 400);
}

#[tokio::test(start_paused = true)]
async fn environments_say_where_they_are() {
    let world = world().await;
    let found = items(&world, "vera", "/api/v1/pipelines/default/app/environments").await;
    let states: Vec<_> = found.iter().map(|it| (&it["name"], &it["state"])).collect();
    assert_eq!(
        json!(states),
        json!([
            ["dev", "ready"],
            ["prod", "ready"],
            ["no-targets", "unknown"]
        ])
    );
    assert_eq!(found[1]["revisions"], json!(["4.0.0", "5.0.0"]));
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_has_is_not_sent_again() {
    let world = world().await;
    let path = "/api/v1/pipelines/default/app";
    let first = get(&world, "vera", path).await;
    let name = first.headers["etag"].to_str().unwrap();
    let again = |name: &str| {
        let request = Request::get(path).header("Authorization", "Bearer vera");
        let request = request.header("If-None-Match", name.to_owned());
        request.body(String::new())
    };
    let same = ask(&world.rest, again(name)).await;
    assert_eq!((same.code.as_u16(), same.body.as_str()), (304, ""));
    assert_eq!(same.headers["etag"], name);
    world.edit(json!({"spec": {"suspend": true}})).await;
    assert_eq!(ask(&world.rest, again(name)).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn the_document_names_what_there_is() {
    let world = World::new().await;
    let answer = ask(
        &world.rest,
        Request::get("/api/openapi.json").body(String::new()),
    )
    .await;
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    for (path, operations) in paths {
        let place = path.replace(['{', '}'], "");
        for method in operations.as_object().unwrap().keys() {
            let request = Request::builder().method(method.to_uppercase().as_str());
            let answer = ask(&world.rest, request.uri(&place).body(String::new())).await;
            let expected = if path.ends_with(".json") { 200 } else { 401 };
            assert_eq!(answer.code, expected, "{method} {path}");
        }
    }
    let text = answer.body.as_str();
    for (at, _) in text.match_indices("#/components/schemas/") {
        let name = text[at + 21..].split('"').next().unwrap();
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
}
