//! The user stories of RFC-0001 about observing apps.

use serde_json::json;

use crate::world::{
    World, app_definition, create, deploy, namespace, release, released, set_status, spec,
};

/// Story 1: a series of namespaces on different clusters through which an application goes.
#[tokio::test(start_paused = true)]
async fn story_1_a_pipeline_over_namespaces_on_clusters() {
    let mut world = World::new().await;
    for (cluster, version) in [("dev", "6.1.6"), ("prod", "6.1.5")] {
        let leaf = world.leaf(cluster).await.client();
        namespace(&leaf, "podinfo").await;
        deploy(&leaf, &release("podinfo", "app", version)).await;
    }
    world
        .pipeline("podinfo", spec("dev=dev/podinfo > prod=prod/podinfo"))
        .await;
    world
        .expect("podinfo", "dev[6.1.6 ok] > prod[6.1.5 ok]")
        .await;
}

/// Story 2: the state of an application across its environments, with all image tags.
#[tokio::test(start_paused = true)]
async fn story_2_state_and_image_tags() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "podinfo").await;
    deploy(&leaf, &release("podinfo", "app", "6.1.8")).await;
    for (name, image) in [("web", "example.com/web:6.1.8"), ("cache", "redis:7")] {
        create(&leaf, &json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "podinfo", "labels": {
                "helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": "podinfo",
            }},
            "spec": {
                "selector": {"matchLabels": {"a": name}},
                "template": {
                    "metadata": {"labels": {"a": name}},
                    "spec": {"containers": [{"name": "c", "image": image}]},
                },
            },
        }))
        .await;
    }
    world.pipeline("podinfo", spec("dev=dev/podinfo")).await;
    world.expect("podinfo", "dev[6.1.8 ok]").await;
    let status = world
        .pipelines()
        .get("podinfo")
        .await
        .unwrap()
        .status
        .unwrap();
    let app = &status.environments["dev"].targets[0].apps[0];
    assert_eq!(app.images, ["example.com/web:6.1.8", "redis:7"]);
}

/// Story 4: environments made up of several targets.
#[tokio::test(start_paused = true)]
async fn story_4_several_targets_per_environment() {
    let mut world = World::new().await;
    for (cluster, version) in [("dev-us", "2.0.0"), ("dev-eu", "1.9.0"), ("prod", "1.0.0")] {
        let leaf = world.leaf(cluster).await.client();
        namespace(&leaf, "podinfo").await;
        deploy(&leaf, &release("podinfo", "app", version)).await;
    }
    world
        .pipeline(
            "podinfo",
            spec("dev=dev-us/podinfo,dev-eu/podinfo > prod=prod/podinfo"),
        )
        .await;
    world
        .expect("podinfo", "dev[2.0.0 ok, 1.9.0 ok] > prod[1.0.0 ok]")
        .await;
}

/// Story 9: where an update has arrived, where it failed, at what stage it is.
#[tokio::test(start_paused = true)]
async fn story_9_where_an_update_is() {
    let mut world = World::new().await;
    let dev = world.leaf("dev").await.client();
    let prod = world.leaf("prod").await.client();
    for leaf in [&dev, &prod] {
        namespace(leaf, "podinfo").await;
        deploy(leaf, &release("podinfo", "app", "1.0.0")).await;
    }
    world
        .pipeline("podinfo", spec("dev=dev/podinfo > prod=prod/podinfo"))
        .await;
    world
        .expect("podinfo", "dev[1.0.0 ok] > prod[1.0.0 ok]")
        .await;
    let app = release("podinfo", "app", "1.0.0");
    set_status(&dev, &app, &released("1.1.0", true)).await;
    world
        .expect("podinfo", "dev[1.1.0 ok] > prod[1.0.0 ok]")
        .await;
    set_status(&prod, &app, &released("1.1.0", false)).await;
    let status = || async {
        world
            .pipelines()
            .get("podinfo")
            .await
            .unwrap()
            .status
            .unwrap()
    };
    while status().await.environments["prod"].targets[0]
        .failed
        .is_none()
    {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let status = status().await;
    let target = &status.environments["prod"].targets[0];
    assert_eq!(
        (target.ready, target.failed.as_deref()),
        (false, Some("1.1.0"))
    );
    let ran: Vec<_> = status.environments["dev"].ran_revisions().collect();
    assert_eq!(ran, ["1.1.0", "1.0.0"]);
}

/// Stories 11 and 12: chart versions and image tags across clusters, read off the statuses.
#[tokio::test(start_paused = true)]
async fn stories_11_and_12_versions_across_clusters() {
    let mut world = World::new().await;
    for (index, cluster) in ["a", "b", "c"].iter().enumerate() {
        let leaf = world.leaf(cluster).await.client();
        namespace(&leaf, "x").await;
        deploy(&leaf, &release("x", "app", &format!("1.{index}.0"))).await;
    }
    world.pipeline("all", spec("every=a/x,b/x,c/x")).await;
    world
        .expect("all", "every[1.0.0 ok, 1.1.0 ok, 1.2.0 ok]")
        .await;
}

/// Story 16: what artifact, in which version, is on its way.
#[tokio::test(start_paused = true)]
async fn story_16_artifact_and_version() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "podinfo").await;
    deploy(&leaf, &release("podinfo", "app", "6.1.8+1a2b3c4d5e6f")).await;
    world.pipeline("podinfo", spec("dev=dev/podinfo")).await;
    world.expect("podinfo", "dev[6.1.8+1a2b3c4d5e6f ok]").await;
    let status = world
        .pipelines()
        .get("podinfo")
        .await
        .unwrap()
        .status
        .unwrap();
    let target = &status.environments["dev"].targets[0];
    let app = target.cluster_app_ref.as_ref().unwrap();
    assert_eq!(
        (app.kind.as_str(), app.name.as_str()),
        ("HelmRelease", "app")
    );
    assert!(target.version.is_some());
}

/// RFC-0001's label mode: apps join a pipeline by their label.
#[tokio::test(start_paused = true)]
async fn labelled_apps_are_shown() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "podinfo").await;
    for (name, label) in [
        ("one", "pipelines.weave.works/pipeline"),
        ("two", "pipelines.wego.weave.works/pipeline"),
    ] {
        let mut app = release("podinfo", name, "1.0.0");
        app["metadata"]["labels"] = json!({label: "podinfo"});
        deploy(&leaf, &app).await;
    }
    deploy(&leaf, &release("podinfo", "unrelated", "9.9.9")).await;
    let mut spec = spec("dev=dev/podinfo");
    spec.as_object_mut().unwrap().remove("appRef");
    world.pipeline("podinfo", spec).await;
    world.expect("podinfo", "dev[1.0.0 ok]").await;
    let status = world
        .pipelines()
        .get("podinfo")
        .await
        .unwrap()
        .status
        .unwrap();
    let apps = &status.environments["dev"].targets[0].apps;
    assert_eq!(
        apps.iter().map(|app| app.name.as_str()).collect::<Vec<_>>(),
        ["one", "two"]
    );
}

/// A pipeline that names an old API version goes on working after Flux moved on.
#[tokio::test(start_paused = true)]
async fn the_served_version_is_found_out() {
    let mut world = World::new().await;
    let leaf = apiserver::Server::in_memory();
    world.serve("dev", leaf.client());
    world.register("dev", json!({})).await;
    create(
        &leaf.client(),
        &app_definition("helm.toolkit.fluxcd.io", "HelmRelease", &["v2", "v2beta2"]),
    )
    .await;
    namespace(&leaf.client(), "podinfo").await;
    deploy(&leaf.client(), &release("podinfo", "app", "1.0.0")).await;
    let mut spec = spec("dev=dev/podinfo");
    spec["appRef"]["apiVersion"] = json!("helm.toolkit.fluxcd.io/v2beta1");
    world.pipeline("podinfo", spec).await;
    world.expect("podinfo", "dev[1.0.0 ok]").await;
    let _ = &mut world;
}
